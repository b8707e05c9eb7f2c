"""A client's connection as its application sees it: a change at a time, in bounded queues or by callbacks.

async for change in client.states():
    print(change.state, change.broker, change.reason)
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal
from weakref import WeakSet

import msgspec

from holdfast.model.errors import MisuseError

State = Literal["connected", "disconnected", "reconnected", "moved"]
Callback = Callable[["StateChange"], object]

_UNREAD_MAX = 1_000  # changes that nobody has read; a connection that breaks twice a second gives as many in 4 minutes
_CALLBACKS_MAX = 1_000  # of one client: more are registered by mistake, again and again


class StateChange(msgspec.Struct, frozen=True, gc=False):
    """What has become of a client's connection."""

    state: State  # "moved" is reconnected, to another broker than before
    broker: str  # the broker it is connected to, or is not any more
    reason: str  # why it was disconnected, or why the session could not go on; empty otherwise
    time_us: int  # when, by our clock
    resumed: bool = False  # the session goes on: nothing was missed


class StateChanges:
    """The changes from now on, read with `async for`; the first one is what the connection is now."""

    def __init__(self, first: StateChange | None) -> None:
        self.dropped = 0  # changes that were not read in time
        self._items = deque([] if first is None else [first])
        self._closed = False
        self._filled = asyncio.Event()

    def put(self, change: StateChange) -> None:
        if len(self._items) >= _UNREAD_MAX:
            self._items.popleft()
            self.dropped += 1
        self._items.append(change)
        self._filled.set()

    def close(self) -> None:
        """End it; what was not read can still be."""
        self._closed = True
        self._filled.set()

    def __aiter__(self) -> "StateChanges":
        return self

    async def __anext__(self) -> StateChange:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._filled.clear()
            await self._filled.wait()
        return self._items.popleft()

    def __dir__(self) -> list[str]:
        return ["close", "dropped"]


class ConnectionState:
    """Hands each change to whoever wants to know."""

    def __init__(self) -> None:
        self._last: StateChange | None = None
        self._readers: WeakSet[StateChanges] = WeakSet()
        self._callbacks: dict[int, Callback] = {}
        self._next = 0
        self._closed = False

    def on_connected(self, broker: str, resumed: bool, reason: str, now_us: int) -> None:
        state: State = "connected"
        if self._last is not None:
            state = "reconnected" if self._last.broker == broker else "moved"
        self._notify(StateChange(state, broker, reason, now_us, resumed))

    def on_disconnected(self, reason: str, now_us: int) -> None:
        if self._last is not None:
            self._notify(StateChange("disconnected", self._last.broker, reason, now_us))

    def _notify(self, change: StateChange) -> None:
        self._last = change
        for reader in self._readers:
            reader.put(change)
        loop = asyncio.get_running_loop()
        for callback in self._callbacks.values():
            loop.call_soon(callback, change)  # so that one that fails does not break the connection

    def changes(self) -> StateChanges:
        reader = StateChanges(self._last)
        self._readers.add(reader)
        if self._closed:
            reader.close()
        return reader

    def call(self, callback: Callback) -> Callable[[], None]:
        """Call it with each change, until the function that is returned is called."""
        if not callable(callback):
            raise MisuseError(f"a callback is a function of a StateChange, not {type(callback).__name__}")
        if len(self._callbacks) >= _CALLBACKS_MAX:
            raise MisuseError(f"{_CALLBACKS_MAX:,} callbacks are registered already")
        self._next += 1
        number = self._next
        self._callbacks[number] = callback
        return lambda: self._callbacks.pop(number, None) and None

    def close(self) -> None:
        self._closed = True
        self._callbacks.clear()
        for reader in self._readers:
            reader.close()

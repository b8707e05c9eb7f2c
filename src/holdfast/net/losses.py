"""What was lost or may have been, for applications that want to know: a bounded queue that is read with `async for`.

What goes on for a while, such as a queue that overflows, is one entry that grows until it is read.
"""

import asyncio
from collections import deque

import msgspec

from holdfast.net.public_names import public_names

_KEPT_MAX = 10_000  # losses that nobody has read; a megabyte


class Loss(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Events that will not come, or may not: of one source by number, or of anybody by when they may have left."""

    source: str  # who published them; "" where it may be anybody
    first: int  # the lowest of their numbers; 0 where they are not known
    last: int  # and the highest
    reason: str  # in words
    since_us: int = 0  # where an absence is the cause: when it began, by our clock,
    until_us: int = 0  # and when it ended
    events: int = 0  # how many, where that is known and their numbers are not


class Growing:
    """A loss that goes on, until it is read."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self.since_us = self.until_us = self.events = 0
        self.was_read = False

    def grow(self, events: int, since_us: int, until_us: int) -> None:
        self.since_us = self.since_us or since_us
        self.until_us = until_us
        self.events += events

    def read(self) -> Loss:
        self.was_read = True
        return self.seen()

    def seen(self) -> Loss:
        """As far as it has grown."""
        return Loss("", 0, 0, self._reason, self.since_us, self.until_us, self.events)


class Losses:
    def __init__(self) -> None:
        self.dropped = 0  # that nobody has read in time
        self._items: deque[Loss | Growing] = deque()
        self._log: deque[tuple[int, Loss | Growing]] = deque(maxlen=_KEPT_MAX)  # the latest, read or not, and when
        self._closed = False
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._items)

    def since(self, time_us: int) -> tuple[Loss, ...]:
        """Those of the latest that came then or later, read or not."""
        return tuple(_seen(loss) for at_us, loss in self._log if at_us >= time_us)

    def put(self, loss: Loss | Growing, now_us: int) -> None:
        self._log.append((now_us, loss))
        if len(self._items) >= _KEPT_MAX:
            _read(self._items.popleft())
            self.dropped += 1
        self._items.append(loss)
        self._wake()

    def take(self) -> list[Loss]:
        """All that have come, without waiting."""
        items_read = list(map(_read, self._items))
        self._items.clear()
        return items_read

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def __repr__(self) -> str:
        return f"<Losses, {len(self._items):,} unread{', closed' if self._closed else ''}>"

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), "put", "close")

    def __aiter__(self) -> "Losses":
        return self

    async def __anext__(self) -> Loss:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return _read(self._items.popleft())


def _seen(loss: Loss | Growing) -> Loss:
    return loss.seen() if isinstance(loss, Growing) else loss


def _read(loss: Loss | Growing) -> Loss:
    return loss.read() if isinstance(loss, Growing) else loss

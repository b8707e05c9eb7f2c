"""A broker for programs without `async`: the same, with its event loop in a thread.

with holdfast.SyncBroker() as broker, holdfast.connect_sync(broker.address) as client:
    client.publish({"symbol": "IBM", "price": 119.5})
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from holdfast.model.errors import MisuseError
from holdfast.net.broker import EmbeddedBroker
from holdfast.net.loop_thread import LoopThread

T = TypeVar("T")


class SyncBroker(EmbeddedBroker):
    """A broker that runs in a thread of its own, from `with` or `start` on."""

    _thread: LoopThread | None = None

    def start(self) -> None:
        """Listen, and begin to dial; a TransportError when a port is not to be had."""
        if self._thread is not None:
            raise MisuseError(f"the broker {self.name} runs already")
        thread = LoopThread("broker")
        try:
            thread.do(self._start())
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Handle what has come, send what waits as far as others take it, and end."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.do(self._stop())
            finally:
                thread.stop()

    def connected_to(self, *names: str, timeout: float | None = None) -> None:
        """Wait until there are connections to these brokers and clients; TimeoutError after so many seconds."""
        self._running.do(self._connected_to(names, timeout))

    async def _connected_to(self, names: tuple[str, ...], timeout: float | None) -> None:
        async with asyncio.timeout(timeout):
            await self.node.connected_to(*names)

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            raise MisuseError(f"the broker {self.name} does not run; enter it with `with`, or start it")
        return self._thread

    def _do(self, function: Callable[[], T]) -> T:
        return self._running.call(function)

    def __enter__(self) -> "SyncBroker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

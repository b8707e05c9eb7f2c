"""What goes wrong in a burst over a bus: its server is killed and started again, subscribers are cut off."""

import asyncio
from dataclasses import dataclass
from time import perf_counter
from urllib.parse import urlsplit

from holdfast.carriers.servers import BusServer
from holdfast.nemesis.proxy import TcpProxy, Weather

DOWN_S = 1.0  # of the server
CUT_S = 10.0  # of the subscribers


@dataclass(frozen=True)
class Burst:
    events: int
    slow_per_s: int = 0  # that the second subscriber takes; 0: there is none
    troubled: bool = False


class Scene:
    """A server with a proxy before it, for one burst."""

    def __init__(self, server: BusServer, burst: Burst) -> None:
        self._server = server
        self._burst = burst
        parts = urlsplit(server.address)
        place = (parts.hostname or "", parts.port or 0)
        self._proxy = TcpProxy(lambda: place, Weather())
        self._tasks: list[asyncio.Task[None]] = []
        self.address = server.address
        self.through_proxy = ""
        self.cut_over = asyncio.Event()
        self.healed_s = 0.0  # when the last trouble was over, by `time.perf_counter`

    async def __aenter__(self) -> "Scene":
        host, port = await self._proxy.start()
        parts = urlsplit(self._server.address)
        self.through_proxy = parts._replace(netloc=f"{host}:{port}").geturl()
        if not self._burst.troubled:
            self.cut_over.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        self._proxy.close()

    def on_published(self, before: int, now: int) -> None:
        """So many have left."""
        if not self._burst.troubled:
            return
        for share, trouble in ((3, self._kill), (1.5, self._cut)):
            if before < self._burst.events / share <= now:
                self._tasks.append(asyncio.create_task(trouble()))

    async def _kill(self) -> None:
        self._server.kill()
        await asyncio.sleep(DOWN_S)
        await asyncio.to_thread(self._server.start)

    async def _cut(self) -> None:
        self._proxy.change(cut=True)
        await asyncio.sleep(CUT_S)
        self._proxy.change(cut=False)
        self.healed_s = perf_counter()
        self.cut_over.set()

"""A console that runs: once a second it looks at the network, puts what it sees on the board, and tells the pages."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic, time
from typing import Any

from holdfast.console.access import ConsoleAccess
from holdfast.console.board import Board
from holdfast.console.chart_points import ChartPoints
from holdfast.console.network_view import Look, NetworkView
from holdfast.console.server import Answer, ConsoleServer
from holdfast.net.address import Address

TICK_S = 1.0

LookNow = Callable[[], Awaitable[Look]]


class Console:
    """The board and its views; `serve` is called once there is a network to look at."""

    def __init__(self) -> None:
        self.board = Board()
        self.history = ChartPoints()
        self.network = NetworkView(self.board, self.history)
        self.server: ConsoleServer | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._ticked_s = monotonic()
        self._also: Callable[[float], None] = lambda passed_s: None

    async def serve(
        self,
        place: Address,
        access: ConsoleAccess,
        about: Mapping[str, Any],
        look: LookNow,
        also: Callable[[float], None] = lambda passed_s: None,
        asks: Mapping[str, Answer] | None = None,
        acts: Mapping[str, Answer] | None = None,
    ) -> ConsoleServer:
        """Listen and begin to look; `also` is told the seconds since the last time, once a second."""
        self.server = ConsoleServer(self.board, self.history, access, asks, acts)
        self.board.put("about", dict(about))
        self._also = also
        await self.server.start(place.host, place.port)
        self._ticking = asyncio.create_task(self._tick(look))
        return self.server

    async def _tick(self, look: LookNow) -> None:
        while True:
            seen = await look()
            self._show(seen)
            assert self.server is not None
            await self.server.tell()
            await asyncio.sleep(TICK_S)

    def _show(self, seen: Look) -> None:
        now_s = monotonic()
        passed_s, self._ticked_s = now_s - self._ticked_s, now_s
        self.board.advance()
        self.history.advance(time())
        self.network.look(seen)
        self._also(passed_s)
        self.board.put(
            "clock", {"time_s": round(time(), 1), "run_s": seen.time_s, "without_chart": self.history.refused}
        )

    async def stop(self, look: LookNow | None = None) -> None:
        """Pages are told that this is the end; with `look`, after a last look."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
            if look is not None:
                self._show(await look())
            self.board.advance()
            self.board.put("ended", {})
        if self.server is not None:
            await self.server.finish()
            await self.server.stop()

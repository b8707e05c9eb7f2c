"""How many connections a console may have, and how long one may say nothing: they are open files of the broker's.

The library that serves the pages waits for the rest of a request for as long as its sender likes.
"""

import asyncio
from time import monotonic
from typing import Any, cast

from aiohttp import web

_CONNECTIONS_MAX = 128  # twenty browsers with six connections each
_SILENT_S = 5.0  # without a request: a page asks again within a second, or opens another connection


class _TurnedAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


class ConsoleConnections:
    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._silent_s: dict[Any, float] = {}  # since when, by connection

    def __call__(self) -> asyncio.BaseProtocol:
        """For whoever listens: what serves a new connection."""
        room = len(self._server.connections) < _CONNECTIONS_MAX or self.close_silent(at_once=True)
        return self._server() if room else _TurnedAway()

    def close_silent(self, at_once: bool = False) -> bool:
        """Those that have had no complete request for a while; where others wait for their place, the oldest of all.

        Whether there were any.
        """
        closed, now_s = False, monotonic()
        open_ = [each for each in self._server.connections if each.transport is not None]
        silent = [each for each in open_ if each._current_request is None]
        self._silent_s = {each: self._silent_s.get(each, now_s) for each in silent}
        for at, each in enumerate(sorted(silent, key=self._silent_s.__getitem__)):
            if now_s - self._silent_s[each] > _SILENT_S or (at_once and at == 0):
                each.force_close()
                closed = True
        return closed

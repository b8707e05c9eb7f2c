"""The console over HTTP: the page and its parts, changes as server-sent events, and questions as JSON.

Whoever looks gets what the board has, once a second, as fast as it reads: what a page has not taken is not kept for it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any

from aiohttp import web

from holdfast.console.access import SESSION_S, ConsoleAccess, RequestRefused
from holdfast.console.board import Board
from holdfast.console.chart_points import ChartPoints
from holdfast.console.connections import ConsoleConnections
from holdfast.model.errors import HoldfastError, TransportError

PAGES_MAX = 32  # that look at once; each costs a few kilobytes a second
_WRITE_S = 30.0  # a page that takes nothing for so long is cut off; its browser comes back by itself
_LAST_WORD_S = 1.0  # for the last state, when the console ends: a page that reads takes it at once
_BODY_BYTES_MAX = 256 * 1024  # of a question: a condition, an event, a network file's changes
_BUFFER_BYTES_MAX = 64 * 1024  # of changes that a page has not taken
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]  # to a question that a page asks


class ConsoleServer:
    def __init__(
        self,
        board: Board,
        history: ChartPoints,
        access: ConsoleAccess,
        asks: Mapping[str, Answer] | None = None,
        acts: Mapping[str, Answer] | None = None,
    ) -> None:
        self.access = access
        self.pages = 0
        self._board = board
        self._history = history
        self._asks = dict(asks or {})
        self._acts = dict(acts or {})
        self._changed = asyncio.Condition()
        self._finished = False
        self._streams: set[asyncio.Task[Any]] = set()
        self._assets = {each.name: each.read_bytes() for each in (files(__package__) / "assets").iterdir()}
        self._runner: web.AppRunner | None = None
        self._connections: ConsoleConnections | None = None
        self._listener: asyncio.Server | None = None
        self.address = ""

    async def start(self, host: str, port: int) -> None:
        """Listen; a TransportError when the port is not to be had."""
        app = web.Application(middlewares=[self._guarded], client_max_size=_BODY_BYTES_MAX)
        app.router.add_get("/", self._asset)
        app.router.add_get("/assets/{name}", self._asset)
        app.router.add_get("/api/me", self._me)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/history", self._past)
        app.router.add_post("/api/session", self._session)
        app.router.add_post("/api/ask/{name}", self._ask)
        app.router.add_post("/api/act/{name}", self._act)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, handler_cancellation=True, auto_decompress=False
        )
        await self._runner.setup()
        assert self._runner.server is not None
        self._connections = ConsoleConnections(self._runner.server)
        try:
            self._listener = await asyncio.get_running_loop().create_server(self._connections, host, port)
        except OSError as problem:
            await self._runner.cleanup()
            raise TransportError(f"cannot serve the console on {host}:{port}: {problem.strerror or problem}") from None
        self.access.port = self._listener.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.access.port}/"

    @property
    def address_with_token(self) -> str:
        """Behind the # nothing is sent to any server, nor written into its log."""
        return f"{self.address}#token={self.access.token}"

    async def finish(self) -> None:
        """What the board has now is the last: pages get it, and then nothing more."""
        self._finished = True
        await self.tell()
        if self._streams:
            await asyncio.wait(set(self._streams), timeout=_LAST_WORD_S)

    async def stop(self) -> None:
        for stream in list(self._streams):
            stream.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def tell(self) -> None:
        """The board has changed, as it does once a second."""
        if self._connections is not None:
            self._connections.close_silent()
        async with self._changed:
            self._changed.notify_all()

    # Requests ------------------------------------------------------------------------------------

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self.access.check(request.method, request.headers)
            response = await handler(request)
        except RequestRefused as refused:
            response = web.json_response({"problem": str(refused)}, status=refused.code)
        except HoldfastError as problem:
            response = web.json_response({"problem": str(problem)}, status=422)
        except web.HTTPException as problem:
            response = web.json_response({"problem": problem.reason}, status=problem.status)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _check_reads(self, request: web.Request) -> None:
        if not self.access.rights(request.cookies).reads:
            raise RequestRefused(401, "this needs the token that was printed when the console started")

    async def _asset(self, request: web.Request) -> web.Response:
        """The page itself is no secret: it asks for the token."""
        name = request.match_info.get("name", "index.html")
        if name not in self._assets:
            raise web.HTTPNotFound
        kind = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        return web.Response(body=self._assets[name], content_type=kind, charset="utf-8")

    async def _me(self, request: web.Request) -> web.Response:
        rights = self.access.rights(request.cookies)
        answers = {"reads": rights.reads, "acts": rights.acts, "can_act": bool(self._acts), "asks": sorted(self._asks)}
        return web.json_response(answers)

    async def _session(self, request: web.Request) -> web.Response:
        given = await _body(request)
        session = self.access.open_session(str(given.get("token", "")))
        response = web.json_response({})
        response.set_cookie(
            self.access.cookie, session, max_age=round(SESSION_S), httponly=True, samesite="Strict", path="/"
        )
        return response

    async def _past(self, request: web.Request) -> web.Response:
        self._check_reads(request)
        return web.json_response(self._history.of(request.query.get("key", "")))

    async def _ask(self, request: web.Request) -> web.Response:
        self._check_reads(request)
        return await _answered(request, self._asks)

    async def _act(self, request: web.Request) -> web.Response:
        if not self._acts:
            raise RequestRefused(403, "this console only shows; start it with --act to try things")
        if not self.access.rights(request.cookies).acts:
            raise RequestRefused(401, "acting needs the token that was printed when the console started")
        return await _answered(request, self._acts)

    # The stream ----------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        self._check_reads(request)
        if self.pages >= PAGES_MAX:
            raise RequestRefused(503, f"{PAGES_MAX} pages look already; close one")
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        transport = request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=_BUFFER_BYTES_MAX)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        self.pages += 1
        try:
            with suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                await self._feed(response)
        finally:
            self.pages -= 1
            self._streams.discard(task)
            if transport is not None and not self._finished:
                transport.abort()  # nothing waits for a page that reads nothing
        return response

    async def _feed(self, response: web.StreamResponse) -> None:
        version: int | None = None
        while True:
            changes = self._board.since(version)
            version = changes.version
            told = {"version": version, "whole": changes.whole, "skipped": changes.skipped, "entries": changes.entries}
            async with asyncio.timeout(_WRITE_S):
                await response.write(f"data: {json.dumps(told, separators=(',', ':'))}\n\n".encode())
            if self._finished and self._board.version == version:
                return
            async with self._changed:
                while self._board.version == version and not self._finished:
                    await self._changed.wait()


async def _body(request: web.Request) -> Mapping[str, Any]:
    try:
        found = json.loads(await request.read())  # UTF-8, whatever its sender says
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RequestRefused(400, "expected a JSON object")
    return found


async def _answered(request: web.Request, answers: Mapping[str, Answer]) -> web.Response:
    answer = answers.get(request.match_info["name"])
    if answer is None:
        raise RequestRefused(404, "nothing of this name can be asked of this console")
    return web.json_response(await answer(await _body(request)))

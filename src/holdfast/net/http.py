"""Just enough HTTP to be asked how one is: GET and HEAD of a few fixed paths, one request a connection.

For monitoring systems on a trusted network: no TLS, no authentication, nothing can be changed through it. Requests
are small and few; whoever sends a long one or a slow one is cut off, and where there are too many at once, who has been
there longest without asking. A host that asks too often is told so.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from holdfast.model.errors import InputError, TransportError
from holdfast.net.address import Address, parse_address
from holdfast.net.tcp import why_not
from holdfast.trust.budget import BudgetSettings, Meter

_REQUEST_BYTES_MAX = 8 * 1024  # what the usual servers allow for a request's head
_REQUEST_S_MAX = 5.0  # from connecting to the end of the head, and again for the answer to leave
_CONNECTIONS_MAX = 256  # a few monitoring systems that ask once every few seconds, and those that hang

_HOSTS_MAX = 1_000  # whose requests are counted; then who came first is forgotten
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class HttpResponse:
    body: str
    content_type: str = "application/json"
    code: int = 200


Pages = Mapping[str, Callable[[], HttpResponse]]


def parse_place(text: str) -> Address:
    """`HOST:PORT`, as an address to listen on."""
    try:
        return parse_address(f"tcp://{text}")
    except InputError as problem:
        if "port" in str(problem) and "not an address" not in str(problem):
            raise
        raise InputError(f"{text!r} is not a place to listen; write it as HOST:PORT, such as 127.0.0.1:9100") from None


class HttpServer:
    def __init__(self, server: asyncio.Server, host: str) -> None:
        self._server = server
        host = f"[{host}]" if ":" in host else host
        self.address = f"http://{host}:{server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        self._server.close()


class _Requests:
    """How often each host asks."""

    def __init__(self, most_s: int, on_refused: Callable[[str], None]) -> None:
        self._most_s = most_s
        self._on_refused = on_refused
        self._meters: dict[str, Meter] = {}

    def may_ask(self, host: str) -> bool:
        meter = self._meters.setdefault(host, Meter(self._most_s))
        if len(self._meters) > _HOSTS_MAX:
            del self._meters[next(iter(self._meters))]
        allowed = meter.spend(0, monotonic(), may_wait=False) <= 0
        if not allowed:
            self._on_refused(host)
        return allowed


async def listen(
    place: Address,
    pages: Pages,
    requests_s: int = BudgetSettings.http_requests_s,
    on_refused: Callable[[str], None] = lambda host: None,
) -> HttpServer:
    """Serve these pages, so often to one host; a TransportError when the port is not to be had."""
    requests = _Requests(requests_s, on_refused)
    silent: dict[asyncio.StreamWriter, None] = {}  # who has not asked yet, the longest there first

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent[writer] = None
        if len(silent) > _CONNECTIONS_MAX:
            next(iter(silent)).transport.abort()  # who asks does so at once
        try:
            with suppress(TimeoutError, OSError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_REQUEST_S_MAX):
                    head = await reader.readuntil(b"\r\n\r\n")
                silent.pop(writer, None)
                far = writer.get_extra_info("peername")
                if requests.may_ask(far[0] if far else "?"):
                    await _answer(*_asked(head, pages), writer)
                else:
                    await _answer("GET", _plain(429, f"more than {requests_s:,} requests a second"), writer)
        finally:
            silent.pop(writer, None)
            writer.close()

    try:
        server = await asyncio.start_server(on_connection, place.host, place.port, limit=_REQUEST_BYTES_MAX)
    except OSError as problem:
        where = f"{place.host}:{place.port}"
        raise TransportError(f"cannot serve metrics on {where}: {why_not(problem)}") from None
    return HttpServer(server, place.host)


async def _answer(method: str, answer: HttpResponse, writer: asyncio.StreamWriter) -> None:
    body = answer.body.encode()
    lines = [
        f"HTTP/1.1 {answer.code} {_REASONS[answer.code]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
    async with asyncio.timeout(_REQUEST_S_MAX):
        await writer.drain()


def _asked(head: bytes, pages: Pages) -> tuple[str, HttpResponse]:
    method, *rest = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(rest) != 2 or not rest[1].startswith("HTTP/1."):
        return method, _plain(400, "not an HTTP request")
    page = pages.get(rest[0].partition("?")[0])
    if page is None:
        return method, _plain(404, f"not found; there are {', '.join(pages)}")
    if method not in ("GET", "HEAD"):
        return method, _plain(405, "only GET is allowed")
    return method, page()


def _plain(code: int, text: str) -> HttpResponse:
    return HttpResponse(f"{text}\n", "text/plain; charset=utf-8", code)

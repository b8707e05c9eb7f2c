"""Just enough HTTP to be asked how one is: GET and HEAD of a few fixed paths, one request a connection.

For monitoring systems on a trusted network: no TLS, no authentication, nothing can be changed through it. Requests
are small and few; whoever sends a long one or a slow one is cut off, and where there are too many at once, who has been
there longest without asking.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdfast.model.errors import InputError, TransportError
from holdfast.net.address import Address, parse_address
from holdfast.net.tcp import why_not

_REQUEST_BYTES_MAX = 8 * 1024  # what the usual servers allow for a request's head
_REQUEST_S_MAX = 5.0  # from connecting to the end of the head, and again for the answer to leave
_CONNECTIONS_MAX = 256  # a few monitoring systems that ask once every few seconds, and those that hang

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


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


async def listen(place: Address, pages: Pages) -> HttpServer:
    """Serve these pages; a TransportError when the port is not to be had."""
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
                await _answer(head, writer, pages)
        finally:
            silent.pop(writer, None)
            writer.close()

    try:
        server = await asyncio.start_server(on_connection, place.host, place.port, limit=_REQUEST_BYTES_MAX)
    except OSError as problem:
        where = f"{place.host}:{place.port}"
        raise TransportError(f"cannot serve metrics on {where}: {why_not(problem)}") from None
    return HttpServer(server, place.host)


async def _answer(head: bytes, writer: asyncio.StreamWriter, pages: Pages) -> None:
    method, answer = _asked(head.split(b"\r\n", 1)[0].decode("latin-1"), pages)
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


def _asked(line: str, pages: Pages) -> tuple[str, HttpResponse]:
    method, *rest = line.split(" ")
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

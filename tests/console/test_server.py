"""The console over real sockets, without a browser."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest.mock import patch

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="the extra `console` is not installed")

from holdfast.console import connections  # noqa: E402
from holdfast.console import server as serving  # noqa: E402
from holdfast.console.access import ConsoleAccess  # noqa: E402
from holdfast.console.board import Board  # noqa: E402
from holdfast.console.broker_console import BrokerConsole, StatusPoller  # noqa: E402
from holdfast.console.chart_points import ChartPoints  # noqa: E402
from holdfast.console.server import ConsoleServer  # noqa: E402
from holdfast.model.errors import InputError, TransportError  # noqa: E402
from holdfast.net.address import Address  # noqa: E402
from holdfast.net.watching import watch  # noqa: E402
from tests.net.harness import lab, live, until  # noqa: E402


async def echo(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if given.get("wrong"):
        raise InputError("this is wrong")
    return {"said": given}


@asynccontextmanager
async def served(host: str = "127.0.0.1", acts: bool = False) -> AsyncIterator[tuple[Board, ConsoleServer]]:
    board = Board()
    made = ConsoleServer(
        board, ChartPoints(), ConsoleAccess(host, acts), {"echo": echo}, {"echo": echo} if acts else None
    )
    await made.start(host, 0)
    try:
        yield board, made
    finally:
        await made.stop()


def own(made: ConsoleServer) -> dict[str, str]:
    return {"Origin": made.address.rstrip("/")}


@live
async def test_the_page_and_its_parts_come_with_a_strict_policy() -> None:
    async with served() as (_, made), aiohttp.ClientSession() as session:
        for path, kind in (
            ("", "text/html"),
            ("assets/main.js", "text/javascript"),
            ("assets/console.css", "text/css"),
        ):
            async with session.get(made.address + path) as answer:
                assert (answer.status, answer.content_type) == (200, kind)
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                text = await answer.text()
                assert "//cdn" not in text and "https://" not in text  # nothing from the net
        async with session.get(made.address + "assets/../server.py") as answer:
            assert answer.status == 404


@live
async def test_questions_are_answered_and_mistakes_named() -> None:
    async with served() as (_, made), aiohttp.ClientSession(headers=own(made)) as session:
        async with session.post(made.address + "api/ask/echo", json={"a": 1}) as answer:
            assert await answer.json() == {"said": {"a": 1}}
        async with session.post(made.address + "api/ask/echo", json={"wrong": True}) as answer:
            assert (answer.status, await answer.json()) == (422, {"problem": "this is wrong"})
        for path, body, code in (("nothing", {}, 404), ("echo", [1], 400)):
            async with session.post(f"{made.address}api/ask/{path}", json=body) as answer:
                assert answer.status == code
        async with session.post(made.address + "api/ask/echo", data=b"x" * 1_000_000, headers=_JSON) as answer:
            assert answer.status == 413
        async with session.post(made.address + "api/act/echo", json={}) as answer:
            assert answer.status == 403 and "--act" in (await answer.json())["problem"]


_JSON = {"Content-Type": "application/json"}


@live
async def test_a_body_that_cannot_be_read_is_refused_and_json_is_utf_8_whatever_is_said() -> None:
    async with served() as (_, made), aiohttp.ClientSession(headers=own(made)) as session:
        for headers, body, code in (
            (_JSON | {"Content-Encoding": "gzip"}, b"no gzip", 400),
            (_JSON, b"\xff", 400),
            ({"Content-Type": "application/json; charset=nonsense"}, '{"a": "ü"}'.encode(), 200),
        ):
            async with session.post(made.address + "api/ask/echo", data=body, headers=headers) as answer:
                assert answer.status == code
                told = await answer.json()
        assert told == {"said": {"a": "ü"}}


@live
async def test_acting_needs_the_token_and_reading_elsewhere_does_too() -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of a bare address
    async with served(acts=True) as (_, made), aiohttp.ClientSession(headers=own(made), cookie_jar=jar) as session:
        async with session.post(made.address + "api/act/echo", json={}) as answer:
            assert answer.status == 401
        async with session.post(made.address + "api/session", json={"token": "no"}) as answer:
            assert answer.status == 403
        async with session.post(made.address + "api/session", json={"token": made.access.token}) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        async with session.post(made.address + "api/act/echo", json={"b": 2}) as answer:
            assert await answer.json() == {"said": {"b": 2}}
    async with served("0.0.0.0") as (_, made), aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{made.access.port}/"
        for path in ("api/stream", "api/history?key=a"):
            async with session.get(url + path) as answer:
                assert answer.status == 401
        async with session.get(url) as answer:
            assert answer.status == 200  # the page asks for the token


@live
async def test_another_origin_and_another_name_are_refused() -> None:
    async with served() as (_, made), aiohttp.ClientSession() as session:
        for headers, code in (({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
            for path in ("", "api/stream", "api/me"):
                async with session.get(made.address + path, headers=headers) as answer:
                    assert answer.status == code, (path, headers)


async def events(answer: Any) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.content:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


@live
async def test_changes_are_streamed_as_they_happen() -> None:
    async with served() as (board, made), aiohttp.ClientSession() as session:
        board.put("a", {"n": 1})
        async with session.get(made.address + "api/stream") as answer:
            told = events(answer)
            first = await anext(told)
            assert first["whole"] and first["entries"] == {"a": {"n": 1}}
            board.advance()
            board.put("a", {"n": 2})
            await made.tell()
            assert (await anext(told))["entries"] == {"a": {"n": 2}}
        await until(lambda: made.pages == 0)


@live
async def test_pages_get_the_last_state_before_the_console_ends() -> None:
    async with served() as (board, made), aiohttp.ClientSession() as session:
        async with session.get(made.address + "api/stream") as answer:
            told = events(answer)
            await anext(told)
            board.advance()
            board.put("ended", {})
            await made.finish()
            assert [each["entries"] async for each in told] == [{"ended": {}}]  # and then the answer is over
        assert made.pages == 0


@live
async def test_a_page_that_never_reads_costs_a_bounded_buffer_and_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_WRITE_S", 0.5)
    async with served() as (board, made):
        with socket.socket() as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            idle.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(idle, ("127.0.0.1", made.access.port))
            await loop.sock_sendall(
                idle, f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:{made.access.port}\r\n\r\n".encode()
            )
            await until(lambda: made.pages == 1)
            began = loop.time()
            while made.pages and loop.time() < began + 30:
                board.advance()
                board.put("a", {"text": "x" * 100_000, "n": board.version})
                await made.tell()
                await asyncio.sleep(0.005)
            assert made.pages == 0  # cut off, while everybody else was told in time


@live
async def test_only_so_many_pages_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "PAGES_MAX", 1)
    async with served() as (_, made), aiohttp.ClientSession() as session, session.get(made.address + "api/stream"):
        await until(lambda: made.pages == 1)
        async with session.get(made.address + "api/stream") as second:
            assert second.status == 503


@live
async def test_a_port_in_use_is_told() -> None:
    async with served() as (_, made):
        with pytest.raises(TransportError, match="cannot serve the console"):
            await ConsoleServer(Board(), ChartPoints(), ConsoleAccess("127.0.0.1", False)).start(
                "127.0.0.1", made.access.port
            )


@live
async def test_the_console_of_brokers_sees_them_their_link_and_who_does_not_answer() -> None:
    async with lab() as bench:
        b1, b2 = await bench.pair()
        watched = [await watch(each, Address("tcp", "127.0.0.1", 0)) for each in (b1, b2)]
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{closed.getsockname()[1]}"
            places = [*(each.address for each in watched), nobody]
            told_on_stderr: list[str] = []
            console = BrokerConsole(Address("tcp", "127.0.0.1", 0), StatusPoller(places, told_on_stderr.append))
            made = await console.start()
            try:
                async with aiohttp.ClientSession() as session, session.get(made.address + "api/stream") as answer:
                    entries: dict[str, Any] = {}
                    async for told in events(answer):
                        entries |= told["entries"]
                        if entries.get("link/b1~b2", {}).get("per_s"):  # heartbeats
                            break
                assert entries["broker/b1"]["state"] == entries["link/b1~b2"]["state"] == "up"
                assert entries[f"broker/{nobody}"]["state"] == "down"
                assert "does not answer" in entries[f"broker/{nobody}"]["why"]
                [words] = told_on_stderr  # once, although it was asked every second
                assert words.startswith(f"{nobody} does not answer: connection refused; is it the --metrics place")
            finally:
                await console.stop()
        for each in watched:
            each.close()


@live
async def test_connections_that_say_nothing_make_room_for_those_that_ask() -> None:
    async with lab() as bench:
        console = BrokerConsole(Address("tcp", "127.0.0.1", 0), await bench.broker("b1"))
        made = await console.start()
        hanging = []
        try:
            for _ in range(150):  # more than there is room for
                reader, writer = await asyncio.open_connection("127.0.0.1", made.access.port)
                writer.write(b"GET /")
                hanging.append((reader, writer))
            async with aiohttp.ClientSession() as session, session.get(made.address) as answer:
                assert answer.status == 200
            ended = [each for each, _ in hanging if each.at_eof() or each.exception() is not None]
            assert len(ended) >= 150 - 128
            with patch.object(connections, "_SILENT_S", 0.0):
                await asyncio.gather(*[_over(each) for each, _ in hanging])
        finally:
            for _, writer in hanging:
                writer.close()
            await console.stop()


async def _over(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()

"""The console of a run, over its own API: what it sees, answers and does, with real brokers in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="the extra `console` is not installed")

from holdfast.books.live import LiveBooks  # noqa: E402
from holdfast.cli import _with_values  # noqa: E402
from holdfast.cli.up import hosts, impairments  # noqa: E402
from holdfast.console.run_console import RunConsole  # noqa: E402
from holdfast.model.errors import HoldfastError  # noqa: E402
from holdfast.net.address import Address  # noqa: E402
from holdfast.net.clock import Clock  # noqa: E402
from holdfast.net.live import LiveRun  # noqa: E402
from holdfast.network.load import parse_text  # noqa: E402
from tests.console.browsers import NETWORK  # noqa: E402
from tests.net.harness import live, until  # noqa: E402

PLACE = Address("tcp", "127.0.0.1", 0)


class Page:
    """What a page does, without a browser."""

    def __init__(self, session: Any, url: str) -> None:
        self._session = session
        self._url = url
        self.entries: dict[str, Any] = {}

    async def read(self) -> None:
        async with self._session.get(f"{self._url}api/stream") as answer:
            async for line in answer.content:
                if line.startswith(b"data: "):
                    told = aiohttp.typedefs.DEFAULT_JSON_DECODER(line[6:])
                    self.entries |= told["entries"]

    async def ask(self, path: str, **given: Any) -> Any:
        async with self._session.post(f"{self._url}api/{path}", json=given) as answer:
            found = await answer.json()
            if answer.status != 200:
                raise HoldfastError(found["problem"])
            return found

    def state(self, broker: str) -> str:
        return str((self.entries.get(f"broker/{broker}") or {}).get("state"))


@asynccontextmanager
async def running(acts: bool = True) -> AsyncIterator[tuple[Page, LiveRun]]:
    network = parse_text(NETWORK)
    console = RunConsole(network, PLACE, acts)
    clock, books = Clock(), LiveBooks(None, onlooker=console.streams)
    run = LiveRun(network, 1, hosts(network, None, impairments(1), clock, books), books, clock)
    await run.start()
    books.begin(run.zero_us)
    stop = asyncio.Event()
    working = asyncio.create_task(run.run(stop, lambda: None))
    server = await console.start(run)
    headers = {"Origin": server.address.rstrip("/")}
    async with aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        page = Page(session, server.address)
        if acts:
            await page.ask("session", token=server.access.token)
        reading = asyncio.create_task(page.read())
        try:
            yield page, run
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await console.stop()
            with suppress(aiohttp.ClientError):  # of a page that came as the console went
                await asyncio.wait_for(reading, 10)  # the stream ends with the console
            await run.stop()


@pytest.mark.slow
@live
async def test_a_broker_is_killed_and_replaced_and_what_is_published_arrives() -> None:
    async with running() as (page, _):
        await until(lambda: page.state("hub") == "up" and page.entries.get("total", {}).get("delivered", 0) > 0)
        assert {page.state(name) for name in ("hub", "north", "east", "west")} == {"up"}
        assert page.entries["link/east~hub"]["state"] == "up"
        await page.ask("act/subscribe", broker="west", condition="mine = 1")
        asked = await page.ask("ask/condition", condition="price > 60", broker="east")
        assert asked["covering"][0]["client"] == "desk-east" and asked["brokers"][0]["broker"]
        await page.ask("act/kill", broker="hub")
        await until(lambda: page.state("hub") == "replaced")  # within a second here, so that "down" may be missed
        assert "crash" in [each["kind"] for each in page.entries["incidents"]["latest"]]
        replica = page.entries["broker/hub"]["replaced_by"]
        await until(lambda: page.state(replica) == "up")
        assert page.entries["client/desk-hub"]["broker"] == replica
        await page.ask("act/publish", broker="north", event={"mine": 1})
        await until(lambda: bool(page.entries["tried"]["arrivals"]))
        arrival = page.entries["tried"]["arrivals"][0]
        assert (arrival["source"], arrival["attributes"]) == ("console-north", {"mine": 1})
        why = await page.ask("ask/why", source="console-north", seq=arrival["seq"], client="desk-east", id="s1")
        assert (why["stopped_by"], why["details"]) == ("constraint", ["price > 50: price is missing"])
        with pytest.raises(HoldfastError, match='no broker "hubb" that runs'):
            await page.ask("act/kill", broker="hubb")


@live
async def test_what_several_try_at_one_broker_at_once_is_done_for_all_of_them() -> None:
    async with running() as (page, _):
        wanted = [page.ask("act/subscribe", broker="west", condition=f"mine = {each}") for each in range(5)]
        subscribed = await asyncio.gather(*wanted)
        assert len({each["id"] for each in subscribed}) == 5
        await page.ask("act/publish", broker="west", event={"mine": 3})
        await until(lambda: any(each["attributes"].get("mine") == 3 for each in page.entries["tried"]["arrivals"]))


@live
async def test_a_link_is_broken_and_mended_and_nobody_acts_without_act() -> None:
    async with running() as (page, run):
        await until(lambda: page.state("hub") == "up")
        await page.ask("act/link", a="hub", b="east", up=False)
        await until(lambda: page.entries.get("link/east~hub", {}).get("state") == "cut")
        await page.ask("act/link", a="hub", b="east", up=True)
        await until(lambda: page.entries["link/east~hub"]["state"] == "up")
        with pytest.raises(HoldfastError, match="no link between"):
            await page.ask("act/link", a="north", b="east", up=False)
        assert not run.cut_links
    async with running(acts=False) as (page, _):
        with pytest.raises(HoldfastError, match="--act"):
            await page.ask("act/kill", broker="hub")


@live
async def test_the_last_that_a_page_gets_is_that_the_run_has_ended_and_how_far_it_came() -> None:
    async with running() as (page, _):
        await until(lambda: page.entries.get("total", {}).get("published", 0) > 0)
        published = page.entries["total"]["published"]
    assert page.entries["ended"] == {} and page.entries["total"]["published"] >= published


def test_console_may_stand_without_a_value() -> None:
    assert _with_values(["up", "net.toml", "--console"]) == ["up", "net.toml", "--console=on"]
    assert _with_values(["demo", "--console", "--act"]) == ["demo", "--console=on", "--act"]
    given = ["up", "net.toml", "--console", "127.0.0.1:0", "--act"]
    assert _with_values(given) == given


def test_every_asset_is_in_the_package() -> None:
    from importlib.resources import files

    found = {each.name for each in (files("holdfast.console") / "assets").iterdir()}
    page = (files("holdfast.console") / "assets" / "index.html").read_text()
    assert {"main.js", "console.css", "icon.svg"} <= found
    assert all(f"assets/{name}" in page for name in ("main.js", "console.css", "icon.svg"))
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '"console/assets/*"' in project

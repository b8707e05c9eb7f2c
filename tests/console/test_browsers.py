"""Every view in real browsers: it works, fits, is accessible, and shows a broker that dies and is replaced."""

import sys
from pathlib import Path

import pytest

from tests.console.browsers import BROWSERS, NETWORK, PROGRAM, console_of, drive, process_of, started

pytest.importorskip("aiohttp", reason="the extra `console` is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("browser", BROWSERS)
def test_every_view_works_fits_and_is_accessible_and_a_killed_broker_heals(browser: str, tmp_path: Path) -> None:
    network = tmp_path / "square.toml"
    network.write_text(NETWORK)
    with console_of(network) as url:
        told = drive("views.mjs", browser, url)
    assert told["messages"] == []
    assert {view: found for view, found in told["violations"].items() if found} == {}
    for view, (wide, narrow) in told["widths"].items():
        assert (wide <= 1400, narrow <= 400) == (True, True), view
    did = told["did"]
    assert did["lamps"] == 8 and did["delivered"].endswith("/s") and did["arrived"]
    assert "events match" in did["asked"] and "before" in did["planned"]
    assert (did["before"], did["killed"], did["healed"]) == ("up", "down", "replaced")


@pytest.mark.slow
@pytest.mark.parametrize("browser", BROWSERS)
def test_a_page_says_that_its_run_has_ended_and_keeps_the_last_state(browser: str, tmp_path: Path) -> None:
    network = tmp_path / "square.toml"
    network.write_text(NETWORK)
    with process_of([*PROGRAM, "up", str(network), "--console", "127.0.0.1:0"]) as (url, pid):
        told = drive("ending.mjs", browser, url, str(pid))
    assert told["notice"].startswith("the run has ended after") and not told["faded"]
    assert int(told["published"].split()[0]) > 0
    assert told["planned"].startswith("the console does not answer")
    assert all("Failed to load" in each or "NetworkError" in each for each in told["messages"])  # of that question


@pytest.mark.slow
def test_two_hundred_brokers_are_drawn_without_blocking_the_page_and_without_growing() -> None:
    with started([sys.executable, "-m", "tests.console.many_brokers", "200"]) as url:
        told = drive("many.mjs", "chromium", url)
    assert (told["messages"], told["brokers"], told["named"], told["grown"]) == ([], 200, "b7", 0)
    assert told["blocked"] < 200  # milliseconds, of one update on a busy machine; 50 and more are noticed

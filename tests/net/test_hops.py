"""Reliability from broker to broker, live: `holdfast up` with links that lose much."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.books.promises import check
from holdfast.net.status import status_of
from holdfast.protocol.hops.settings import HopSettings
from tests.net.harness import lab, live, take, values

PATIENCE_S = 120.0
PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]

FILE = """
name = "four"
seed = 3
duration_s = 2.5
routing = "subscriptions"

[topology]
kind = "listed"
brokers = ["b1", "b2", "b3", "b4"]
links = [["b1", "b2"], ["b2", "b3"], ["b3", "b4"]]

[links]
delay_ms = 2
loss = 0.2
lossy_control = false

[reliability]
hops = "nack"

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.01, at_s = 0.5, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b4"
subscriptions = ["n = 1"]
"""


def up(path: Path, *arguments: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    command = [*PROGRAM, "up", str(path), "--json", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=patience_s, check=False)
    assert found.returncode == 0, found.stderr
    outcome: dict[str, Any] = json.loads(found.stdout)
    return outcome


@pytest.mark.parametrize(
    ("transport", "where"), [("udp", ["--in-process"]), pytest.param("tcp", [], marks=pytest.mark.slow)]
)
def test_links_that_repair_themselves_deliver_everything_live(tmp_path: Path, transport: str, where: list[str]) -> None:
    path, out = tmp_path / "net.toml", tmp_path / "run"
    path.write_text(FILE)
    found = up(path, *where, "--set", f"transport.kind={transport}", "--out", str(out))
    assert found["owed"] == found["delivered"]
    assert found["owed"] > 100
    assert found["recovered"]["retransmission"] > 20
    assert found["messages"]["Resent"]["sent"] > 20
    verdicts = check(out)
    assert all(verdicts[promise].holds for promise in ("P1", "P2", "P4", "P7"))


def killed(times: int, brokers: int, first_s: float, every_s: float, down_s: float, seed: int) -> str:
    """A line of brokers that store events, and so many kills of some of them."""
    dice = Random(seed)
    names = [f"b{number}" for number in range(1, brokers + 1)]
    links = [[a, b] for a, b in pairwise(names)]
    end_s = first_s + times * every_s + 5  # quiet for so long that the judge waits for no more
    faults = "".join(
        f'[[fault]]\nat_s = {first_s + number * every_s + dice.random() * every_s / 4:.6f}\nkind = "crash"\n'
        f'broker = "{dice.choice(names)}"\nfor_s = {down_s}\n'
        for number in range(times)
    )
    return f"""
seed = {seed}
duration_s = {end_s}
[topology]
kind = "listed"
brokers = {names}
links = {links}
[links]
delay_ms = 1
[transport]
kind = "tcp"
[reliability]
hops = "retransmission"
[[client]]
id = "p"
broker = "b1"
publish = [{{ every_s = 0.01, at_s = 0.5, attributes = {{ n = 1 }} }}]
[[client]]
id = "s"
broker = "{names[-1]}"
subscriptions = ["n = 1"]
[[client]]
id = "t"
broker = "b1"
subscriptions = ["n > 0"]
{faults}"""


def nothing_acknowledged_is_lost(found: dict[str, Any], out: Path) -> None:
    assert found["incidents"]["crash"] == found["incidents"]["restart"]
    assert found["owed"] == found["delivered"] > 100
    assert (found["lost"], found["duplicates"], found["fifo_violations"]) == (0, 0, 0)
    assert found["incidents"]["acknowledged"] == found["published"]
    verdicts = check(out, strict_order=True)
    assert all(verdicts[promise].holds for promise in ("P1", "P2", "P3", "P4", "P5", "P7"))
    assert verdicts["P5"].checked > 100


@pytest.mark.parametrize(
    ("where", "times", "every_s"),
    [
        (["--in-process"], 4, 0.5),
        pytest.param([], 2, 5.0, marks=pytest.mark.slow),
    ],
)
def test_brokers_that_are_killed_lose_nothing_that_they_acknowledged(
    tmp_path: Path, where: list[str], times: int, every_s: float
) -> None:
    path, out = tmp_path / "net.toml", tmp_path / "run"
    path.write_text(killed(times, 3, 1.6, every_s, 0.2, 5))  # when the network knows the subscriptions
    nothing_acknowledged_is_lost(up(path, *where, "--out", str(out)), out)


@pytest.mark.slow
def test_hundreds_of_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Each process is really killed; starting one takes a second or two, so this takes its time."""
    path, out = tmp_path / "net.toml", tmp_path / "run"
    path.write_text(killed(200, 3, 1, 4.0, 0.1, 6))
    nothing_acknowledged_is_lost(up(path, "--out", str(out), patience_s=3_600), out)


@live
async def test_who_has_flushed_is_known_to_a_broker_that_stores_events(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await net.broker("b1", hops=HopSettings("retransmission"), store=tmp_path / "b1.db")
        feed, desk = await net.client(broker, durable=True), await net.client(broker, durable=True)
        wanted = desk.subscribe("n > 0")
        await desk.flush()
        known, _ = status_of(broker).gauges["filters of a neighbour"]
        assert known == 1
        await feed.publish({"n": 1})
        await feed.flush()
        assert values(await take(wanted, 1)) == [1]


AROUND = """
seed = 4
duration_s = 6
routing = "destinations"
[topology]
kind = "listed"
brokers = ["b1", "b2", "b3", "b4", "b5"]
links = [["b1", "b2"], ["b2", "b3"], ["b3", "b4"], ["b4", "b5"], ["b5", "b1"]]
[links]
delay_ms = 1
[transport]
kind = "tcp"
[reliability]
hops = "multipath"
[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.02, at_s = 0.5, attributes = { n = 1 } }]
[[client]]
id = "s"
broker = "b3"
subscriptions = ["n = 1"]
[[fault]]
at_s = 2
kind = "crash"
broker = "b2"
for_s = 3
"""


@pytest.mark.parametrize("hops", [pytest.param("multipath", marks=pytest.mark.slow), "hybrid"])
def test_live_brokers_send_events_round_one_that_is_down(tmp_path: Path, hops: str) -> None:
    path, out = tmp_path / "net.toml", tmp_path / "run"
    path.write_text(AROUND)
    found = up(path, "--in-process", "--set", f"reliability.hops={hops}", "--out", str(out))
    assert found["owed"] == found["delivered"] > 200
    assert found["duplicates"] == 0
    if hops == "hybrid":
        assert found["recovered"]["multipath"] > 50  # of about 150 that were published while it was down
    verdicts = check(out)
    assert all(verdicts[promise].holds for promise in ("P1", "P2", "P4", "P5", "P7"))

"""What fifo order leaves of the violations: of events that reach a subscriber too late, how many it hands over so."""

from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from holdfast.books.promises import check
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.sim.simulator import Simulation

TARGET = 0.005
REORDERING = """
name = "reordering"
duration_s = 40

[topology]
kind = "line"
brokers = 3

[links]
delay_ms = 10
jitter_ms = 9

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.01, at_s = 1, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b3"
subscriptions = ["n = 1"]
"""


def too_late(folder: Path, held_back: bool, from_us: int) -> int:
    """Deliveries with a lower number than one before, by when they were handed over or by when they arrived."""
    columns = ("subscriber", "source", "seq", "time_us", "held_us")
    rows = [tuple(row[name] for name in columns) for row in Run(folder).table("deliveries").to_pylist()]
    rows.sort(key=lambda row: row[3] if held_back else row[3] - row[4])
    highest: dict[Any, int] = {}
    found = 0
    for row in rows:
        found += row[2] < highest.get(row[:2], 0) and row[3] >= from_us
        highest[row[:2]] = max(row[2], highest.get(row[:2], 0))
    return found


def run(folder: Path, text: str, seed: int, from_us: int = 0, **settings: object) -> tuple[int, int]:
    """How many came too late, and how many of them remained so; and the promise must say the same."""
    changed = {"reliability.order": "fifo", **{name.replace("__", "."): value for name, value in settings.items()}}
    network = parse_text(text, settings=changed)
    with TraceWriter(folder, {"name": network.name, "seed": seed, "file": network.text}) as trace:
        Simulation(network, seed, trace).run()
    assert check(folder)["P3"].holds
    return too_late(folder, False, from_us), too_late(folder, True, from_us)


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_with_recovery_the_quickstart_network_keeps_to_its_target(tmp_path: Path, seed: int) -> None:
    """Lossy links, an ocean and a broker that is down for three seconds; too short a run to learn anything."""
    behind, left = run(tmp_path / "run", preset_text("quickstart"), seed, reliability__recovery="end-to-end")
    assert behind >= 20
    assert left <= TARGET * behind


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_with_recovery_links_that_reorder_as_well_change_nothing(tmp_path: Path, seed: int) -> None:
    wild: dict[str, object] = {"links__jitter_ms": 9, "links__reorder": 0.05, "reliability__recovery": "end-to-end"}
    behind, left = run(tmp_path / "run", preset_text("quickstart"), seed, **wild)
    assert behind >= 20
    assert left <= TARGET * behind


def test_with_recovery_a_subscriber_that_is_away_again_and_again_gets_everything_in_order(tmp_path: Path) -> None:
    away = [{"at_s": at, "kind": "client-detach", "client": "s", "for_s": 0.8} for at in (5, 10)]
    changed: dict[str, object] = {"fault": away, "reliability__recovery": "end-to-end", "duration_s": 15}
    behind, left = run(tmp_path / "run", REORDERING, 1, **changed)
    assert behind > 200
    assert left == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_without_recovery_what_links_reorder_is_put_in_order_again(tmp_path: Path, seed: int) -> None:
    """Counted from when the publisher has been told that its events should tell of those before them."""
    behind, left = run(tmp_path / "run", REORDERING, seed, from_us=3_000_000)
    assert behind > 300
    assert left <= TARGET * behind + 3 * sqrt(TARGET * behind)

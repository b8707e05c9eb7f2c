"""The books of a run say the same as its trace."""

from pathlib import Path

import pytest

from holdfast.books.promises import check
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.network.load import parse_text
from holdfast.sim.simulator import Simulation

# A broker that takes longer over an event than the next one takes to come.
OVERLOADED = """
duration_s = 60

[topology]
kind = "line"
brokers = ["b1", "b2"]

[brokers]
service_ms = 700

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.5, attributes = { n = 1 }, LIFETIME }]

[[client]]
id = "s"
broker = "b2"
subscriptions = ["n > 0"]
"""


@pytest.mark.parametrize("lifetime", ["", "lifetime_s = 40"])
def test_an_event_that_waits_longer_than_half_a_minute_is_not_lost(tmp_path: Path, lifetime: str) -> None:
    network = parse_text(OVERLOADED.replace(", LIFETIME", f", {lifetime}" if lifetime else ""))
    outcome = Simulation(network, trace=TraceWriter(tmp_path / "run", {"name": "test"})).run()
    assert outcome.delay_us["max"] > 30_000_000
    assert (outcome.unowed, outcome.duplicates) == (0, 0)
    assert outcome.delivered == Run(tmp_path / "run").table("deliveries").num_rows
    assert outcome.lost + outcome.late == check(tmp_path / "run")["P4"].broken
    assert (outcome.late > 0) == bool(lifetime)

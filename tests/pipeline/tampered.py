"""Traces that somebody has tampered with: real simulated runs, what was done to them, and the promise that breaks."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tests.pipeline.audit_runs import HONEST, STORED, duplicate, foreign, out_of_order, over_limit, rewrite, simulate
from tests.sim.test_replication_promises import REPLACED, missed, swapped

# Two brokers between a fast publisher and two subscribers, for as long as tables and learning need.
_LOSSY = """
name = "lossy"
seed = 3
duration_s = 20
topology = { kind = "line", brokers = ["b1", "b2", "b3"] }
links = { delay_ms = 20, jitter_ms = 15, reorder = 0.1, loss = 0.1, lossy_control = false }
RELIABILITY

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.05, at_s = 1.5, until_s = 10, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b3"
subscriptions = ["n = 1"]

[[client]]
id = "t"
broker = "b2"
subscriptions = ["n > 0"]
"""
NETWORKS = {
    "honest": HONEST,
    "lossy": _LOSSY.replace("RELIABILITY", ""),
    "fifo": _LOSSY.replace("RELIABILITY", 'reliability = { order = "fifo" }'),
    "strict": _LOSSY.replace("RELIABILITY", 'reliability = { order = "strict", recovery = "end-to-end" }'),
    # Control messages are lost too, so that the network is unsure of subscriptions for the whole run.
    "recovering": _LOSSY.replace("RELIABILITY", 'reliability = { recovery = "end-to-end" }')
    .replace("lossy_control = false", "lossy_control = true")
    .replace("duration_s = 20", "duration_s = 15"),
    "stored": STORED,
    "replaced": REPLACED.replace("PROTOCOL", "synchronous").replace("duration_s = 14", "duration_s = 24"),
}


def _early(deliveries: pa.Table) -> pa.Table:
    """One comes before its publisher has begun."""
    rows = deliveries.to_pylist()
    rows[9]["time_us"] = 900_000
    return pa.Table.from_pylist(rows, deliveries.schema)


def _invented(deliveries: pa.Table) -> pa.Table:
    row = {**deliveries.slice(5, 1).to_pylist()[0], "seq": 10**6}
    return pa.concat_tables([deliveries, pa.Table.from_pylist([row], deliveries.schema)])


def _one_dropped(deliveries: pa.Table) -> pa.Table:
    return pa.concat_tables([deliveries.slice(0, 30), deliveries.slice(31)])


def _one_original_dropped(deliveries: pa.Table) -> pa.Table:
    """Of those that came without a repair: the message that brought it is counted."""
    gone = pc.index(deliveries["via"].slice(30), "original").as_py() + 30
    return pa.concat_tables([deliveries.slice(0, gone), deliveries.slice(gone + 1)])


def _all_dropped(deliveries: pa.Table) -> pa.Table:
    return deliveries.slice(0, 0)


def _one_subscriber_dropped(deliveries: pa.Table) -> pa.Table:
    return deliveries.filter(pc.not_equal(deliveries["subscriber"], "s"))


def _none_through_the_replica(deliveries: pa.Table) -> pa.Table:
    """The replica is ready after nine seconds; all that comes later at two subscribers has passed it."""
    through = pc.and_(
        pc.is_in(deliveries["subscriber"], pa.array(["one", "picky"])), pc.greater(deliveries["time_us"], 9_000_000)
    )
    return deliveries.filter(pc.invert(through))


def _reversed(deliveries: pa.Table) -> pa.Table:
    """The last ten events that one subscriber got: more than chance leaves out of order."""
    rows = deliveries.to_pylist()
    last = [row for row in rows if row["subscriber"] == "s"][-10:]
    for row, seq in zip(last, [row["seq"] for row in reversed(last)], strict=True):
        row["seq"] = seq
    return pa.Table.from_pylist(rows, deliveries.schema)


class Tampering(NamedTuple):
    run: str
    change: Callable[[pa.Table], pa.Table]
    promise: str
    table: str = "deliveries"


TAMPERED = {
    "foreign": Tampering("honest", foreign, "P1"),
    "foreign, recovering": Tampering("recovering", foreign, "P1"),
    "invented": Tampering("honest", _invented, "P1"),
    "early": Tampering("honest", _early, "P1"),
    "early, lossy": Tampering("lossy", _early, "P1"),
    "early, recovering": Tampering("recovering", _early, "P1"),
    "duplicate": Tampering("honest", duplicate, "P2"),
    "duplicate, strict": Tampering("strict", duplicate, "P2"),
    "duplicate, stored": Tampering("stored", duplicate, "P2"),
    "reversed, fifo": Tampering("fifo", _reversed, "P3"),
    "swapped, strict": Tampering("strict", out_of_order, "P3"),
    "one dropped": Tampering("honest", _one_dropped, "P4"),
    "one dropped, lossy": Tampering("lossy", _one_dropped, "P4"),
    "one dropped, strict": Tampering("strict", _one_dropped, "P4"),
    "one subscriber dropped, lossy": Tampering("lossy", _one_subscriber_dropped, "P4"),
    "all dropped": Tampering("honest", _all_dropped, "P4"),
    "all dropped, lossy": Tampering("lossy", _all_dropped, "P4"),
    "all dropped, fifo": Tampering("fifo", _all_dropped, "P4"),
    "all dropped, strict": Tampering("strict", _all_dropped, "P4"),
    "one dropped, recovering": Tampering("recovering", _one_original_dropped, "P4"),
    "all dropped, recovering": Tampering("recovering", _all_dropped, "P4"),
    "none through the replica, P4": Tampering("replaced", _none_through_the_replica, "P4"),
    "one dropped, stored": Tampering("stored", _one_dropped, "P5"),
    "all dropped, stored": Tampering("stored", _all_dropped, "P5"),
    "one dropped, replaced": Tampering("replaced", missed, "P6"),
    "all dropped, replaced": Tampering("replaced", _all_dropped, "P6"),
    "none through the replica": Tampering("replaced", _none_through_the_replica, "P6"),
    "swapped, replaced": Tampering("replaced", swapped, "P6"),
    "over the limit": Tampering("honest", over_limit, "P7", "samples"),
}


def honest_runs(folder: Path) -> dict[str, Path]:
    for name, network in NETWORKS.items():
        simulate(network, folder / name)
    return {name: folder / name for name in NETWORKS}


def tampered_copy(runs: dict[str, Path], name: str, folder: Path) -> Path:
    tampering = TAMPERED[name]
    copy = Path(shutil.copytree(runs[tampering.run], folder / name))
    rewrite(copy, tampering.table, tampering.change)
    return copy


def broken(verdicts: dict[str, Any]) -> set[str]:
    return {name for name, verdict in verdicts.items() if not verdict.holds}

"""P6 on traces: every protocol keeps what it promises, and traces that are broken on purpose are found out."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.books.failovers import Failover, Moment, failovers
from holdfast.books.promises import check
from holdfast.books.replication_promises import judged
from holdfast.books.runs import Run
from tests.pipeline.audit_runs import rewrite, simulate

REPLACED = """
name = "replaced"
duration_s = 14
routing = "advertisements"
[topology]
kind = "star"
brokers = ["f", "a", "s", "t"]
[links]
delay_ms = 1
[replication]
protocol = "PROTOCOL"
[[client]]
id = "p"
broker = "a"
advertisements = ["v >= 0"]
publish = [
    { every_s = 0.05, at_s = 1.0, attributes = { v = 1 } },
    { every_s = 0.05, at_s = 1.02, attributes = { v = 9 } },
]
[[client]]
id = "one"
broker = "s"
subscriptions = ["v > 0"]
[[client]]
id = "other"
broker = "t"
subscriptions = ["v > 0"]
[[client]]
id = "picky"
broker = "s"
subscriptions = ["v > 5"]
[[client]]
id = "home"
broker = "f"
subscriptions = ["v > 0"]
[[fault]]
at_s = 4
kind = "crash"
broker = "f"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replaced") / "run"
    simulate(REPLACED.replace("PROTOCOL", "synchronous"), folder)
    return folder


def by_replica(deliveries: pa.Table, subscriber: str) -> list[int]:
    """Rows of a subscriber's deliveries that came by way of the replica."""
    rows = zip(deliveries["subscriber"].to_pylist(), deliveries["via"].to_pylist(), strict=True)
    return [at for at, row in enumerate(rows) if row == (subscriber, "replica")]


def missed(deliveries: pa.Table) -> pa.Table:
    gone = by_replica(deliveries, "other")[-20]
    return deliveries.take([at for at in range(deliveries.num_rows) if at != gone])


def swapped(deliveries: pa.Table) -> pa.Table:
    one, two = by_replica(deliveries, "one")[-20:-18]
    seqs = deliveries["seq"].to_pylist()
    seqs[one], seqs[two] = seqs[two], seqs[one]
    return deliveries.set_column(deliveries.column_names.index("seq"), "seq", pa.array(seqs))


BROKEN: dict[str, Callable[[pa.Table], pa.Table]] = {"missed": missed, "swapped": swapped}


def broken_copy(run: Path, name: str, folder: Path) -> Path:
    copy = Path(shutil.copytree(run, folder / name))
    rewrite(copy, "deliveries", BROKEN[name])
    return copy


def test_a_replacement_keeps_what_its_protocol_promises(run: Path) -> None:
    verdict = check(run)["P6"]
    assert verdict.holds
    assert verdict.checked > 500


@pytest.mark.parametrize(("name", "subscriber"), [("missed", "other"), ("swapped", "one")])
def test_a_trace_that_is_broken_on_purpose_is_found_out(run: Path, name: str, subscriber: str, tmp_path: Path) -> None:
    verdict = check(broken_copy(run, name, tmp_path))["P6"]
    assert (verdict.holds, verdict.broken) == (False, 1)
    assert verdict.examples[0]["subscriber"] == subscriber


@pytest.mark.parametrize(
    ("protocol", "note"),
    [("basic", "basic replication does not promise completeness"), ("incremental", "order is not promised")],
)
def test_what_a_protocol_does_not_promise_is_not_held_against_it(protocol: str, note: str, tmp_path: Path) -> None:
    simulate(REPLACED.replace("PROTOCOL", protocol), tmp_path / "run")
    found = judged(Run(tmp_path / "run"), known_us=300_000)
    assert (found.broken, found.note) == ((), note)


def test_a_run_without_replicas_has_nothing_to_check(tmp_path: Path) -> None:
    simulate(REPLACED.partition("[replication]")[0] + REPLACED.partition('"PROTOCOL"\n')[2], tmp_path / "run")
    assert check(tmp_path / "run")["P6"].checked == 0


def test_moments_are_put_together_by_broker_and_replica() -> None:
    moments = [
        Moment("f", 100, "crash"),
        Moment("a", 130, "suspected", "f"),
        Moment("b", 150, "suspected", "f"),
        Moment("b", 900, "suspected", "r"),  # the end of the run
        Moment("a", 300, "failover_requested", "f", "r", "ordered"),
        Moment("b", 310, "failover_requested", "f", "r", "ordered"),
        Moment("c", 320, "failover_requested", "f", "r", "ordered"),  # it had noticed nothing before
        Moment("r", 400, "replica_awaits_subscriptions", "f"),
        Moment("r", 410, "replica_ready", "f"),
    ]
    assert failovers(moments) == [Failover("f", "r", "ordered", "failover", 100, 320, 300, 410)]
    relieved = [Moment("a", 300, "scheduling_requested", "f", "r", "basic")]
    assert failovers(relieved) == [Failover("f", "r", "basic", "scheduling", None, 300, 300, None)]

"""Groups of a network file, simulated: each event goes to one member, and both judges say so."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from holdfast.books.promises import check
from holdfast.books.trace import TraceWriter
from holdfast.network.load import load
from holdfast.network.problems import NetworkError
from holdfast.network.provenance import about_run
from holdfast.sim.simulator import Simulation
from tests.pipeline.conftest import embedded_audit

FILE = """
name = "shared"
duration_s = 20
[topology]
kind = "listed"
brokers = ["b1", "b2", "b3"]
links = [["b1", "b2"], ["b2", "b3"]]
[links]
delay_ms = 5
[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.05, at_s = 2, until_s = 18, attributes = { job = 1 } }]
[[client]]
id = "w"
count = 2
broker = "b2"
subscriptions = [{ condition = "job > 0", group = "workers" }]
[[client]]
id = "far"
broker = "b3"
subscriptions = [{ condition = "job > 0", group = "workers" }, { condition = "job > 0", group = "others" }]
"""
GONE = '[[fault]]\nat_s = 8.003\nkind = "client-detach"\nclient = "w-1"\n'
KILLED = '[[fault]]\nat_s = 8\nkind = "crash"\nbroker = "b3"\nfor_s = 2\n'
STORED = '[reliability]\nhops = "retransmission"\n'


def simulated(folder: Path, text: str) -> Path:
    file, out = folder / "net.toml", folder / "run"
    file.write_text(text)
    network = load(str(file))
    with TraceWriter(out, about_run(network, "sim", 1)) as trace:
        Simulation(network, 1, trace).run()
    return out


def counts(run: Path) -> dict[str, tuple[int, int]]:
    """By subscriber: deliveries, and events among them."""
    rows = ds.dataset(run / "deliveries").to_table()
    found = rows.group_by("subscriber").aggregate([("seq", "count"), ("seq", "count_distinct")])
    return {row["subscriber"]: (row["seq_count"], row["seq_count_distinct"]) for row in found.to_pylist()}


def broken(run: Path) -> list[set[str]]:
    """The promises that each of the two judges finds broken."""
    with embedded_audit([run]) as found:
        (judged,) = found.runs
    return [{name for name, each in verdicts.items() if not each.holds} for verdicts in (check(run), judged.verdicts)]


@pytest.mark.parametrize("more", ["", STORED], ids=["best effort", "stored"])
def test_each_event_goes_to_one_member_of_a_group(tmp_path: Path, more: str) -> None:
    run = simulated(tmp_path, FILE + more)
    assert counts(run) == {"group:workers job > 0": (320, 320), "group:others job > 0": (320, 320)}
    assert broken(run) == [set(), set()]


def test_what_a_member_leaves_undone_goes_to_another(tmp_path: Path) -> None:
    run = simulated(tmp_path, FILE + STORED + GONE)
    found = counts(run)
    assert [events for _, events in found.values()] == [320, 320]
    assert broken(run) == [set(), set()]


@pytest.mark.parametrize("more", ["", STORED], ids=["best effort", "stored"])
def test_the_broker_of_a_home_is_killed(tmp_path: Path, more: str) -> None:
    run = simulated(tmp_path, FILE + more + KILLED)
    assert broken(run) == [set(), set()]
    if more:
        assert [events for _, events in counts(run).values()] == [320, 320]


def changed(run: Path, to: Path, change: Callable[[pa.Table], pa.Table]) -> Path:
    copytree(run, to)
    (file,) = (to / "deliveries").iterdir()
    pq.write_table(change(pq.read_table(file)), file)
    return to


def test_both_judges_convict_a_run_whose_group_got_an_event_twice_or_never(tmp_path: Path) -> None:
    run = simulated(tmp_path, FILE)
    shared = pc.field("subscriber") == "group:workers job > 0"
    some = ds.dataset(run / "deliveries").to_table(filter=shared & (pc.field("seq") == 160))
    twice = changed(run, tmp_path / "twice", lambda rows: pa.concat_tables([rows, some]))
    never = changed(run, tmp_path / "never", lambda rows: rows.filter(~(shared & (pc.field("seq") == 160))))
    assert (broken(twice), broken(never)) == ([{"P2"}] * 2, [{"P4"}] * 2)


def test_a_group_has_neither_recovery_nor_order(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(FILE + '[reliability]\nrecovery = "end-to-end"\n')
    with pytest.raises(NetworkError, match="a group has neither recovery nor order"):
        load(str(tmp_path / "net.toml"))

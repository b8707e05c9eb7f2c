"""The swarm: seeds that once failed, what is drawn, what its judges convict, and the table that it keeps."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast import cli
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.model.errors import InputError
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation
from holdfast.sim.swarm import judged, run_network, run_seed, simulate
from holdfast.sim.swarm_scenarios import SETTLED_US, TROUBLE_US, scenario
from holdfast.sim.swarm_table import SwarmTable, grow, loaded
from holdfast.sim.swarm_troubles import drawn
from tests.sim.networks import SECOND, line

# Seeds that once failed are kept, each with what it taught. Those of best effort before there were troubles:
PLAIN_LESSONS = {
    4: "a good-bye that waits in a busy broker's queue must not undo the attachment that came after it",
    40: "the same with a broker that serves one message in 100 us",
    46: "the smallest case of it: one broker, one client that leaves and comes back",
    20100: "an event may meet a condition so new that no broker has heard of it: the express lane read past its table",
}
LESSONS = {
    13: "what a broker keeps from its first microsecond is no stream 0: clients attach with that number",
    3893: "a broker that keeps its epoch through a crash has to number its link states above those of before",
    1293: "a neighbour with a full store gets one event at a time again, not a window of which it drops most",
    7463: "with strict order our own events, too, are dropped when later ones were delivered",
    8161: "of events that came in one instant, the judge does not know which came first",
    8783: "events under way need more than one place in a full store beyond what publishers may fill",
    2628: "a durable client that returns to another broker names the time it was away, and the trace has to say it",
}


@pytest.mark.parametrize("seed", [*range(12), *PLAIN_LESSONS])
def test_scenarios_with_faults_keep_the_promises_and_heal(seed: int) -> None:
    report = run_network(seed, scenario(seed))
    assert report.broken == [], report.scenario.network.name


@pytest.mark.parametrize("seed", [*range(200, 215), *LESSONS])
def test_scenarios_of_every_kind_with_troubles_keep_the_promises(seed: int) -> None:
    report = run_seed(seed)
    assert report.broken == [], report.scenario.network.name


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_400, 50))
def test_hundreds_more_scenarios(first: int) -> None:
    broken = [(seed, run_seed(seed).broken) for seed in range(first, first + 50)]
    assert [each for each in broken if each[1]] == []


# What is drawn ---------------------------------------------------------------------------------------------------


def test_scenarios_cover_all_mechanisms_faults_and_troubles() -> None:
    scenarios = [drawn(seed) for seed in range(400)]
    networks = [each.network for each in scenarios]
    assert {network.routing for network in networks} == {"subscriptions", "advertisements", "destinations"}
    assert {each.kind for each in scenarios} == {
        *("best effort", "recovery", "recovery fifo", "recovery strict"),
        *(f"gossip {style}-pull" for style in ("subscriber", "publisher", "combined", "random")),
        *("gossip push", "gossip reconcile", "nack", "retransmission", "multipath", "hybrid"),
        *(f"replication {protocol}" for protocol in ("basic", "synchronous", "incremental", "ordered")),
    }
    assert {fault.kind for network in networks for fault in network.faults} == {
        *("crash", "restart", "hang", "resume", "link-down", "link-up", "link-replace"),
        *("client-detach", "client-attach", "subscribe", "unsubscribe"),
    }
    assert {trouble for each in scenarios for trouble in each.troubles} == {
        *("long outage", "hang", "early crash", "adjacent crashes", "absence", "phases", "burst", "skewed clocks"),
    }
    hanging = {each.kind for each in scenarios if any(fault.kind == "hang" for fault in each.network.faults)}
    assert hanging == {each.kind for each in scenarios}


def test_links_are_up_and_clients_attached_when_the_trouble_ends() -> None:
    faults = [fault for seed in range(300) for fault in drawn(seed).network.faults]
    assert max(fault.at_us for fault in faults if fault.kind in ("link-up", "client-attach")) < TROUBLE_US


# What is convicted -----------------------------------------------------------------------------------------------


def without_deliveries(folder: Path, source: str, first: int, last: int) -> None:
    path = folder / "deliveries" / "part-00000.parquet"
    table = pq.read_table(path)
    kept = [not (row["source"] == source and first <= row["time_us"] <= last) for row in table.to_pylist()]
    pq.write_table(table.filter(kept), path)


@pytest.mark.parametrize(
    ("promise", "first", "last"), [("named", 4 * SECOND, 5 * SECOND), ("healed", SETTLED_US, 2 * SETTLED_US)]
)
def test_an_event_that_vanishes_is_noticed_in_trouble_and_after_it(
    promise: str, first: int, last: int, tmp_path: Path
) -> None:
    seed = 16  # a subscriber with recovery, and a long outage
    each = drawn(seed)
    outcome = simulate(each, tmp_path / "run")
    assert not judged(each, outcome, tmp_path / "run").broken
    sources = Run(tmp_path / "run").table("deliveries")["source"].to_pylist()
    without_deliveries(tmp_path / "run", max(set(sources), key=sources.count), first, last)
    assert promise in {verdict.promise for verdict in judged(each, outcome, tmp_path / "run").broken}


# Clocks ----------------------------------------------------------------------------------------------------------


def told(network: Network, folder: Path, ahead_us: dict[str, int]) -> list[list[dict[str, object]]]:
    """The trace, without the sizes of messages: later times take more bytes."""
    Simulation(network, 1, TraceWriter(folder, {"name": "test"}), express=False, ahead_us=ahead_us).run()
    tables = [Run(folder).table(name) for name in ("publications", "deliveries", "incidents")]
    return [
        table.drop_columns([name for name in table.column_names if name == "bytes"]).to_pylist() for table in tables
    ]


def test_clocks_that_do_not_agree_change_nothing_and_the_books_are_in_true_time(tmp_path: Path) -> None:
    network = line(3, 20_000, 4 * SECOND, loss_ratio=0.1)
    nodes = [node.id for node in (*network.brokers, *network.clients)]
    ahead_us = {name: at * 3_600 * SECOND for at, name in enumerate(nodes)}
    assert told(network, tmp_path / "skewed", ahead_us) == told(network, tmp_path / "true", {})


# The table -------------------------------------------------------------------------------------------------------


def test_a_table_that_is_continued_is_the_same_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    path = tmp_path / "swarm.json"
    list(grow(loaded(path, 40), 2, 1, path))
    table = loaded(path, 40)
    assert table.seeds == 2
    list(grow(table, 5, 1, path))
    whole = SwarmTable(40)
    list(grow(whole, 5, 1, None))
    assert loaded(path, 40) == whole
    total = whole.as_json()["all"]
    assert total["scenarios"] == 5
    assert total["owed"] == total["delivered"] + total["lost"] > 0
    assert list(grow(loaded(path, 40), 5, 1, path)) == []  # nothing is left to do


@pytest.mark.slow
def test_two_processes_find_the_same_as_one() -> None:
    one, two = SwarmTable(0), SwarmTable(0)
    list(grow(one, 30, 1, None))
    list(grow(two, 30, 2, None))
    assert one == two


def test_a_file_that_is_another_table_or_none_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "swarm.json"
    path.write_text('{"first_seed": 7, "seeds": 25}')
    with pytest.raises(InputError, match="has the seeds from 7 on, not from 0"):
        loaded(path, 0)
    path.write_text("precious")
    with pytest.raises(InputError, match="is no table of a swarm"):
        loaded(path, 0)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--swarm", "1", "--jobs", "0"], "--jobs: expected 1 to 64 processes, found 0"),
        (["--swarm", "1", "--save", "/nowhere/swarm.json"], "--save: expected the name of a file in a folder"),
        (["--swarm", "1", "--seed", "-1"], "--seed: expected a whole number from 0"),
        (["--swarm", "1", "--check"], "only --seed, --jobs, --save and --json go with it"),
        (["net.toml", "--jobs", "2"], "--jobs and --save go with --swarm N"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["sim", *options])
    assert caught.value.code == 2
    assert says in capsys.readouterr().err

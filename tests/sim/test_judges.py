"""Both judges convict every trace that was tampered with, and acquit honest ones. Here the cheap judge.

`tests/pipeline/test_judges.py` puts the same traces before the judge on Spark.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.books.failovers import ALIVE, Moment, failovers
from holdfast.books.owed import owed_of, wanted_of
from holdfast.books.promises import check
from holdfast.books.replication_promises import judged
from holdfast.books.runs import Run
from holdfast.network.schema import Network
from holdfast.sim.swarm_scenarios import gossiping_scenario, hopping_scenario, reliable_scenario, scenario
from tests.pipeline.audit_runs import STORED, simulate
from tests.pipeline.judges import duckdb_pairs
from tests.pipeline.tampered import TAMPERED, broken, honest_runs, tampered_copy
from tests.sim.test_replication_promises import REPLACED

DRAWN = {"best effort": scenario, "recovery": reliable_scenario, "gossip": gossiping_scenario, "hops": hopping_scenario}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return honest_runs(tmp_path_factory.mktemp("honest"))


def test_honest_runs_are_acquitted_of_promises_that_were_looked_at(runs: dict[str, Path]) -> None:
    found = {name: check(folder) for name, folder in runs.items()}
    assert {name: broken(verdicts) for name, verdicts in found.items()} == {name: set() for name in runs}
    looked_at = {"P4": "strict", "P5": "stored", "P6": "replaced"}
    assert all(found[name][promise].checked >= 40 for promise, name in looked_at.items())


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_trace_is_convicted(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    assert TAMPERED[name].promise in broken(check(tampered_copy(runs, name, tmp_path)))


@pytest.mark.parametrize(("kind", "seed"), [("best effort", 1), ("recovery", 3), ("gossip", 4), ("hops", 8)])
def test_a_drawn_run_is_acquitted(kind: str, seed: int, tmp_path: Path) -> None:
    assert acquitted(DRAWN[kind](seed), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWN)
def test_many_drawn_runs_are_acquitted_with_and_without_faults(kind: str, tmp_path: Path) -> None:
    for seed in range(100, 130):
        drawn = DRAWN[kind](seed)
        calm = replace(drawn, faults=(), lossy_control=bool(seed % 2))
        assert acquitted(drawn, tmp_path / f"{seed}"), seed
        assert acquitted(calm, tmp_path / f"{seed} calm"), seed


def acquitted(network: Network, folder: Path) -> bool:
    simulate(network, folder)
    return not broken(check(folder))


# P5 in runs that end too early --------------------------------------------------------------------------------------


def test_stored_events_that_wait_for_a_broker_at_the_end_are_not_missing(tmp_path: Path) -> None:
    still_down = STORED.replace("for_s = 1\n", "")
    simulate(still_down, tmp_path / "run")
    verdicts = check(tmp_path / "run")
    assert verdicts["P4"].broken > 20
    assert (verdicts["P5"].holds, verdicts["P5"].broken) == (True, 0)


# A broker that hangs ------------------------------------------------------------------------------------------------


def test_a_broker_that_hangs_has_failed_since_its_last_sign_of_life() -> None:
    moments = [
        *(Moment("f", second * 1_000_000, ALIVE) for second in (3, 4, 5)),
        Moment("a", 8_190_000, "suspected", "f"),
        Moment("f", 12_000_000, ALIVE),  # it goes on, long after it was replaced
        Moment("a", 9_000_000, "failover_requested", "f", "r", "ordered"),
    ]
    (found,) = failovers(moments)
    assert (found.failed_us, found.noticed_us) == (5_000_000, 8_190_000)


def test_what_a_broker_that_hangs_costs_is_attributed_to_the_moment_at_which_it_stopped(tmp_path: Path) -> None:
    hung = REPLACED.replace("PROTOCOL", "synchronous").replace('at_s = 4\nkind = "crash"', 'at_s = 5.72\nkind = "hang"')
    simulate(hung, tmp_path / "run")
    found = judged(Run(tmp_path / "run"), known_us=1_000_000)
    assert [(each.failed_us, found.broken) for each in found.failovers] == [(5_720_000, ())]
    assert not broken(check(tmp_path / "run"))


# Another judge of conditions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [4, 11])
def test_duckdb_finds_the_same_events_owed_as_the_cheap_judge(seed: int, tmp_path: Path) -> None:
    simulate(scenario(seed), tmp_path / "run")
    run = Run(tmp_path / "run")
    published, subscriptions = run.table("publications").to_pylist(), run.table("subscriptions").to_pylist()
    ((_, events),) = run.events()
    events = events.append_column("row", pa.array(range(events.num_rows)))
    conditions = {number: row["condition"] for number, row in enumerate(subscriptions)}
    owed = set()
    for at, number in duckdb_pairs(events, conditions, key="row"):
        event, asked = published[at], subscriptions[number]  # type: ignore[call-overload]
        until_us = asked["until_us"]
        if asked["from_us"] <= event["time_us"] and (until_us is None or event["time_us"] < until_us):
            owed.add((asked["subscriber"], event["source"], event["seq"]))
    ours = owed_of(wanted_of(run))
    assert {(row["subscriber"], row["source"], row["seq"]) for row in ours.to_pylist()} == owed
    got = {(row["subscriber"], row["source"], row["seq"]) for row in run.table("deliveries").to_pylist()}
    verdict = check(tmp_path / "run")["P4"]
    assert (verdict.checked, verdict.broken) == (len(owed), len(owed - got))

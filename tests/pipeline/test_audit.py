"""The audit's figures: the same as the run's own books, as DuckDB's, and as worked out by hand."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from holdfast.sim.swarm_scenarios import scenario
from tests.pipeline import audit_runs
from tests.pipeline.audit_runs import NAMED, ORDERS, TYPED
from tests.pipeline.conftest import Audited, embedded_audit


def agree(found: dict[str, Any], told: dict[str, Any]) -> None:
    times = {"delay_us", "recovery_delay_us", "held_us"}
    keys = set(told) - times - {"lag_us", "recovery", "phases_us", "leaf_recovery_ratio", "slices"}  # not told
    assert {key: found[key] for key in keys} == {key: told[key] for key in keys}
    for name in times:
        assert found[name].keys() == told[name].keys(), name
        for quantile, us in told[name].items():  # the books keep times in classes two per cent wide
            assert abs(found[name][quantile] - us) <= 0.01 * us + 1, (name, quantile)


@pytest.mark.parametrize(
    "name", ["churn", "honest", "careful", pytest.param("swarm", marks=pytest.mark.slow), "live", "careful live"]
)
def test_the_figures_are_those_of_the_runs_own_books(audited_traces: Audited, name: str) -> None:
    agree(audited_traces.runs[name].as_json(), audited_traces.told[name])


def test_the_runs_have_something_of_everything(audited_traces: Audited) -> None:
    told = audited_traces.told
    for figure in ("lost", "late", "fifo_violations"):
        assert told["churn"][figure] > 0, figure
    assert sum(outcome["unowed"] for outcome in told.values()) > 0
    assert told["live"]["lost"] > 0
    for name in ("careful", "careful live"):
        assert told[name]["recovered"]["repair"] > 0, name
        assert told[name]["held_us"]["max"] > 0, name


@pytest.mark.slow
def test_the_figures_of_many_more_scenarios_are_those_of_their_books(tmp_path: Path) -> None:
    told = {f"s{seed}": audit_runs.simulate(scenario(seed), tmp_path / f"s{seed}") for seed in range(300, 315)}
    with embedded_audit(tmp_path / name for name in told) as found:
        for run in found.runs:
            agree(run.as_json(), told[run.label])


def test_pairs_subscribers_and_publishers_add_up_to_the_run(audited_traces: Audited) -> None:
    from holdfast.pipeline.audit.metrics import COUNTED

    totals: dict[tuple[str, str], Counter[str]] = {}
    for row in audited_traces.audit.figures.dicts():
        totals.setdefault((row["run"], row["scope"]), Counter()).update({name: row[name] for name in COUNTED})
    assert len(totals) > 4 * 10
    for (run, _), found in totals.items():
        assert found == totals[run, "run"]


def test_ground_truth_and_quantiles_are_those_that_duckdb_finds(audited_traces: Audited) -> None:
    run = audited_traces.runs["churn"]
    connection = duckdb.connect()
    for table in ("publications", "subscriptions", "deliveries"):
        connection.execute(f"CREATE TABLE {table} AS FROM '{run.folder}/{table}/*.parquet'")
    for name in ("n", "kind", "odd name", "tags", "sizes"):
        connection.execute(f'ALTER TABLE publications RENAME "attr:{name}" TO "{name}"')
    conditions = connection.execute("SELECT rowid, condition FROM subscriptions").fetchall()
    matches = " UNION ALL ".join(
        f"SELECT {number} AS number, source, seq, time_us FROM publications WHERE {text}" for number, text in conditions
    )
    owed = connection.execute(
        f"""SELECT DISTINCT subscriber, source, seq
        FROM ({matches}) AS wanted JOIN subscriptions ON number = subscriptions.rowid
        WHERE from_us <= time_us AND (until_us IS NULL OR time_us < until_us)"""
    ).fetchall()
    assert run.outcome.owed == len(owed)
    quantiles = connection.execute(
        """SELECT subscriber, quantile_disc(d.time_us - p.time_us, [0.5, 0.9, 0.99]), max(d.time_us - p.time_us)
        FROM deliveries d JOIN publications p USING (source, seq) GROUP BY ROLLUP (subscriber)"""
    ).fetchall()
    rows = audited_traces.figures("churn", "subscriber", "run")
    three = ("delay_p50_us", "delay_p90_us", "delay_p99_us")
    found = {row["subscriber"]: ([row[name] for name in three], row["delay_max_us"]) for row in rows}
    assert found == {subscriber: (list(delays), most) for subscriber, delays, most in quantiles}


# Order and mechanisms ----------------------------------------------------------------------------------------------


def degree_by_definition(order: tuple[int, ...]) -> Fraction:
    """Paper 003: the sum over D of (S - D) f(D) / S², where f(D) events are D places from where they belong."""
    size, places = len(order), sorted(order)
    distances = [abs(place - places.index(seq)) for place, seq in enumerate(order)]
    return sum((Fraction((size - d) * distances.count(d), size**2) for d in range(size)), Fraction())


@pytest.fixture(scope="module")
def publishers(audited_traces: Audited) -> dict[str, Any]:
    return {row["source"]: SimpleNamespace(**row) for row in audited_traces.figures("orders", "publisher")}


def test_the_ordering_degree_is_paper_003s(publishers: dict[str, Any]) -> None:
    for source, order in ORDERS.items():
        assert publishers[source].ordering_degree == pytest.approx(float(degree_by_definition(order))), order
        overtaken = sum(seq < max(order[:place], default=0) for place, seq in enumerate(order))
        assert publishers[source].fifo_violations == overtaken, order


def test_the_ordering_degree_lies_where_the_formula_says() -> None:
    assert degree_by_definition((1, 2, 3, 4)) == 1
    assert degree_by_definition((4, 3, 2, 1)) == Fraction(1, 2)  # no permutation has less
    assert min(map(degree_by_definition, ORDERS.values())) == Fraction(1, 2)


def test_a_groups_ordering_degree_is_the_mean_over_its_events(audited_traces: Audited) -> None:
    orders = [*ORDERS.values(), (1, 3, 2), (1, 2, 3, 4, 5)]
    whole = sum(degree_by_definition(order) * len(order) for order in orders) / sum(map(len, orders))
    assert audited_traces.runs["orders"].figures["ordering_degree"] == pytest.approx(float(whole))


def test_events_of_one_moment_keep_the_order_in_which_they_were_written(publishers: dict[str, Any]) -> None:
    assert publishers["moment"].fifo_violations == 1


def test_what_was_recovered_is_counted_by_mechanism_and_timed_apart(publishers: dict[str, Any]) -> None:
    row = publishers["ways"]
    assert (row.recovered_repair, row.recovered_gossip, row.recovered_retransmission, row.recovered) == (2, 1, 0, 3)
    assert (row.owed, row.delivered, row.lost, row.duplicates) == (6, 5, 1, 1)
    assert [getattr(row, f"original_delay_{q}_us") for q in ("p50", "p90", "max")] == [10, 100_000, 100_000]
    assert [getattr(row, f"recovered_delay_{q}_us") for q in ("p50", "p90", "max")] == [1_000, 899_000, 899_000]


# Types, names, nothing ---------------------------------------------------------------------------------------------


def test_an_attribute_of_several_types_is_matched_as_it_was_published(audited_traces: Audited) -> None:
    label = audited_traces.folders["names"].name
    rows = [row for row in audited_traces.audit.facts.dicts() if row["run"] == label]
    owed = {name: sorted(row["seq"] for row in rows if row["subscriber"] == name) for name in TYPED | NAMED}
    typed = {"numbers": [0, 2, 5], "texts": [1], "yes": [4], "none": [3], "big": [5], "y": [5, 6]}
    # Names that differ only in case, that the tables have themselves, or that hold dots and quotes.
    assert owed == typed | {name: [9] for name in NAMED if name != "nobody"} | {"nobody": []}


def test_a_run_in_which_nothing_happened_is_audited(audited_traces: Audited) -> None:
    found = audited_traces.runs["quiet"]
    assert found.as_json() | {"owed": 0, "delivery_ratio": 1.0, "delay_us": {}} == found.as_json()
    assert not found.broken

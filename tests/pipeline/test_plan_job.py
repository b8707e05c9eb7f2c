"""A plan on Spark gives the numbers of a plan on this machine, however the work is dealt out."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.model.errors import InputError
from holdfast.network.load import parse_text
from holdfast.network.settings import PlanSettings
from holdfast.pipeline.plan.folder import planned
from holdfast.pipeline.plan.job import predictions
from holdfast.planner.advice import advise
from holdfast.planner.demand import Origin
from holdfast.planner.plan import Case, SubscriberPrediction, case_of, plan
from holdfast.planner.what_if import changed

FAILING = {"availability": [0.9, 0.95], "cycle_s": 60_000.0}
SMALL = {
    "seed": 3,
    "routing": "destinations",
    "topology": {"kind": "random", "brokers": 6, "mean_degree": 3},
    "brokers": FAILING,
    "links": {"availability": 0.99, "cycle_s": 60_000.0},
    "clients": {"per_broker": 2},
    "workload": {"kind": "patterns", "rate_per_s": 1.0, "lifetime_s": 3_600.0},
}
LARGE = {  # too large for exact numbers, and only a few of its brokers have clients
    "seed": 3,
    "routing": "destinations",
    "topology": {"kind": "random", "brokers": 210, "mean_degree": 4},
    "brokers": FAILING,
    "links": {"availability": 0.99, "cycle_s": 60_000.0},
    "client": [
        {"id": "one", "broker": "b7", "publish": [{"every_s": 1.0, "attributes": {"a": 1}, "lifetime_s": 3_600.0}]},
        {"id": "two", "broker": "b100", "subscriptions": ["a = 1"]},
        {"id": "three", "broker": "b200", "subscriptions": ["a = 1"]},
    ],
}
SAMPLES = 300


def flat(case: int, each: SubscriberPrediction) -> tuple[object, ...]:
    return (case, each.subscriber, each.broker, *each.counted, *each.assumed_up, each.multipath_method, each.error)


def on_spark(spark: SparkSession, cases: list[Case], seed: str) -> list[tuple[object, ...]]:
    columns = [*(f"counted_{each}" for each in SubscriberPrediction.__annotations__["counted"]._fields)]
    columns += [each.replace("counted", "assumed_up") for each in columns]
    rows = predictions(spark, cases, SAMPLES, seed).collect()
    return [
        (
            row["case"],
            row["subscriber"],
            row["broker"],
            *(row[name] for name in columns),
            row["multipath_method"],
            row["error"],
        )
        for row in rows
    ]


def test_rows_are_those_of_one_machine(spark: SparkSession) -> None:
    small, large = case_of(parse_text(SMALL)), case_of(parse_text(LARGE))
    cases = [small, changed(small, "b2=0.999"), large]
    local = [flat(number, each) for number, case in enumerate(cases) for each in plan(case, SAMPLES, 3)]
    assert {row[-2] for row in local} == {"exact", "monte-carlo"}
    assert sorted(on_spark(spark, cases, "3/plan"), key=str) == sorted(local, key=str)


def test_the_folder_holds_the_rows_and_the_advice_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    case = case_of(parse_text(SMALL))
    cases = {words: changed(case, words) if words else case for words in ("", "b3=0.99", "remove b2")}
    found = planned(spark, cases, PlanSettings(samples=SAMPLES), "3/plan", 0.9, tmp_path / "plan")
    assert found.subscribers == sum(len(each.demand.subscribers) for each in cases.values())
    for words, each in cases.items():
        here = advise(plan(each, SAMPLES, 3), 0.9, "counted")
        assert found.advice[words].scheme == here.scheme
        assert found.advice[words].least == here.least
        assert found.advice[words].means == pytest.approx(here.means)
    assert "rows and" in found.text("small")
    with pytest.raises(InputError, match="exists already"):
        planned(spark, cases, PlanSettings(), "3/plan", 0.9, tmp_path / "plan")


def test_a_plan_that_fails_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    case = case_of(parse_text(SMALL))
    bad = Case(case.overlay, replace(case.demand, origins=(Origin("nobody"),)))  # which tasks stumble over
    with pytest.raises(Exception, match="nobody"):
        planned(spark, {"": bad}, PlanSettings(samples=SAMPLES), "3/plan", 0.9, tmp_path / "plan")
    assert not list(tmp_path.iterdir())

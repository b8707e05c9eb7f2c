"""A study that was stopped goes on where it was, and says how far it is."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.pipeline.sweep.progress import Progress
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import exact
from holdfast_papers.live import kept_runs
from holdfast_papers.models import Cell, measured
from holdfast_papers.study import Runs, Scale, Study, WatchParts, reproduce

CELLS: list[Cell] = [{"number": number} for number in range(40)]


def test_cells_that_were_measured_before_a_stop_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    file, seen = tmp_path / "table.parquet", tmp_path / "seen"
    seen.mkdir()

    def measure(cell: Cell) -> dict[str, Any]:
        (seen / str(cell["number"])).touch()
        return {"twice": 2 * cell["number"]}

    def stopped(cell: Cell) -> dict[str, Any]:
        if cell["number"] == 35:
            raise KeyboardInterrupt
        return measure(cell)

    with pytest.raises(PythonException):
        measured(spark, CELLS, stopped, file)
    for each in seen.iterdir():
        each.unlink()
    told: list[Progress] = []
    rows = measured(spark, CELLS, measure, file, told.append)
    assert [row["twice"] for row in rows] == [2 * number for number in range(40)]
    assert sorted(int(each.name) for each in seen.iterdir()) == list(range(32, 40))
    assert [(now.before, now.done, now.total) for now in told] == [(32, 40, 40)]


def test_live_runs_that_were_over_before_a_stop_are_kept(tmp_path: Path) -> None:
    names, begun = ["topic-1", "queue-1", "topic-2"], list[str]()

    def measure(name: str, _: Path) -> dict[str, Any]:
        begun.append(name)
        return {"name": name, "round": len(begun)}

    kept_runs(names[:1], measure, tmp_path, 1, None)
    (tmp_path / "queue-1.part").write_text("{")  # where it was stopped
    told: list[Progress] = []
    runs = kept_runs(names, measure, tmp_path, 1, told.append)
    assert begun == names  # the first was not run again
    assert [(row["name"], row["round"]) for row in runs.rows] == [("topic-1", 1), ("queue-1", 2), ("topic-2", 3)]
    assert [(now.before, now.done, now.total) for now in told] == [(1, 2, 3), (1, 3, 3)]


NETWORK = {
    "duration_s": 1.0,
    "topology": {"kind": "line", "brokers": 2},
    "clients": {"per_broker": 1, "publishers": 1},
    "workload": {"kind": "rates", "rates_per_s": [5, 5], "match": [0.5, 0.5]},
}


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    return {"first": plan(NETWORK, seeds=2), "second": plan(NETWORK, seeds=3)}


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield Claim("a", "runs", "", exact(sum(len(each.rows) for each in runs.values())), None, "ours", "tiny")


def _measured(spark: SparkSession, scale: Scale, out: Path, part: WatchParts) -> Mapping[str, Runs]:
    with part("third") as watch:
        rows = measured(spark, CELLS, lambda cell: {"seed": cell["number"]}, out / "third.parquet", watch)
    return {"third": Runs(rows)}


@pytest.mark.slow
def test_a_study_tells_how_far_it_is_over_all_its_parts(spark: SparkSession, tmp_path: Path) -> None:
    study = Study("tiny", "A tiny study", _plans, _claims, measured=_measured, cells=lambda scale: {"third": 40})
    told: list[tuple[int, int, str]] = []
    [claim] = reproduce(spark, study, "quick", tmp_path, lambda *now: told.append(now))
    assert claim.ours == 45
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    done, total, text = told[-1]
    assert (done, total) == (45, 45)
    assert text.startswith("third: 40 of 40 runs done")
    assert "; 45 of 45 in all, about 0 s left" in text
    # Again: the sweeps are done, and a stop left the third part with nothing.
    (tmp_path / "third.parquet").unlink()
    told.clear()
    assert reproduce(spark, study, "quick", tmp_path, lambda *now: told.append(now)) == [claim]
    assert [(done, total) for done, total, _ in told] == [(37, 45), (45, 45)]
    assert json.loads(json.dumps(claim.as_json()))["ours"] == 45

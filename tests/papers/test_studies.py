"""A study runs its sweeps, and its claims follow from the runs and from nothing else."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast_papers.claims import Claim, html, markdown, read, shown, summary
from holdfast_papers.estimates import estimate, exact, extreme, ratio_of_sums
from holdfast_papers.studies import STUDIES
from holdfast_papers.study import Runs, Scale, Study, reproduce
from holdfast_papers.verdicts import Allowed, at_least, at_most

NETWORK = {
    "duration_s": 2.0,
    "topology": {"kind": "line", "brokers": 2},
    "links": {"loss": 0.2},
    "clients": {"per_broker": 2, "publishers": 1},
    "workload": {"kind": "rates", "rates_per_s": [50, 50], "match": [0.5, 0.5]},
}


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    variants = {"none": {"reliability.recovery": "none"}, "all": {"reliability.recovery": "end-to-end"}}
    return {"one": plan(NETWORK, variants=variants, seeds=5)}


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    before, after = runs["one"].of(variant="none"), runs["one"].of(variant="all")
    lost = ratio_of_sums(before.column("lost"), before.column("owed"))
    yield Claim("a", "links lose events", "some", lost, Allowed(0.05, 0.3), "paper", "tiny")
    missing = extreme(max(after.column("lost")), len(after.rows))
    yield Claim("b", "none are missing with recovery", "0", missing, at_most(0, "every"), "ours", "tiny")
    yield Claim("c", "this one does not hold", "1", exact(0), at_least(1), "paper", "tiny", "it never does")


def _figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    yield LineChart("Losses", "seed", "lost", (Line("none", (Spot(1, runs["one"].total("lost")),)),))


def test_a_study_leaves_its_claims_figures_and_sweeps(spark: SparkSession, tmp_path: Path) -> None:
    study = Study("tiny", "A tiny study", _plans, _claims, _figures)
    claims = reproduce(spark, study, "quick", tmp_path)
    assert [each.verdict for each in claims] == ["holds", "holds", "does not hold"]
    rows = pq.read_table(tmp_path / "claims.parquet").to_pylist()
    assert [(row["id"], row["runs"]) for row in rows] == [("a", 5), ("b", 5), ("c", None)]
    text = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert "does not hold" in text
    assert "it never does" in text
    page = (tmp_path / "claims.html").read_text(encoding="utf-8")
    assert "Of 2 statements of the paper: 1 holds, 1 does not, 0 undecided" in page
    assert "<svg" in page
    assert (tmp_path / "figures" / "01.svg").is_file()
    # A second time everything is there already.
    assert reproduce(spark, study, "quick", tmp_path) == claims


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_study_has_plans_that_can_be_run(name: str, scale: Scale) -> None:
    assert all(len(each) for each in STUDIES[name].plans(scale).values())


def test_the_interval_of_a_mean_is_students() -> None:
    # 1, 2, 3: the deviation is 1, and t with two degrees of freedom is 4.303.
    mean, interval, runs = estimate([1.0, 2.0, 3.0])
    assert (mean, runs) == (2.0, 3)
    assert interval == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))
    assert estimate([5.0]) == (5.0, None, 1)


def test_a_ratio_counts_large_runs_for_more() -> None:
    ratio, interval, _ = ratio_of_sums([1.0, 90.0], [10.0, 100.0])
    assert ratio == pytest.approx(91 / 110)
    assert interval is not None
    assert interval[0] < ratio < interval[1]
    even, narrow, _ = ratio_of_sums([1.0, 10.0], [10.0, 100.0])
    assert even == pytest.approx(0.1)
    assert narrow == pytest.approx((0.1, 0.1))


def test_a_table_survives_odd_words() -> None:
    claim = Claim("x|y", "<b>", "a & b", exact(0.00012), None, "ours", "s")
    assert "x\\|y" in markdown([claim])
    assert "&lt;b&gt;" in html("t", [claim], [])
    assert shown(0.00012) == "0.00012"
    assert shown(12345.6) == "1.235e+04"


PUBLISHED = sorted((Path(__file__).parents[2] / "docs" / "reproduction").glob("*/claims.parquet"))


@pytest.mark.parametrize("table", PUBLISHED, ids=lambda each: each.parent.name)
def test_the_tables_of_the_documentation_are_what_the_study_wrote(table: Path) -> None:
    claims, page = read(table.parent), (table.parent / "claims.md").read_text(encoding="utf-8")
    assert markdown(claims) in page
    assert summary(claims) in page
    # The verdicts of the table are those that follow from its figures now.
    assert pq.read_table(table)["verdict"].to_pylist() == [each.verdict for each in claims]


def test_every_study_is_published() -> None:
    assert {each.parent.name for each in PUBLISHED} == set(STUDIES)

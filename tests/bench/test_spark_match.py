"""The peers of the Spark bench find the right pairs, and its page says what its results say."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.columnar import pairs, prepared
from bench.page import put_section
from bench.results import load
from bench.spark_match import SAVED
from bench.spark_match_report import checks, plain, ratios, section
from bench.workloads import equality, ranges


@pytest.mark.slow
@pytest.mark.parametrize("make", [equality, ranges])
def test_the_spark_sql_join_agrees_with_the_scan(spark: Any, make: Any) -> None:
    from bench.spark_sql_peer import SparkJoin

    work = make(300, 60)
    events = spark.createDataFrame(work.table.append_column("seq", pa.array(range(300))))
    join = SparkJoin(spark, work, events)
    expected = len(pairs(work.table, prepared(work))[0])
    assert join.pairs(distinct=True).count() == join.pairs(distinct=False).count() == expected


@pytest.mark.slow
def test_the_cross_join_agrees_with_the_scan(spark: Any) -> None:
    from bench.spark_sql_peer import cross_join

    work = equality(300, 60)
    events = spark.createDataFrame(work.table.append_column("seq", pa.array(range(300))))
    assert cross_join(spark, work, events).count() == len(pairs(work.table, prepared(work))[0])


def results(counted: float) -> dict[str, Any]:
    rates = {"holdfast, counted": counted, "holdfast, written": 50, "Spark SQL join, counted": 20}
    rates |= {"Spark SQL join, written": 10, "Spark SQL cross join, counted": 1}
    rows = [
        {"contestant": name, "events": 5 if "cross" in name else 100, "seconds": 1.0, "events_per_second": rate}
        for name, rate in rates.items()
    ]
    skew = {"indexes": 1, "pairs": 7, "task_seconds": [1.0, 1.2]}
    found: dict[str, Any] = {
        "events": 100, "subscriptions": 10, "pairs": 7, "rounds": 3, "cores": 2, "rows": rows, "date": "2026-01-01",
        "prepare_seconds": 1.0, "start_seconds": 2.0, "match_batch": {"seconds": 1.0, "events_per_second": 60.0},
        "memory": {"events": 1_000, "pairs": 70, "seconds": 9.0, "worker_mib": [100, 110], "jvm_mib": [500, 700]},
        "skew": {"whole": skew, "shards": skew | {"indexes": 4}},
        "machine": {
            "processor": "p", "cores": 2, "memory_gib": 4, "system": "s", "python": "3", "libraries": {"pyspark": "4"},
        },
    }  # fmt: skip
    found["ratios"] = ratios(found)
    found["checks"] = [check.as_dict() for check in checks(found)]
    return found


def test_targets_compare_like_with_like() -> None:
    verdicts = {check["name"]: (check["measured"], check["holds"]) for check in results(72)["checks"]}
    assert verdicts["counted: Spark SQL join"] == (pytest.approx(3.6), False)
    assert verdicts["written: Spark SQL join"] == (pytest.approx(5), True)
    assert verdicts["counted, per core: match_batch"] == (pytest.approx(60), False)
    assert verdicts["1,000 events: Python worker, later to earlier"] == (pytest.approx(110), True)
    assert verdicts["1,000 events: JVM, later to earlier"] == (pytest.approx(140), False)
    faster = {check["name"]: check["holds"] for check in results(90)["checks"]}  # 75 per cent of match_batch
    assert faster["counted, per core: match_batch"]


def test_a_rate_measured_on_a_part_is_called_so(tmp_path: Path) -> None:
    assert "5 events, rate taken as that of the whole" in plain(results(72))
    page = tmp_path / "page.md"
    page.write_text("before\n")
    put_section("spark_match", section(results(72)), page)
    put_section("spark_match", section(results(80)), page)
    text = page.read_text()
    assert text.startswith("before\n") and text.count("## Matching on Spark") == 1
    assert "| holdfast, counted | 80 |" in text


@pytest.mark.skipif(not SAVED.is_file(), reason="no results have been saved yet")
def test_the_page_is_what_the_saved_results_make() -> None:
    from bench.page import PAGE

    saved = load(SAVED)
    assert saved is not None and not saved["quick"]
    assert section(saved) in PAGE.read_text()

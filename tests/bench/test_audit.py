"""The bench of the audit: the traces that it writes, what it reads in Spark's log, and what it concludes."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.audit import STAGE_ROWS, TaskRun, skew, task_runs
from bench.audit_report import checks, report, section
from bench.audit_trace import HOT, write_trace
from bench.results import machine
from tests.pipeline.conftest import embedded_audit


def test_a_written_trace_owes_what_was_asked_for_and_its_hot_pair_most_of_it(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "hot", 10_000, hot=True)
    with embedded_audit([folder]) as audit:
        (run,) = audit.runs
        pairs = {(row["subscriber"], row["source"]): row for row in audit.figures.dicts() if row["scope"] == "pair"}
    assert run.outcome.owed == pytest.approx(10_000, rel=0.05)
    assert pairs["hot", "hot"]["owed"] == HOT * 10_000
    assert run.outcome.unowed == 0
    assert 0 < run.outcome.lost < 0.01 * run.outcome.owed
    assert run.outcome.fifo_violations > 0


def ended(stage: int, started_ms: int, run_ms: int, read: int = 0, shuffled: int = 0) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Info": {"Launch Time": started_ms},
        "Task Metrics": {
            "Executor Run Time": run_ms,
            "Input Metrics": {"Records Read": read},
            "Shuffle Read Metrics": {"Total Records Read": shuffled},
        },
    }


def test_tasks_are_read_from_the_log_with_what_they_read(tmp_path: Path) -> None:
    events = [
        {"Event": "SparkListenerLogStart"},
        ended(0, 100, 900, read=7),
        ended(2, 102, 800, shuffled=9),
        {"Event": "SparkListenerTaskEnd", "Stage ID": 0},  # a task that was lost has no figures
    ]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, events)))
    assert task_runs(tmp_path, since_ms=102) == {2: [TaskRun(102, 800, 9, True)]}
    assert task_runs(tmp_path, since_ms=100)[0] == [TaskRun(100, 900, 7, False)]


def stage(*times: int, rows: int = STAGE_ROWS, shuffled: bool = True) -> list[TaskRun]:
    return [TaskRun(at, run_ms, rows, shuffled) for at, run_ms in enumerate(times)]


def test_the_worst_stage_of_long_tasks_is_judged() -> None:
    # The second stage is too short to say anything, and the third has no more tasks than cores.
    found = skew({0: stage(900, 1_000, 1_100, 2_000), 1: stage(1, 50, 2), 2: stage(800, 9_000)})
    assert (found["stages"], found["slowest_ms"], found["median_ms"]) == (1, 2_000, 1_050)
    assert found["ratio"] == 2_000 / 1_050


def test_a_slow_first_task_of_a_core_and_a_second_kind_of_task_are_told_from_uneven_rows() -> None:
    first = skew({0: stage(9_000, 9_000, 1_000, 1_000, 1_000, 1_000, 1_000)})
    assert (first["ratio"], first["later_ratio"], first["rows_ratio"]) == (9.0, 1.0, 1.0)
    kinds = skew({0: stage(*[600] * 6, shuffled=False) + stage(*[6_000] * 5)})
    assert (kinds["ratio"], kinds["later_ratio"]) == (10.0, 1.0)
    uneven = skew({0: stage(*[1_000] * 5) + stage(1_000, rows=4 * STAGE_ROWS)})
    assert (uneven["ratio"], uneven["rows_ratio"]) == (1.0, 4.0)


def row(
    millions: float,
    seconds: float,
    hot: bool = False,
    ratio: float = 1.2,
    worker_mib: float = 200,
    rows_ratio: float = 1.1,
) -> dict[str, Any]:
    return {
        "millions": millions,
        "hot": hot,
        "owed": int(millions * 1e6),
        "rows": int(millions * 2e6),
        "seconds": seconds,
        "jvm_mib": 1_500.0,
        "worker_mib": worker_mib,
        "tasks": 40,
        "skew": {
            "stages": 3,
            "slowest_ms": 1_200,
            "median_ms": 1_000,
            "ratio": ratio,
            "later_ratio": 1.1,
            "rows_ratio": rows_ratio,
        },
    }


def found(*rows: dict[str, Any]) -> dict[str, Any]:
    small = {"owed": 1_000, "seconds": 1.5, "engine": "embedded", "rounds": 3}
    data = {"benchmark": "audit", "date": "2026-01-01", "machine": machine(()), "rows": list(rows), "small": small}
    return data | {"checks": [each.as_dict() for each in checks(data)]}


def test_growth_memory_and_stragglers_are_judged() -> None:
    good = found(row(0.1, 5), row(1, 30), row(10, 250), row(10, 260, hot=True))
    assert [each["holds"] for each in good["checks"]] == [True] * 6
    uneven = row(10, 260, hot=True, ratio=1.6, rows_ratio=1.6)
    bad = found(row(0.1, 7), row(1, 30), row(10, 330, worker_mib=400), uneven)
    assert [each["holds"] for each in bad["checks"]] == [True] + [False] * 5


def test_a_size_that_was_not_run_is_extrapolated_and_said_to_be() -> None:
    rows = [row(1, 30), row(10, 250)]
    assert "100 million owed were not run; the line through the last two sizes says 41 min." in section(found(*rows))
    assert "not run" not in section(found(*rows, row(100, 2_400)))
    assert "not run" in report(found(*rows))

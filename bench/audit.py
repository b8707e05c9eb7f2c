"""How the audit grows on Spark's local[2], how even its tasks are when one pair has almost all rows, and how long a
small one takes in all.

    python -m bench.audit [--json] [--save | --redraw] [--millions 0.1 1 10] [--hot 50] [--small]

Each size is a process of its own with a trace of its own, and `--save` keeps the rows of other sizes that were saved
before: so a long run can be made in pieces. The physical plan of the largest is kept beside the results.
Exit code 1: a check failed.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Any

from bench.audit_report import checks, report, section
from bench.audit_trace import write_trace
from bench.command import options, redraw, told
from bench.results import load, machine, saved_at
from bench.rounds import say
from bench.spark_memory import Watch
from bench.workloads import REPOSITORY

CORES = 2
PLAN = REPOSITORY / "bench" / "results" / "audit-plan.txt"
STAGE_MS = 500  # shorter tasks say nothing about skew: starting one takes tens of milliseconds
STAGE_ROWS = 10_000  # and of fewer rows their number does not
SMALL_ROUNDS = 3


def on_spark(millions: float, hot: bool) -> dict[str, Any]:
    """One audit, from its session's warmth to the verdicts; called in a process of its own."""
    from holdfast.pipeline.audit.job import audited
    from holdfast.pipeline.audit.spark_trace import SparkTraceEngine
    from holdfast.pipeline.audit.trace_footers import read_footers
    from holdfast.pipeline.session import session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log"
        log.mkdir()
        logged = {"enabled": "true", "dir": f"file:{log}", "compress": "false", "rolling.enabled": "false"}
        conf = {f"spark.eventLog.{key}": value for key, value in logged.items()}
        spark = session("bench audit", f"local[{CORES}]", {**conf, "spark.local.dir": f"{folder}/spark"})
        small = write_trace(folder / "small", 1_000)
        with audited(SparkTraceEngine(spark, 10**6), read_footers([small])):
            pass  # warm
        begun = perf_counter()
        trace = write_trace(folder / "trace", int(millions * 1e6), hot)
        made_s = perf_counter() - begun
        footers = read_footers([trace])
        rows = sum(footers[0].rows.values())
        since_ms = time() * 1_000
        with Watch() as memory:
            begun = perf_counter()
            engine = SparkTraceEngine(spark, rows)
            with audited(engine, footers) as audit:
                seconds = perf_counter() - begun
                plan = engine.plan()
        spark.stop()
        stages = task_runs(log, since_ms)
    jvm, worker = memory.peak()
    (run,) = audit.runs
    return {
        "millions": millions,
        "hot": hot,
        "owed": run.outcome.owed,
        "rows": rows,
        "published": run.outcome.published,
        "trace_s": made_s,
        "seconds": seconds,
        "jvm_mib": jvm,
        "worker_mib": worker,
        "tasks": sum(map(len, stages.values())),
        "skew": skew(stages),
        "plan": plan,
    }


@dataclass(frozen=True)
class TaskRun:
    started_ms: int
    run_ms: int
    rows: int  # that it read: of a shuffle, of files, or portions of kept tables
    is_shuffled: bool  # which of these: a stage may have tasks of both kinds side by side


def task_runs(log: Path, since_ms: float) -> dict[int, list[TaskRun]]:
    """Each stage's tasks that were started since then, from the log of a session that has ended."""
    found: dict[int, list[TaskRun]] = {}
    for line in next(log.glob("[!.]*")).read_text().splitlines():
        event = json.loads(line)
        if event["Event"] != "SparkListenerTaskEnd" or not event.get("Task Metrics"):
            continue
        started, metrics = event["Task Info"]["Launch Time"], event["Task Metrics"]
        if started >= since_ms:
            rows = metrics["Input Metrics"]["Records Read"]
            is_shuffled = not rows
            rows = rows or metrics["Shuffle Read Metrics"]["Total Records Read"]
            run = TaskRun(started, metrics["Executor Run Time"], rows, is_shuffled)
            found.setdefault(event["Stage ID"], []).append(run)
    return found


def skew(stages: dict[int, list[TaskRun]]) -> dict[str, Any]:
    """How much the slowest task of a stage is slower than its median one, where that is most, of the stages with tasks
    that are long enough. Then twice within each kind of task: by time, without the first task of each core, which loads
    and compiles for those behind it; and by the rows that they read."""
    long = [each for each in stages.values() if _is_long(each)]
    worst = max(([run.run_ms for run in each] for each in long), key=_ratio, default=[])
    later = [sorted(each, key=lambda run: run.started_ms)[CORES:] for each in stages.values()]
    return {
        "stages": len(long),
        "slowest_ms": max(worst, default=0),
        "median_ms": median(worst) if worst else 0,
        "ratio": _ratio(worst),
        "later_ratio": max((_ratio([run.run_ms for run in each]) for each in _kinds(later)), default=1.0),
        "rows_ratio": max(map(_ratio, _shuffled_rows(stages)), default=1.0),
    }


def _shuffled_rows(stages: dict[int, list[TaskRun]]) -> list[list[int]]:
    found = ([run.rows for run in each if run.is_shuffled] for each in stages.values())
    return [rows for rows in found if len(rows) > CORES and median(rows) >= STAGE_ROWS]


def _kinds(stages: list[list[TaskRun]]) -> list[list[TaskRun]]:
    """The tasks of each stage that read files or kept tables, and those that read a shuffle, if they are long."""
    apart = [[run for run in each if run.is_shuffled is shuffled] for each in stages for shuffled in (False, True)]
    return [each for each in apart if _is_long(each)]


def _is_long(tasks: list[TaskRun]) -> bool:
    return len(tasks) > CORES and median(run.run_ms for run in tasks) >= STAGE_MS


def _ratio(numbers: list[int]) -> float:
    return max(numbers) / median(numbers) if numbers and median(numbers) else 1.0


def small() -> dict[str, Any]:
    """`holdfast audit` of the quickstart's run, whole processes: the best of some."""
    with tempfile.TemporaryDirectory() as name:
        net, run = Path(name) / "net.toml", Path(name) / "run"
        _holdfast("init", str(net))  # the quickstart's
        _holdfast("sim", str(net), "--out", str(run))
        seconds = []
        for _ in range(SMALL_ROUNDS):
            begun = perf_counter()
            told_ = json.loads(_holdfast("audit", str(run), "--json"))
            seconds.append(perf_counter() - begun)
    return {"owed": told_["owed"], "engine": told_["engine"], "seconds": min(seconds), "rounds": SMALL_ROUNDS}


def _holdfast(*words: str) -> str:
    code = "from holdfast.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def in_own_process(millions: float, hot: bool) -> dict[str, Any]:
    say(f"{millions:g} million owed" + (", one hot pair" if hot else ""))
    code = f"import json; from bench.audit import on_spark; print(json.dumps(on_spark({millions!r}, {hot!r})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    words = options("audit", __doc__)
    words.add_argument("--redraw", action="store_true", help="only write the page anew from the saved result")
    words.add_argument("--millions", type=float, nargs="*", default=[], help="owed deliveries, a process for each")
    words.add_argument("--hot", type=float, nargs="*", default=[], help="the same, nine of ten rows of one pair")
    words.add_argument("--small", action="store_true", help="the quickstart's audit in the embedded engine")
    given = words.parse_args()
    if given.redraw:
        redraw("audit", section)
        return 0
    data = load(saved_at("audit")) or {"benchmark": "audit", "rows": [], "small": None}
    if given.small:
        data["small"] = small()
    for millions, hot in [*((each, False) for each in given.millions), *((each, True) for each in given.hot)]:
        row = in_own_process(millions, hot)
        plan = row.pop("plan")
        others = [each for each in data["rows"] if (each["millions"], each["hot"]) != (millions, hot)]
        data["rows"] = sorted([*others, row], key=lambda each: (each["hot"], each["millions"]))
        if given.save and not hot and millions == max(each["millions"] for each in data["rows"] if not each["hot"]):
            PLAN.write_text(plan)
    data |= {"date": datetime.now(UTC).date().isoformat(), "machine": machine(("pyarrow", "pyspark", "duckdb"))}
    data["checks"] = [each.as_dict() for each in checks(data)]
    told(given, data, section, report)
    return 0 if all(each["holds"] for each in data["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())

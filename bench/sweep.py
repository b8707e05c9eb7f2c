"""A sweep's speed: equal runs on Spark's local[2] beside the same runs in one process, and in two.

All simulate the same cells of the same plan and write the same records. Two plain processes, each with half of the
runs, say what the machine's two cores can give. Spark's time is that of the whole call on a warm session: simulating,
and the tables of runs and means; the session's own start is told apart. Contestants take turns and the best round of
each counts. All must give the same numbers.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.command import options, redraw, told
from bench.results import machine
from holdfast.pipeline.sweep.cell import run_cell
from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import SweepPlan, preset_document

TARGET = 1.8  # of one process's rate, where two plain processes have it


def equal_runs(runs: int, seconds: float) -> SweepPlan:
    """The tree of paper 001; only the seed differs."""
    return plan(preset_document("epidemic-100"), seeds=runs, settings={"duration_s": seconds})


def plain(processes: int, runs: int, seconds: float) -> float:
    """Seconds for all runs, in processes of their own that have neither Spark nor anything else to do."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "bench.sweep", "--runs", str(runs), "--seconds", str(seconds)]
        own = [["--alone", f"{folder}/{at}", "--share", f"{at}/{processes}"] for at in range(processes)]
        started = [subprocess.Popen([*words, *each], stdout=subprocess.PIPE, text=True) for each in own]
        told_s = [float(each.communicate()[0]) for each in started]
        return max(told_s)


def alone(out: Path, runs: int, seconds: float, share: str) -> float:
    first, step = map(int, share.split("/"))
    asked, folder = equal_runs(runs, seconds), SweepFolder(out / "sweep")
    with folder.locked(asked):
        began = time.perf_counter()
        for number in range(first, len(asked), step):
            folder.write(run_cell(asked, number))
        return time.perf_counter() - began


def on_spark(spark: Any, runs: int, seconds: float) -> tuple[float, float]:
    """Seconds for the whole call, and for the simulations in it."""
    from holdfast.pipeline.sweep.job import sweep
    from holdfast.pipeline.sweep.progress import Progress

    seen: list[Progress] = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        sweep(spark, equal_runs(runs, seconds), Path(folder) / "sweep", watch=seen.append)
        took_s = time.perf_counter() - began
        _check_same(SweepFolder(Path(folder) / "sweep"), equal_runs(runs, seconds))
    return took_s, seen[-1].seconds


def _check_same(folder: SweepFolder, asked: SweepPlan) -> None:
    here, there = run_cell(asked, 0), folder.record(0)
    if there is None or (here.counts, here.measures) != (there.counts, there.measures):
        raise SystemExit("Spark and one process give different numbers for the same run")


def main() -> int:
    words = options("sweep", __doc__)
    words.add_argument("--redraw", action="store_true", help="only write the page anew from the saved result")
    words.add_argument("--runs", type=int, default=48)
    words.add_argument("--seconds", type=float, default=15.0, help="simulated seconds a run; one or two of real time")
    words.add_argument("--rounds", type=int, default=2)
    words.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    words.add_argument("--share", default="0/1", help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.alone is not None:
        print(alone(given.alone, given.runs, given.seconds, given.share))
        return 0
    if given.redraw:
        redraw("sweep", section)
        return 0
    result = measure(given.runs, given.seconds, given.rounds)
    told(given, result, section, report)
    return 0 if result["holds"] else 1


def measure(runs: int, seconds: float, rounds: int) -> dict[str, Any]:
    from holdfast.pipeline.session import session

    began = time.perf_counter()
    spark = session("bench sweep", "local[2]", profile="test")  # as `holdfast sweep` starts it
    on_spark(spark, 8, 0.1)
    start_s = time.perf_counter() - began
    best_alone = best_two = best_spark = best_cells = float("inf")
    for number in range(1, rounds + 1):
        best_alone = min(best_alone, plain(1, runs, seconds))
        best_two = min(best_two, plain(2, runs, seconds))
        whole_s, cells_s = on_spark(spark, runs, seconds)
        best_spark, best_cells = min(best_spark, whole_s), min(best_cells, cells_s)
        told_ = f"one process {best_alone:.1f} s, two {best_two:.1f} s, Spark {best_spark:.1f} s"
        print(f"round {number}: {told_}", file=sys.stderr)
    spark.stop()
    ratio, most = best_alone / best_spark, best_alone / best_two
    return {
        "benchmark": "sweep",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "runs": runs,
        "rounds": rounds,
        "run_s": best_alone / runs,
        "one_process_runs_per_s": runs / best_alone,
        "two_processes_runs_per_s": runs / best_two,
        "spark_runs_per_s": runs / best_spark,
        "spark_simulating_runs_per_s": runs / best_cells,
        "spark_start_s": start_s,
        "ratio": ratio,
        "two_processes_ratio": most,
        "target": TARGET,
        "holds": ratio >= TARGET,
    }


def report(found: dict[str, Any]) -> str:
    verdict = "yes" if found["holds"] else "NO"
    return "\n".join(
        [
            f"{found['runs']} equal runs of {found['run_s']:.2f} s, best of {found['rounds']} rounds",
            f"one process    {found['one_process_runs_per_s']:>8.2f} runs/s",
            f"two processes  {found['two_processes_runs_per_s']:>8.2f} runs/s, {found['two_processes_ratio']:.2f}x",
            f"Spark local[2] {found['spark_runs_per_s']:>8.2f} runs/s with its tables, "
            f"{found['spark_simulating_runs_per_s']:.2f} while simulating",
            f"ratio          {found['ratio']:>8.2f}x   target at least {found['target']:.1f}x   {verdict}",
            f"               {_of_two(found):>8.0%} of what two processes have",
            f"session        {found['spark_start_s']:>8.1f} s to start and warm up, not counted",
        ]
    )


def section(found: dict[str, Any]) -> str:
    where = found["machine"]
    return f"""## Sweeps

Measured on {found["date"]} with `./run bench sweep --save`: {where["processor"]}, {where["cores"]} cores,
{where["memory_gib"]} GiB, Python {where["python"]}.

{found["runs"]} equal runs, the tree of paper 001 for {found["run_s"]:.2f} s of one process's time each, with seeds
1 to {found["runs"]}: in one process, in two plain processes with half of them each, and as a sweep on Spark's
local[2]. They took turns, and the best of {found["rounds"]} rounds counts. All write the same records, and the first
run's numbers must be the same.

| | runs/s |
|---|--:|
| one process | {found["one_process_runs_per_s"]:.2f} |
| two plain processes | {found["two_processes_runs_per_s"]:.2f} |
| Spark, with the tables of runs and means | {found["spark_runs_per_s"]:.2f} |
| Spark, while simulating | {found["spark_simulating_runs_per_s"]:.2f} |

The sweep has {found["ratio"]:.2f} times the rate of one process (target at least {found["target"]:.1f}, where two plain
processes have it: {"holds" if found["holds"] else "does NOT hold"}); two plain processes have
{found["two_processes_ratio"]:.2f}, so the sweep has {_of_two(found):.0%} of what the machine gives to two. Spark's
start, {found["spark_start_s"]:.0f} s until it was warm, is not counted.
"""


def _of_two(found: dict[str, Any]) -> float:
    """Of the rate of two plain processes: what is left of it when other work on the machine slows them, too."""
    return float(found["ratio"] / found["two_processes_ratio"])


if __name__ == "__main__":
    sys.exit(main())

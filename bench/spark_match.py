"""The match job on Spark's local[2], beside plain Spark SQL and beside the matcher in one process.

    python -m bench.spark_match [--json] [--quick] [--save | --redraw] [--workloads DIR]

Everyone reads the same Parquet file of events. What is counted is reading, matching and what becomes of the pairs:
counted by subscription, or written as Parquet. Preparing the conditions is told apart, and so is the start of Spark.
Exit code 1: a check failed, or contestants disagree about the pairs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import workloads
from bench.command import keep, redraw
from bench.results import load, machine, regressions, saved_at
from bench.rounds import say
from bench.spark_match_report import checks, plain, ratios, section
from bench.spark_memory import Watch
from bench.workloads import REPOSITORY, Workload

SAVED = saved_at("spark_match")
CORES = 2
ROW_GROUP = 1 << 17
BATCH = 50_000  # events for match_batch at a time, as in bench/matching.py
JVM_MEMORY = "6g"  # where contestants take turns: plain Spark SQL keeps all pairs there to make them distinct
COPIES = 10  # of the events, in the check of memory
HOT = 1 / 3  # of all events, in the skewed workload


@dataclass(frozen=True)
class Plan:
    events: int
    subscriptions: int
    rounds: int
    cross_events: int


FULL = Plan(events=1_000_000, subscriptions=10_000, rounds=3, cross_events=10_000)
QUICK = Plan(events=100_000, subscriptions=1_000, rounds=2, cross_events=2_000)


class Bench:
    def __init__(self, plan: Plan, work: Workload, folder: Path) -> None:
        from holdfast.pipeline.session import session

        self._plan, self._work, self._folder = plan, work, folder
        pq.write_table(work.table, folder / "events.parquet", row_group_size=ROW_GROUP)
        pq.write_table(pa.table({"id": work.ids, "condition": work.texts}), folder / "wishes.parquet")
        begun = perf_counter()
        self._spark = session("bench spark_match", f"local[{CORES}]", {"spark.driver.memory": JVM_MEMORY})
        self._spark.range(1).count()
        self.start_seconds = perf_counter() - begun
        self.rows: list[dict[str, Any]] = []
        self._counts: dict[str, int] | None = None

    def run(self) -> dict[str, Any]:
        prepared = self._prepared()
        contestants = {**self._ours(), **self._theirs()}
        best: dict[str, float] = {}
        for number in range(self._plan.rounds):
            for name, go in contestants.items():
                if number and best[name] > 60:
                    continue  # a second minute would say the same
                say(f"round {number + 1}: {name}")
                begun = perf_counter()
                go()
                best[name] = min(best.get(name, float("inf")), perf_counter() - begun)
        for name, seconds in best.items():
            self._row(name, seconds, self._plan.events)
        self._cross()
        say("a hot symbol")
        skew = self._skew()
        self._spark.stop()
        say("match_batch in one process")
        batch = _in_own_process("match_batch", self._folder)
        say("match_batch in two processes at once")
        at_once = _at_once("match_batch", self._folder)
        say(f"{COPIES} times the events")
        memory = _in_own_process("many_events", self._folder)
        return {
            "benchmark": "spark_match",
            "date": datetime.now(UTC).date().isoformat(),
            "quick": self._plan is QUICK,
            "machine": machine(("numpy", "numba", "pyarrow", "pyspark", "pandas")),
            "events": self._plan.events,
            "subscriptions": self._plan.subscriptions,
            "pairs": sum((self._counts or {}).values()),
            "rounds": self._plan.rounds,
            "cores": CORES,
            "start_seconds": self.start_seconds,
            "prepare_seconds": prepared,
            "rows": self.rows,
            "match_batch": batch,
            "match_batch_at_once": at_once,
            "memory": memory,
            "skew": skew,
        }

    def _prepared(self) -> float:
        from holdfast.pipeline.match.frames import prepare

        self._count = prepare(self._folder / "events.parquet", self._folder / "wishes.parquet")
        begun = perf_counter()
        self._match = prepare(self._folder / "events.parquet", self._folder / "wishes.parquet", key=["seq"])
        return perf_counter() - begun

    def _ours(self) -> dict[str, Callable[[], None]]:
        from pyspark.sql import functions as F

        from holdfast.pipeline.match.frames import counted_here
        from holdfast.pipeline.match.job import write_files
        from holdfast.pipeline.match.tasks import RowSink

        result = self._match.result

        def through_rows() -> None:
            pairs = self._match.run(RowSink(result.keys, result.id_type), result.schema)
            self._check(pairs.groupBy("subscription").agg(F.count("seq").alias("events")).toArrow())

        def to_files() -> None:
            with self._place() as out:
                write_files(self._match, out)

        return {
            "holdfast, counted": lambda: self._check(counted_here(self._count)),
            "holdfast, written": to_files,
            "holdfast, rows handed to the JVM, counted": through_rows,
        }

    def _theirs(self) -> dict[str, Callable[[], None]]:
        from bench.spark_sql_peer import SparkJoin

        events = self._spark.read.parquet(str(self._folder / "events.parquet"))
        join = SparkJoin(self._spark, self._work, events)

        def counts(distinct: bool) -> None:
            self._check(
                join.pairs(distinct).groupBy("subscription").count().withColumnRenamed("count", "events").toArrow()
            )

        def to_files() -> None:
            with self._place() as out:
                join.pairs(distinct=True).write.mode("overwrite").parquet(str(out))

        return {
            "Spark SQL join, counted": lambda: counts(True),
            "Spark SQL join, written": to_files,
            "Spark SQL join, kept twice, counted": lambda: counts(False),
        }

    @contextmanager
    def _place(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            out = Path(folder) / "out"
            out.mkdir()
            yield out

    def _check(self, table: pa.Table) -> None:
        """Everyone must find the same number of events for each subscription."""
        found = dict(zip(table["subscription"].to_pylist(), table["events"].to_pylist(), strict=True))
        if self._counts is None:
            self._counts = found
        elif found != self._counts:
            raise SystemExit(f"different pairs: {sum(found.values()):,} and {sum(self._counts.values()):,}")

    def _cross(self) -> None:
        from bench.spark_sql_peer import cross_join

        say("Spark SQL cross join")
        few = self._plan.cross_events
        events = self._spark.read.parquet(str(self._folder / "events.parquet")).where(f"seq < {few}")
        crossed = cross_join(self._spark, self._work, events.repartition(CORES).cache()).groupBy("subscription").count()
        begun = perf_counter()
        found = sum(crossed.toArrow()["count"].to_pylist())
        seconds = perf_counter() - begun
        expected = _matcher(self._work).match_batch(self._work.table.slice(0, few)).num_rows
        if found != expected:
            raise SystemExit(f"the cross join finds {found:,} pairs, the matcher {expected:,}")
        self._row("Spark SQL cross join, counted", seconds, few)

    def _row(self, name: str, seconds: float, events: int) -> None:
        self.rows.append(
            {"contestant": name, "events": events, "seconds": seconds, "events_per_second": events / seconds}
        )

    def _skew(self) -> dict[str, Any]:
        """A third of the events is about one symbol, all of them together; whole and in shards."""
        from holdfast.pipeline.match.frames import prepare
        from holdfast.pipeline.match.job import write_files

        events = _with_hot_symbol(self._work.table)
        pq.write_table(events, self._folder / "skewed.parquet", row_group_size=ROW_GROUP // 8)
        found = {}
        whole = self._match.compiled.files[0].bytes
        for name, budget in (("whole", 2 * whole), ("shards", whole // 4)):
            plan = prepare(self._folder / "skewed.parquet", self._folder / "wishes.parquet", index_bytes_max=budget)
            with self._place() as out:
                written = write_files(plan, out)
            found[name] = {
                "indexes": len(plan.compiled.files),
                "pairs": sum(each.pairs for each in written),
                "task_seconds": sorted(each.seconds for each in written),
            }
        if found["whole"]["pairs"] != found["shards"]["pairs"]:
            raise SystemExit("shards find other pairs than the whole")
        return found


def _with_hot_symbol(table: pa.Table) -> pa.Table:
    """A third of the rows becomes the commonest symbol's, and rows are put in the worst order: by symbol."""
    counts = pc.value_counts(table["symbol"].combine_chunks())
    hot = counts.field("values")[pc.index(counts.field("counts"), pc.max(counts.field("counts"))).as_py()]
    is_hot = pc.less(pc.divide(pc.cast(table["seq"], pa.float64()), float(table.num_rows)), HOT)
    symbols = pc.if_else(is_hot, hot, table["symbol"])
    at = table.schema.get_field_index("symbol")
    return table.set_column(at, "symbol", symbols).sort_by("symbol")


def _matcher(work: Workload) -> Any:
    from holdfast import Matcher

    matcher = Matcher()
    for id_, text in zip(work.ids, work.texts, strict=True):
        matcher.add(id_, text)
    return matcher


def _in_own_process(function: str, folder: Path) -> dict[str, Any]:
    """What a function of this module prints when nothing else has happened before it."""
    (found,) = _at_once(function, folder, 1)
    return found


def _at_once(function: str, folder: Path, processes: int = CORES) -> list[dict[str, Any]]:
    """The same in several side by side: what the machine gives to as many as the job has."""
    code = f"import sys; from bench.spark_match import {function}; {function}(sys.argv[1])"
    words = [sys.executable, "-c", code, str(folder)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) for _ in range(processes)]
    told = [each.communicate()[0] for each in started]
    if any(each.returncode for each in started):
        raise SystemExit(f"{function} failed")
    return [json.loads(each) for each in told]


def match_batch(folder: str) -> None:
    """The matcher without Spark, given events in memory."""
    from holdfast import Matcher

    events = pq.read_table(Path(folder) / "events.parquet")
    wishes = pq.read_table(Path(folder) / "wishes.parquet")
    matcher = Matcher()
    for id_, text in zip(wishes["id"].to_pylist(), wishes["condition"].to_pylist(), strict=True):
        matcher.add(id_, text)
    best = float("inf")
    for _ in range(4):  # the first compiles
        begun = perf_counter()
        for first in range(0, events.num_rows, BATCH):
            matcher.match_batch(events.slice(first, BATCH))
        best = min(best, perf_counter() - begun)
    print(json.dumps({"seconds": best, "events_per_second": events.num_rows / best}))


def many_events(folder: str) -> None:
    """The same events as several files, matched and written: does the second half take more memory than the first?"""
    from holdfast.pipeline.match.frames import prepare
    from holdfast.pipeline.match.job import write_files
    from holdfast.pipeline.session import session

    spark = session("bench spark_match", f"local[{CORES}]")
    many = Path(folder) / "many"
    many.mkdir()
    for number in range(COPIES):
        (many / f"{number}.parquet").hardlink_to(Path(folder) / "events.parquet")
    with tempfile.TemporaryDirectory(dir=folder) as out:
        warm, place = Path(out) / "warm", Path(out) / "matches"
        warm.mkdir()
        place.mkdir()
        write_files(prepare(many / "0.parquet", Path(folder) / "wishes.parquet"), warm)
        plan = prepare(many, Path(folder) / "wishes.parquet")
        with Watch() as samples:
            begun = perf_counter()
            written = write_files(plan, place)
            seconds = perf_counter() - begun
    spark.stop()
    first, second = samples.peak(0, 0.5), samples.peak(0.5, 1)
    found = {
        "events": sum(each.events for each in written),
        "pairs": sum(each.pairs for each in written),
        "seconds": seconds,
        "jvm_mib": [first[0], second[0]],
        "worker_mib": [first[1], second[1]],
    }
    print(json.dumps(found))


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.redraw:
        redraw("spark_match", section)
        return 0
    module = workloads.load_stock(options.workloads)
    if module is None:
        raise SystemExit(f"there is no stock.py in {options.workloads.name}; see --workloads")
    plan = QUICK if options.quick else FULL
    say(f"{plan.events:,} events, {plan.subscriptions:,} subscriptions")
    with tempfile.TemporaryDirectory() as folder:
        results = Bench(plan, workloads.stock(module, plan.events, plan.subscriptions), Path(folder)).run()
    results["ratios"] = ratios(results)
    results["checks"] = [check.as_dict() for check in checks(results)]
    if options.save:
        keep(results, section)
    saved = load(SAVED)
    warnings = regressions(results["ratios"], saved["ratios"]) if saved is not None and not options.quick else []
    print(json.dumps(results | {"regressions": warnings}, indent=2) if options.json else plain(results))
    if not options.json:
        print("".join(f"{each}\n" for each in warnings), end="")
    return 0 if all(check["holds"] for check in results["checks"]) else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="bench.spark_match", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a minute or two; never saved")
    parser.add_argument("--redraw", action="store_true", help="the page from what was saved, no run")
    parser.add_argument("--save", action="store_true", help="keep the results and write the page's section")
    parser.add_argument(
        "--workloads", type=Path, default=workloads.SHARED, metavar="DIR",
        help="folder with stock.py (default: ../shared/workloads beside the repository)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.save and options.quick:
        parser.error("--save needs the whole run: leave out --quick")
    return options


if __name__ == "__main__":
    sys.exit(main())

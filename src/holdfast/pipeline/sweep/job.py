"""The sweep job: every missing cell is simulated in a Spark task, and the records become tables.

Tasks get numbers and nothing else; the plan travels with the function. A task runs each cell in a process of its own
and writes its record into the sweep's folder at once, so what is finished stays finished whatever happens to the
worker, the job or the machine, and a cell that is killed (out of memory, say) is recorded as failed like any other.
"""

from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.spark_path import spark_path
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.pipeline.sweep.process import run_apart
from holdfast.pipeline.sweep.progress import Watch, watched
from holdfast.pipeline.sweep.tables import runs_table, summary_table

_TASK_S = 1.0  # tiny cells share a task: starting one costs some 20 ms
_PILOTS = 8  # cells that are timed first, to know how many share a task
_PILOTS_FROM = 64  # cells: fewer get a task each, and all of their overhead is a second
_SHARED_MAX = 1_000  # cells of one task; however short they seem, a task that fails is begun again


def sweep(
    spark: SparkSession, plan: SweepPlan, out: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> DataFrame:
    """Run what is missing of a sweep, write its tables, and give the table of runs: one row a cell, failed or not.

    The folder may hold a part of the same sweep; cells that failed there are tried again.
    """
    folder = SweepFolder(Path(out).resolve())
    with folder.locked(plan, overwrite):
        missing = sorted(set(range(len(plan))) - folder.done())
        if missing or not folder.has_tables:
            folder.drop_tables()
            folder.forget_failures()
            with explained():
                with watched(folder, len(plan), watch):
                    run_cells(spark, plan, folder, missing)
                runs_table(spark, plan, folder).write.parquet(str(folder.runs))
                runs = spark.read.parquet(spark_path(folder.runs))
                summary_table(runs, list(plan.columns), len(plan.seeds)).write.parquet(str(folder.summary))
    return spark.read.parquet(spark_path(folder.runs))


def run_cells(spark: SparkSession, plan: SweepPlan, folder: SweepFolder, cells: list[int]) -> None:
    """Simulate these cells and leave their records in the folder."""
    if len(cells) > _PILOTS_FROM:
        pilots = cells[:: len(cells) // _PILOTS][:_PILOTS]  # from all over the grid
        _run(spark, plan, folder, pilots, len(pilots))
        cells = sorted(set(cells) - set(pilots))
        _run(spark, plan, folder, cells, ceil(len(cells) / cells_per_task(_mean_s(folder, pilots))))
    elif cells:
        _run(spark, plan, folder, cells, len(cells))


def cells_per_task(mean_s: float) -> int:
    """How many cells share a task when one takes so long."""
    return min(_SHARED_MAX, max(1, round(_TASK_S / max(mean_s, 1e-6))))


def _run(spark: SparkSession, plan: SweepPlan, folder: SweepFolder, cells: list[int], tasks: int) -> None:
    numbers = spark.range(0, tasks, 1, tasks)
    # Nothing comes back: the records are in the folder. "noop" is Spark's way to run a job for its effects.
    numbers.mapInArrow(_task(plan, folder, cells, tasks), "cell long").write.format("noop").mode("overwrite").save()


def _task(
    plan: SweepPlan, folder: SweepFolder, cells: list[int], tasks: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder.must_be_visible()
        for batch in batches:
            for task in batch["id"].to_pylist():
                mine = cells[task::tasks]  # neighbours in the grid cost alike: deal them out
                for number in mine:
                    if not folder.holds(number):  # a task that was begun again finds what it had finished
                        run_apart(plan, folder, number)
                yield pa.RecordBatch.from_pydict({"cell": pa.array(mine, pa.int64())})

    return run


def _mean_s(folder: SweepFolder, cells: list[int]) -> float:
    records = [record for record in map(folder.record, cells) if record is not None]
    return sum(record.took_s for record in records) / max(len(records), 1)

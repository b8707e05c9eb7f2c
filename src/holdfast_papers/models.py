"""Measure a model that is not a network file: cells dealt out to Spark tasks, a row for each back."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.pipeline.sweep.progress import Progress, Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cell = Mapping[str, Any]  # settings as plain values
_KEPT_AFTER = 32  # cells: so many are begun again at most after a stop


def measured(
    spark: "SparkSession",
    cells: Sequence[Cell],
    measure: Callable[[Cell], dict[str, Any]],
    file: Path,
    watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """Settings and measurements of each cell; those of an earlier run are in the file and are not measured again."""
    wanted = [json.dumps(dict(cell), sort_keys=True) for cell in cells]
    known: dict[str, str] = {}
    if file.exists():
        known = dict(zip(*(column.to_pylist() for column in pq.read_table(file).columns), strict=True))
    missing = [each for each in wanted if each not in known]
    began, before = monotonic(), len(wanted) - len(missing)
    for start in range(0, len(missing), _KEPT_AFTER):
        some = missing[start : start + _KEPT_AFTER]
        rows = spark.createDataFrame([(each,) for each in some], "cell string").repartition(len(some))
        found = rows.mapInArrow(_task(measure), "cell string, found string").collect()  # one short row a cell
        known |= {row["cell"]: row["found"] for row in found}
        _keep(known, file)
        if watch is not None:
            watch(Progress(len(wanted), before, before + start + len(some), 0, monotonic() - began))
    return [{**json.loads(each), **json.loads(known[each])} for each in wanted]


def _keep(known: Mapping[str, str], file: Path) -> None:
    """Beside the old one first: a stop while it is written leaves one of the two whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".part")
    pq.write_table(pa.table({"cell": list(known), "found": list(known.values())}), beside)
    beside.replace(file)


def _task(
    measure: Callable[[Cell], dict[str, Any]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch["cell"].to_pylist():
                found = json.dumps(measure(json.loads(text)))
                yield pa.RecordBatch.from_pydict({"cell": [text], "found": [found]})

    return run

"""Measure a model that is not a network file: cells dealt out to Spark tasks, a row for each back."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cell = Mapping[str, Any]  # settings as plain values


def measured(
    spark: "SparkSession", cells: Sequence[Cell], measure: Callable[[Cell], dict[str, Any]], file: Path
) -> list[dict[str, Any]]:
    """Settings and measurements of each cell; those of an earlier run are in the file and are not measured again."""
    wanted = [json.dumps(dict(cell), sort_keys=True) for cell in cells]
    known: dict[str, str] = {}
    if file.exists():
        known = dict(zip(*(column.to_pylist() for column in pq.read_table(file).columns), strict=True))
    missing = [each for each in wanted if each not in known]
    if missing:
        rows = spark.createDataFrame([(each,) for each in missing], "cell string").repartition(len(missing))
        found = rows.mapInArrow(_task(measure), "cell string, found string").collect()  # one short row a cell
        known |= {row["cell"]: row["found"] for row in found}
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"cell": list(known), "found": list(known.values())}), file)
    return [{**json.loads(each), **json.loads(known[each])} for each in wanted]


def _task(
    measure: Callable[[Cell], dict[str, Any]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch["cell"].to_pylist():
                found = json.dumps(measure(json.loads(text)))
                yield pa.RecordBatch.from_pydict({"cell": [text], "found": [found]})

    return run

"""Tables written by Spark's own writers: any file system that Hadoop has, and any format whose package is there.

How a write becomes visible is the format's affair: Delta Lake and Iceberg commit; a folder of Parquet has a `_SUCCESS`
when it is complete.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from holdfast.model.errors import InputError
from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.tables.target import BatchId, Mode, Target, refuse_existing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAVE_MODES = {"create": "errorifexists", "append": "append", "replace": "overwrite"}
# What to add to the command, with the version that goes with one's Spark.
_PACKAGES = {
    "delta": "--packages io.delta:delta-spark_2.13:VERSION "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "iceberg": "--packages org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION",
}


class SparkTables:
    def __init__(self, spark: "SparkSession", target: Target, mode: Mode, names: Sequence[str] = ()) -> None:
        """`names` are the tables to come: that they are not there yet is told before any work is done."""
        self._spark, self._target, self._mode = spark, target, mode
        if target.form == "parquet" and mode == "append":
            raise InputError("--append: a folder of Parquet has no commits; choose delta: or iceberg:")
        self._must_know_format()
        for name in names if mode == "create" else ():
            if self._is_there(name):
                raise refuse_existing(target.table(name))

    def write(self, name: str, frame: "DataFrame", batch: BatchId | None = None) -> None:
        place = self._target.table(name)
        with explained():
            if self._target.form == "iceberg":
                self._write_iceberg(place, frame)
                return
            writer = frame.write.format(self._target.form).mode(_SAVE_MODES[self._mode])
            if batch is not None:  # Delta Lake passes over a number that the writer has committed
                writer = writer.option("txnAppId", batch.writer).option("txnVersion", str(batch.number))
            writer.save(place)

    def _write_iceberg(self, place: str, frame: "DataFrame") -> None:
        there = self._spark.catalog.tableExists(place)
        if self._mode == "create" and there:
            raise refuse_existing(place)
        into = frame.writeTo(place)
        if not there:
            into.using("iceberg").create()
        elif self._mode == "append":
            into.append()
        else:
            into.overwrite(F.lit(True))

    def _is_there(self, name: str) -> bool:
        place = self._target.table(name)
        if self._target.form == "iceberg":
            return bool(self._spark.catalog.tableExists(place))
        try:
            self._spark.read.format(self._target.form).load(place).schema  # noqa: B018 - asks
        except AnalysisException:
            return False
        return True

    def _must_know_format(self) -> None:
        form = self._target.form
        if form == "parquet":
            return
        try:
            self._spark.read.format(form).load("/nowhere").schema  # noqa: B018 - asks
        except Exception as problem:  # of which class depends on the format
            if "DATA_SOURCE_NOT_FOUND" not in str(problem):
                return
            raise InputError(
                f"{self._target}: this Spark session has no {form}; add its package: {_PACKAGES[form]}"
            ) from None

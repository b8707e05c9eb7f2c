"""The tables of an audit as Delta Lake or Iceberg tables, or written by Spark anywhere; one commit for each table."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from holdfast.model.errors import InputError
from holdfast.pipeline.audit.folder import LARGE, SMALL, large_tables, small_tables, write_tables
from holdfast.pipeline.audit.job import Audit
from holdfast.pipeline.audit.slices import Shown
from holdfast.pipeline.tables.target import Mode, Target

_TEXTS = ("name", "driver", "version")


def publish_tables(audit: Audit, found: Mapping[str, Shown], target: Target, mode: Mode) -> None:
    engine: Any = audit.trace.engine
    spark = getattr(engine, "spark", None)
    if spark is not None and target.is_sparks(dict(spark.conf.getAll)):
        from holdfast.pipeline.tables.spark_tables import SparkTables  # noqa: PLC0415 - Spark's

        tables = SparkTables(spark, target, mode, [*LARGE, *SMALL])
        for name, relation in large_tables(audit).items():
            tables.write(name, engine.frame(relation))
        for name, rows in small_tables(audit, found).items():
            tables.write(name, spark.createDataFrame(typed(rows)))
        return
    if target.is_sparks({}):
        raise InputError(f"{target}: only Spark writes there; give --engine spark")
    from holdfast.pipeline.tables.drafts import DraftTables  # noqa: PLC0415 - formats are extras

    with DraftTables(target, mode, [*LARGE, *SMALL]) as draft:
        write_tables(audit, found, draft.draft, typed)


def typed(rows: pa.Table) -> pa.Table:
    """A column without a value gets the type that it has in other runs, so that their rows go into one table."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_null(field.type):
            rows = rows.set_column(at, field.name, rows.column(at).cast(_type_of(field.name)))
    return rows


def _type_of(name: str) -> pa.DataType:
    if name in _TEXTS:
        return pa.string()
    return pa.int64() if name.endswith("_us") or name == "seed" else pa.float64()

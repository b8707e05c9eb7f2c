"""Which engine audits: Spark for large traces and clusters, the embedded one for small traces. The plan is one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.model.extras import require
from holdfast.pipeline.audit.trace_footers import RunFooters, look, read_footers
from holdfast.pipeline.audit.trace_tables import TraceEngine
from holdfast.pipeline.engine import EngineName, environment_names_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rows of all tables together. Up to here the embedded engine is done before Spark has started and planned; beyond, one
# process and its memory are no longer the right place.
EMBEDDED_ROWS_MAX = 5_000_000
_SHORT_ROWS = 1_000_000  # below this the work is over before the JVM's optimising compiler pays off


def engine_for(asked: EngineName | None, footers: Sequence[RunFooters], is_spark_meant: bool = False) -> EngineName:
    """What was asked for; otherwise by size, unless a cluster or something else of Spark's is named."""
    if asked is not None:
        return asked
    is_spark = is_spark_meant or environment_names_spark()
    return "spark" if is_spark or _rows(footers) > EMBEDDED_ROWS_MAX else "embedded"


def start(
    name: EngineName,
    footers: Sequence[RunFooters],
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> TraceEngine:
    """The engine, ready for an audit. Only what it needs is imported."""
    if name == "embedded":
        require("duckdb")
        from holdfast.pipeline.audit.embedded_trace import EmbeddedTraceEngine  # noqa: PLC0415 - one of the two

        return EmbeddedTraceEngine()
    spark = _session(master, settings, progress, is_short=_rows(footers) < _SHORT_ROWS)
    from holdfast.pipeline.audit.spark_trace import SparkTraceEngine  # noqa: PLC0415 - takes a second

    return SparkTraceEngine(spark, _rows(footers))


def footers_of(
    runs: Sequence[Path],
    asked: EngineName | None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> list[RunFooters]:
    """Those of many files in tasks, if Spark audits whatever they say. Otherwise here: they choose the engine."""
    if engine_for(asked, (), bool(master or settings)) != "spark":
        return read_footers(runs)
    require("pyspark")
    from holdfast.pipeline.many_files import HERE_MAX, looked_at  # noqa: PLC0415 - imports Spark

    if sum(1 for run in runs for _ in run.glob("*/*.parquet")) <= HERE_MAX:
        return read_footers(runs)  # what is wrong with a small run is told in a moment
    spark = _session(master, settings, progress, is_short=False)
    return read_footers(runs, lambda files: looked_at(spark, files, look))


def _session(
    master: str | None, settings: Mapping[str, str] | None, progress: Callable[[str], None], is_short: bool
) -> "SparkSession":
    from holdfast.pipeline.session import plain_interrupts, session  # noqa: PLC0415 - requires pyspark itself

    progress("starting Spark")
    spark = session("holdfast audit", master, settings, profile="test" if is_short else "run")
    plain_interrupts()
    return spark


def _rows(footers: Sequence[RunFooters]) -> int:
    return sum(sum(each.rows.values()) for each in footers)

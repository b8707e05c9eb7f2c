"""Where a result goes: a folder of its own, or tables at a place that others share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.model.errors import InputError
from holdfast.pipeline.match.event_files import is_remote, local_path
from holdfast.pipeline.result_folder import ResultDraft, ResultFolder
from holdfast.pipeline.tables.target import Target, mode_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = str | Target  # a folder, or tables


def draft_for(out: Place, names: Sequence[str], overwrite: bool, append: bool) -> ResultDraft:
    """Where to write the tables of these names."""
    if isinstance(out, Target):
        from holdfast.pipeline.tables.drafts import DraftTables  # noqa: PLC0415 - formats are extras

        return DraftTables(out, mode_of(append, overwrite), names)
    if is_remote(out):
        raise InputError(f"{out}: not a folder that the tasks can write; let Spark write it with --to parquet:{out}")
    return ResultFolder(local_path(out), overwrite)


def is_sparks(out: Place, spark: "SparkSession") -> bool:
    """Whether Spark's own writers have to write it."""
    return isinstance(out, Target) and out.is_sparks(dict(spark.conf.getAll))

"""Events as files: a Parquet, JSONL or CSV table, one file or a folder of them.

Spark reads all three. Parquet files in a file system that the workers see are also read inside the tasks, row group by
row group and with only the columns needed, because the way from the JVM to Arrow costs more than the matching.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from holdfast.model.errors import InputError

Format = Literal["parquet", "jsonl", "csv"]

FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")  # JSONL and CSV may be compressed; Spark unpacks them
# A row that does not fit its table stops the job: the other modes of Spark would turn it into nulls or drop it.
READING: dict[Format, dict[str, str]] = {
    "parquet": {},
    "jsonl": {"mode": "FAILFAST"},
    # A quote inside quotes is doubled, as everyone but Spark writes it.
    "csv": {"mode": "FAILFAST", "header": "true", "inferSchema": "true", "enforceSchema": "false", "escape": '"'},
}
SPARK_NAMES: dict[Format, str] = {"parquet": "parquet", "jsonl": "json", "csv": "csv"}


def as_format(word: str | None) -> Format | None:
    found = next((form for form in SPARK_NAMES if form == word), None)
    if word is not None and found is None:
        raise InputError(f"format: expected {', '.join(SPARK_NAMES)}, found {word}")
    return found


def is_remote(path: str) -> bool:
    """Whether only Spark's own file systems can reach it (s3a://, hdfs:// and such)."""
    return "://" in path and not path.startswith("file://")


def local_path(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def for_spark(path: str) -> str:
    """A path that means the same to the JVM, which may have been started elsewhere."""
    return path if is_remote(path) else str(local_path(path).absolute())


def files_of(path: str) -> list[Path]:
    """The file, or all files of a folder by name. Names that begin with _ or . are not data, as Spark has it."""
    place = local_path(path)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise InputError(f"{path}: there is no such file or folder")
    return sorted(each for each in place.rglob("*") if each.is_file() and not _is_hidden(_inside(path, each)))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def name_columns(path: str, files: Sequence[Path]) -> bool:
    """Whether folders inside, such as day=7, hold a column in their names, which Spark knows how to read."""
    return any("=" in part for each in files if each != local_path(path) for part in _inside(path, each).parent.parts)


def _inside(path: str, file: Path) -> Path:
    return file.relative_to(local_path(path))


def format_of(path: str, files: Sequence[Path]) -> Format:
    """By the names of the files, which must agree."""
    names = [each.name for each in files] or [path]
    found = {_suffix(name) for name in names}
    formats = {FORMATS.get(each) for each in found}
    if len(formats) == 1 and (only := formats.pop()) is not None:
        return only
    what = f"found {', '.join(sorted(found))}" if files else "found none"
    raise InputError(
        f"{path}: expected files that all end in .parquet, in .jsonl or in .csv, {what}; or name the format"
    )


def _suffix(name: str) -> str:
    path = Path(name)
    return (Path(path.stem) if path.suffix in _PACKED else path).suffix.lower() or path.name


def frame(spark: SparkSession, path: str, form: Format, schema: str | None = None) -> DataFrame:
    """The table as Spark reads it. `schema` in Spark's words (`at timestamp, price double`) instead of a guess."""
    reader = spark.read.options(**READING[form])
    if schema is not None:
        reader = reader.schema(schema)
    return reader.format(SPARK_NAMES[form]).load(for_spark(path))

"""Events as files: a Parquet, JSONL or CSV table, one file or a folder of them.

Spark reads all three. Parquet files in a file system that the workers see are also read inside the tasks, row group by
row group and with only the columns needed, because the way from the JVM to Arrow costs more than the matching.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "jsonl", "csv"]

FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
}
_SHOWN_BYTES_MAX = 200  # of a malformed line
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")  # JSONL and CSV may be compressed; Spark unpacks them
# A row that does not fit its table stops the job: the other modes of Spark would turn it into nulls or drop it.
READING: dict[Format, dict[str, str]] = {
    "parquet": {},
    "jsonl": {"mode": "FAILFAST"},
    # A quote inside quotes is doubled, as everyone but Spark writes it.
    # All columns are read, whichever are needed: otherwise a line with too few or too many would pass.
    "csv": {
        "mode": "FAILFAST",
        "header": "true",
        "inferSchema": "true",
        "enforceSchema": "false",
        "escape": '"',
        "columnPruning": "false",
    },
}
_PATTERN = "*?[]{}\\"  # in a path they mean something to Spark
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
    """A path that means the same to the JVM, which may have been started elsewhere and takes `[7]` for a pattern."""
    if is_remote(path):
        return path
    place = str(local_path(path).absolute())
    return "".join(f"\\{letter}" if letter in _PATTERN else letter for letter in place)


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


def frame(spark: "SparkSession", path: str, form: Format, schema: str | None = None) -> "DataFrame":
    """The table as Spark reads it. `schema` in Spark's words (`at timestamp, price double`) instead of a guess."""
    reader = spark.read.options(**READING[form], **lookup(path))
    if schema is not None:
        reader = reader.schema(schema)
    try:
        return reader.format(SPARK_NAMES[form]).load(for_spark(path))
    except Exception as error:  # Spark's own are of several families; this one it tells without the line
        if "_corrupt_record" in str(error) and not is_remote(path):
            refuse_malformed(files_of(path))
        raise


def lookup(path: str) -> dict[str, str]:
    """How Spark is to look for files: left alone, it passes over hidden ones, and those in folders within."""
    if is_remote(path):
        return {}
    place, files = local_path(path), files_of(path)
    if place in files and _is_hidden(Path(place.name)):
        raise InputError(f"{path}: Spark takes no file for data whose name begins with _ or . (rename it)")
    if not name_columns(path, files):
        return {"recursiveFileLookup": "true"}
    stray = [each for each in files if not all("=" in part for part in _inside(path, each).parent.parts or ("",))]
    if stray:
        raise InputError(f"{path}: expected all files in folders that name a column, such as day=7, found {stray[0]}")
    return {}


def refuse_malformed(files: Sequence[Path]) -> None:
    """Find the first line that is no JSON, in files that are not packed."""
    for file in files:
        with file.open("rb") as lines:
            for number, line in enumerate(lines if file.suffix not in _PACKED else (), 1):
                try:
                    json.loads(line.strip() or b"{}")
                except ValueError:
                    shown = line[:_SHOWN_BYTES_MAX].decode(errors="replace").strip()
                    raise InputError(f"{file}: line {number}: expected a JSON object, found {shown}") from None

"""Where the tables of a result go, as `--to` names it.

    delta:/lake/wanted        Delta Lake tables in a folder: /lake/wanted/matches and so on
    delta:s3a://bucket/wanted the same in an object store
    iceberg:lake.wanted       Iceberg tables in the namespace `wanted` of the catalog `lake`
    parquet:s3a://bucket/wanted  folders of Parquet in any file system that Spark reaches

In a folder that the tasks see, they write the Parquet files themselves, and the driver commits them to the table by
the format's Python library: no package of the JVM is needed, whichever version Spark has. Anywhere else Spark's own
writers do both, and need the format's package in the session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from holdfast.model.errors import InputError

TableFormat = Literal["delta", "iceberg", "parquet"]
Mode = Literal["create", "append", "replace"]  # what becomes of a table that is there already; create refuses
_EXAMPLE = "delta:/lake/wanted, iceberg:lake.wanted or parquet:s3a://bucket/wanted"
_ICEBERG_PARTS_MIN = 2  # a catalog and a namespace


class BatchId(NamedTuple):
    """What makes a commit happen once: of one writer, each number once, in order."""

    writer: str
    number: int


@dataclass(frozen=True)
class Target:
    form: TableFormat
    place: str

    def __str__(self) -> str:
        return f"{self.form}:{self.place}"

    def table(self, name: str) -> str:
        return f"{self.place}.{name}" if self.form == "iceberg" else f"{self.place.rstrip('/')}/{name}"

    @property
    def catalog(self) -> str:
        return self.place.partition(".")[0]

    def is_sparks(self, settings: Mapping[str, str]) -> bool:
        """Whether Spark's own writers have to write, given the settings of its session."""
        if self.form == "iceberg":
            return f"spark.sql.catalog.{self.catalog}" in settings
        return self.form == "parquet" or is_remote(self.place)


def parse_target(text: str) -> Target:
    word, colon, place = text.partition(":")
    form = next((each for each in get_args(TableFormat) if each == word), None)
    if form is None or not colon:
        raise InputError(f"--to: expected FORMAT:PLACE such as {_EXAMPLE}, found {text}")
    if not place:
        raise InputError(f"--to: {text} names no place; expected such as {_EXAMPLE}")
    if form == "iceberg":
        parts = place.split(".")
        if len(parts) < _ICEBERG_PARTS_MIN or not all(parts) or "/" in place:
            raise InputError(f"--to: expected iceberg:CATALOG.NAMESPACE such as iceberg:lake.wanted, found {text}")
        return Target(form, place)
    return Target(form, place.removeprefix("file://"))


def is_remote(place: str) -> bool:
    return "://" in place and not place.startswith("file://")


def mode_of(append: bool, overwrite: bool) -> Mode:
    if append and overwrite:
        raise InputError("--append and --overwrite exclude each other; give one")
    return "append" if append else "replace" if overwrite else "create"


def refuse_existing(table: str) -> InputError:
    return InputError(f"{table}: this table exists; add to it with --append, or replace its rows with --overwrite")

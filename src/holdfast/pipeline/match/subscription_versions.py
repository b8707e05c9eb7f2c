"""Subscriptions that change while a stream runs, and which version each micro-batch is matched with.

Before a batch is matched, the newest version is looked up, copied into the checkpoint, and noted beside the batch's
number. A batch that is run again after a crash finds that note and is matched with the same subscriptions, whatever has
become of the folder they came from. A version that is not valid is never noted, so it can be mended.

A folder with entries called `version=N` holds one version in each, and the greatest N is the newest; anything else is
one table that may be replaced, and if it has a column `version`, the rows with the greatest value count. Names that
begin with _ or . are not looked at, nor is a folder with `_temporary` in it, which Spark is still writing.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.model.errors import InputError
from holdfast.pipeline.match.event_files import files_of, for_spark, is_remote, local_path
from holdfast.pipeline.match.subscriptions_table import check_columns, newest_entry, open_subscriptions

_NOTES_MAX = 100  # batches whose version is remembered; Spark itself only ever repeats the last one
_TRIES_MAX = 10  # of reading a table that is being replaced under our hands


@dataclass(frozen=True)
class Version:
    """A version as the checkpoint keeps it."""

    label: str
    copy: str  # folder in the checkpoint


class SubscriptionVersions:
    def __init__(self, spark: SparkSession, path: str, checkpoint: Path) -> None:
        if is_remote(path):
            raise InputError(f"{path}: the subscriptions of a stream must be where the driver can see them change")
        self._spark, self._path = spark, path
        self._notes = checkpoint / "versions"
        self._copies = checkpoint / "subscriptions"
        for folder in (self._notes, self._copies):
            folder.mkdir(parents=True, exist_ok=True)

    def noted(self, batch: int) -> Version | None:
        """The version that this batch was begun with, if it was."""
        note = self._notes / f"{batch}.json"
        return Version(**json.loads(note.read_text())) if note.exists() else None

    def note(self, batch: int, version: Version) -> None:
        """From here on, the batch is matched with this version, however often it is run."""
        write_durably(self._notes / f"{batch}.json", json.dumps(asdict(version)))
        self._forget(batch)

    def table(self, version: Version) -> DataFrame:
        return self._spark.read.parquet(for_spark(str(self._copies / version.copy)))

    def newest(self) -> Version:
        """Copied into the checkpoint, if it is not there yet."""
        for _ in range(_TRIES_MAX):
            place = newest_entry(local_path(self._path))
            before = fingerprint(place)
            version = Version(place.name, f"{place.name}-{before}")
            if (self._copies / version.copy).exists():
                return version
            draft = self._copies / f"_{version.copy}"
            newest_rows(open_subscriptions(self._spark, str(place))).write.mode("overwrite").parquet(str(draft))
            if fingerprint(place) == before:
                draft.rename(self._copies / version.copy)
                return version
        raise InputError(f"{self._path}: the subscriptions change faster than they can be read; move them in at once")

    def _forget(self, batch: int) -> None:
        for note in self._notes.glob("*.json"):
            if int(note.stem) <= batch - _NOTES_MAX:
                note.unlink()
        used = {json.loads(note.read_text())["copy"] for note in self._notes.glob("*.json")}
        for copy in self._copies.iterdir():
            if copy.name not in used:
                shutil.rmtree(copy, ignore_errors=True)


def newest_table(spark: SparkSession, path: str) -> DataFrame:
    """The newest subscriptions, straight from where they are."""
    return newest_rows(open_subscriptions(spark, path if is_remote(path) else str(newest_entry(local_path(path)))))


def newest_rows(table: DataFrame) -> DataFrame:
    if "version" in table.columns and "id" in table.columns:
        newest = table.agg(F.max("version")).collect()[0][0]
        if newest is not None:
            table = table.where(F.col("version") == F.lit(newest))
    return check_columns(table)


def fingerprint(place: Path) -> str:
    """Changes when the files do."""
    digest = sha256()
    for file in files_of(str(place)):
        about = file.stat()
        digest.update(f"{file}\0{about.st_size}\0{about.st_mtime_ns}\0{about.st_ino}\n".encode())
    return digest.hexdigest()[:16]


def write_durably(path: Path, text: str) -> None:
    """All of it or nothing, also when the machine stops."""
    draft = path.with_name(f"_{path.name}")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""The compiled matcher on its way to the workers: one file, mapped into memory, opened once per worker.

The file is named after its contents. On one machine the workers map the driver's own file and share its pages; on a
cluster the session carries the file to every executor (`addArtifacts`, which classic sessions and Spark Connect both
have), and the workers of one executor map the copy there.
"""

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from holdfast.pipeline.shipping import tasks_run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.matching.matcher import Matcher

_OPEN_MAX = 2  # indexes that one worker keeps open: a stream's last version and the present one


@dataclass(frozen=True)
class IndexFile:
    """Where a worker finds an index. Small: it travels with every task."""

    name: str
    folder: str | None  # None: among the files that the session has sent to the executor
    bytes: int

    @property
    def path(self) -> Path:
        """Where a task finds it."""
        if self.folder is not None:
            return Path(self.folder) / self.name
        from pyspark import SparkFiles  # noqa: PLC0415 - only tasks of a cluster need it

        return Path(SparkFiles.get(self.name))

    def open(self) -> "Matcher":
        from holdfast.matching.matcher import Matcher  # noqa: PLC0415 - loads numba, and few events do without

        return Matcher.open(self.path)


@lru_cache(maxsize=_OPEN_MAX)
def opened(index: IndexFile) -> "Matcher":
    """The index as this worker sees it; a worker that is used again finds it open."""
    return index.open()


def write_index(pieces: Iterable[bytes]) -> Path:
    """Write an index that a task has compiled, under a name made from its contents."""
    folder = _driver_folder()
    fresh = folder / uuid4().hex
    digest = hashlib.sha256()
    with fresh.open("wb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return fresh.replace(folder / f"holdfast-{digest.hexdigest()[:32]}.index")


def share(spark: "SparkSession", path: Path) -> IndexFile:
    """Make a written index reachable for every worker."""
    size = path.stat().st_size
    if tasks_run_here(spark):
        return IndexFile(path.name, str(path.parent), size)
    spark.addArtifacts(str(path), file=True)
    return IndexFile(path.name, None, size)


def let_go(indexes: Iterable[IndexFile]) -> None:
    """Remove the driver's copies of indexes that no task will open again."""
    for each in indexes:
        (_driver_folder() / each.name).unlink(missing_ok=True)


@cache
def _driver_folder() -> Path:
    """One folder per driver process, kept until it ends: a DataFrame may be computed long after it was made."""
    folder = tempfile.mkdtemp(prefix="holdfast-index-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)

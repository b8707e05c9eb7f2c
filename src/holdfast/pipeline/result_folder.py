"""A folder of result tables that appears at once, when all of it is there.

Everything is written beside its final place and moved there when it is complete, so a reader sees the old result or
the new one and never a half.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError

TABLES = ("matches", "counts", "rejected")  # what a result of match may hold


Check = Callable[[Path, bool], None]  # raises when a place is taken, or, when it may be overwritten, by something else


class ResultDraft:
    """A folder beside a place, to write into; leaving the block without an error commits it."""

    def __init__(self, out: Path, is_shared: bool) -> None:
        """`is_shared`: whether others may write for the same place meanwhile."""
        self._out = out.absolute()
        self._clear_leftovers(is_shared)
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.discard()

    def _begin(self) -> None:
        self.draft = self._beside("unfinished")
        self.draft.mkdir(parents=True)
        self._lock = os.open(self.draft, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if not self.draft.exists():  # a job that began at the same time has taken it for a leftover
            os.close(self._lock)
            self._begin()

    def table(self, name: str) -> Path:
        folder = self.draft / name
        folder.mkdir(exist_ok=True)
        return folder

    def write(self, name: str, table: pa.Table) -> None:
        pq.write_table(table, self.table(name) / "part-0.parquet")

    def commit(self) -> None:
        raise NotImplementedError

    def discard(self) -> None:
        """Forget what was not committed."""
        os.close(self._lock)
        shutil.rmtree(self.draft, ignore_errors=True)

    def _beside(self, state: str) -> Path:
        return self._out.parent / f".{self._out.name}.{uuid4().hex}.{state}"

    def _clear_leftovers(self, is_shared: bool) -> None:
        """Remove what a killed job has left. A lock goes with its process: where there is one, a job is at work."""
        name = re.compile(re.escape(f".{self._out.name}.") + r"[0-9a-f]{32}\.unfinished")
        for path in self._out.parent.iterdir() if self._out.parent.exists() else ():
            if name.fullmatch(path.name):
                folder = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
                except BlockingIOError:
                    if not is_shared:
                        raise InputError(
                            f"{self._out}: another job is writing a result there; wait for it, or name another folder"
                        ) from None
                finally:
                    os.close(folder)


class ResultFolder(ResultDraft):
    """The draft as a whole takes the place of the result."""

    def __init__(self, out: Path, overwrite: bool, check: Check | None = None) -> None:
        self._overwrite, self._check = overwrite, check or check_place
        try:
            self._check(out, overwrite)
            super().__init__(out, is_shared=False)
        except OSError as problem:
            raise InputError(f"{out}: cannot be written ({problem.strerror}); name another folder") from None

    def commit(self) -> None:
        self._check(self._out, self._overwrite)  # another job may have been here first
        replaced = self._beside("replaced")
        if self._overwrite and self._out.exists():
            self._out.rename(replaced)
        try:
            self.draft.rename(self._out)  # takes the place of an empty folder, and of no other
        except OSError:
            if replaced.exists() and not self._out.exists():
                replaced.rename(self._out)
            self._check(self._out, False)
            raise
        shutil.rmtree(replaced, ignore_errors=True)


def check_place(out: Path, overwrite: bool) -> None:
    """Refuse a place that is taken; with `overwrite`, one that is taken by something else than a result."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a folder for the result")
    there = sorted(each.name for each in out.iterdir()) if out.exists() else []
    if there and not overwrite:
        raise InputError(f"{out} exists already; choose another folder, or replace it with --overwrite")
    foreign = [name for name in there if name not in TABLES]
    if foreign:
        raise InputError(f"{out} holds what is not a result of match ({', '.join(foreign[:3])}); it is not replaced")

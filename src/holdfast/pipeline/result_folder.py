"""A folder of result tables that appears at once, when all of it is there.

Everything is written beside its final place and moved there when it is complete, so a reader sees the old result or
the new one and never a half.
"""

import shutil
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError

TABLES = ("matches", "counts", "rejected")  # what a result of match may hold


class ResultFolder:
    def __init__(self, out: Path, overwrite: bool) -> None:
        self._out = out.absolute()
        check_place(self._out, overwrite)
        self._draft = self._out.parent / f".{self._out.name}.{uuid4().hex}.unfinished"

    def table(self, name: str) -> Path:
        """Where to write a table before `commit`."""
        folder = self._draft / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, name: str, table: pa.Table) -> None:
        pq.write_table(table, self.table(name) / "part-0.parquet")

    def commit(self) -> None:
        replaced = self._out.parent / f".{self._out.name}.{uuid4().hex}.replaced"
        if self._out.exists():
            self._out.rename(replaced)
        self._draft.rename(self._out)
        shutil.rmtree(replaced, ignore_errors=True)

    def discard(self) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)


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

"""Tables that are written as Parquet files first, beside their place, and then committed to it, each at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from holdfast.model.errors import InputError
from holdfast.pipeline.result_folder import ResultDraft
from holdfast.pipeline.tables.parquet_files import DataFiles, data_files
from holdfast.pipeline.tables.target import BatchId, Mode, Target


class TablePlace(Protocol):
    """A place of tables, and how a format makes files that are written already part of one."""

    drafts_beside: Path

    def check(self, name: str, mode: Mode) -> None: ...

    def has(self, name: str) -> bool: ...

    def last_batch(self, name: str, writer: str) -> int | None:
        """The greatest number that this writer has committed."""
        ...

    def commit(self, name: str, found: DataFiles, mode: Mode, batch: BatchId | None) -> None:
        """Move the files to the table, and commit them; the table is made if there is none."""
        ...


def tables_at(target: Target) -> TablePlace:
    if target.form == "iceberg":
        from holdfast.pipeline.tables.iceberg import IcebergTables  # noqa: PLC0415 - an extra

        return IcebergTables(target.place)
    from holdfast.pipeline.tables.delta import DeltaTables  # noqa: PLC0415 - an extra

    return DeltaTables(target.place)


class DraftTables(ResultDraft):
    """`draft` is where to write; leaving the block without an error commits what is there, table after table."""

    def __init__(self, target: Target, mode: Mode, names: Sequence[str]) -> None:
        self._tables, self._mode = tables_at(target), mode
        place = self._tables.drafts_beside
        try:
            for name in names:
                self._tables.check(name, mode)
            super().__init__(place, is_shared=True)
        except OSError as problem:
            raise InputError(f"{target}: cannot be written ({problem.strerror}); name another place") from None

    def commit(self) -> None:
        for folder in sorted(each for each in self.draft.iterdir() if each.is_dir()):
            self.commit_folder(folder.name, folder)

    def commit_folder(self, name: str, folder: Path, batch: BatchId | None = None) -> None:
        """The Parquet files of a folder become rows of a table."""
        found = data_files(list(folder.glob("*.parquet")), name)
        self._tables.commit(name, found, self._mode, batch)

    def last_batch(self, name: str, writer: str) -> int | None:
        return self._tables.last_batch(name, writer)

"""Delta Lake tables in a folder: files that are written already become a commit, by delta-rs.

A commit is one file of the table's log that appears at once. Readers of the format know a data file only by the log,
so what a killed writer has left in the folder is not in the table. A stream's commit carries Delta's own identifier of
a transaction, the stream and the number of the batch, and a batch that the log has is not committed again.
"""

import json
from pathlib import Path
from time import time
from uuid import uuid4

import pyarrow as pa

from holdfast.model.errors import InputError
from holdfast.model.extras import require
from holdfast.pipeline.tables.parquet_files import DataFile, DataFiles, refuse_other_columns
from holdfast.pipeline.tables.target import BatchId, Mode, refuse_existing

require("deltalake")

from deltalake import CommitProperties, DeltaTable, Schema, Transaction  # noqa: E402 - with a clear error before
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError  # noqa: E402
from deltalake.transaction import AddAction, create_table_with_add_actions  # noqa: E402

_TRIES_MAX = 5  # of a commit that another writer's came before; each looks at the table again


class DeltaTables:
    def __init__(self, place: str) -> None:
        self.drafts_beside = Path(place).absolute()

    def check(self, name: str, mode: Mode) -> None:
        path = self._path(name)
        if self._open(name) is not None:
            if mode == "create":
                raise refuse_existing(str(path))
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path}: there is something, and no Delta table; name another place")

    def has(self, name: str) -> bool:
        return self._open(name) is not None

    def last_batch(self, name: str, writer: str) -> int | None:
        table = self._open(name)
        return None if table is None else table.transaction_version(writer)

    def commit(self, name: str, found: DataFiles, mode: Mode, batch: BatchId | None) -> None:
        path = self._path(name)
        self._fitting(name, found.schema, mode, batch)  # before any file is moved
        path.mkdir(parents=True, exist_ok=True)
        actions = [_moved(each, path) for each in found.files]
        try:
            self._commit(name, actions, found.schema, mode, batch)
        except InputError:  # it is certain that nothing was committed
            for each in actions:
                (path / each.path).unlink(missing_ok=True)
            raise

    def _commit(
        self, name: str, actions: list[AddAction], schema: pa.Schema, mode: Mode, batch: BatchId | None
    ) -> None:
        path = self._path(name)
        for _ in range(_TRIES_MAX):
            try:
                return self._try(name, actions, schema, mode, batch)
            except CommitFailedError:
                continue
            except DeltaError as problem:
                if "already exists" in str(problem) and mode != "create":
                    continue  # somebody has made the table since we looked
                raise InputError(f"{path}: {str(problem).splitlines()[0]}") from problem
        raise InputError(f"{path}: other writers commit to this table all the time; try again")

    def _try(self, name: str, actions: list[AddAction], schema: pa.Schema, mode: Mode, batch: BatchId | None) -> None:
        table, columns = self._fitting(name, schema, mode, batch), Schema.from_arrow(schema)
        marks = [Transaction(*batch, int(time() * 1_000))] if batch is not None else None
        # Our own loop looks at the table before it tries again: another driver may have committed the batch.
        own = CommitProperties(app_transactions=marks, max_commit_retries=0)
        if table is None:
            create_table_with_add_actions(str(self._path(name)), columns, actions, mode="error", commit_properties=own)
        else:
            how = "overwrite" if mode == "replace" else "append"
            table.create_write_transaction([*actions], how, columns, commit_properties=own)

    def _fitting(self, name: str, schema: pa.Schema, mode: Mode, batch: BatchId | None) -> DeltaTable | None:
        """The table, if there is one; refused if this cannot be committed to it."""
        path, table = self._path(name), self._open(name)
        if table is None:
            return None
        if mode == "create":
            raise refuse_existing(str(path))
        last = None if batch is None else table.transaction_version(batch.writer)
        if batch is not None and last is not None and last >= batch.number:
            raise InputError(f"{path}: batch {batch.number} is there already; another driver runs this stream")
        refuse_other_columns(str(path), pa.schema(table.schema().to_arrow()), schema)
        return table

    def _open(self, name: str) -> DeltaTable | None:
        path = self._path(name)
        try:
            return DeltaTable(str(path)) if (path / "_delta_log").exists() else None
        except TableNotFoundError:
            return None
        except DeltaError as problem:
            raise InputError(
                f"{path}: not a Delta table that can be read ({str(problem).splitlines()[0]})"
            ) from problem

    def _path(self, name: str) -> Path:
        return self.drafts_beside / name


def _moved(file: DataFile, table: Path) -> AddAction:
    """The file in the table's folder, under a name that nobody else has; what the log is to say of it."""
    place = file.path.rename(table / f"part-{uuid4().hex}.parquet")
    stats = {"numRecords": file.rows, "minValues": file.lowest, "maxValues": file.highest}
    return AddAction(place.name, file.bytes, {}, int(place.stat().st_mtime * 1_000), True, json.dumps(stats))

"""Iceberg tables: files that are written already become a snapshot, by PyIceberg and the catalog that it is set up for.

A commit replaces the catalog's pointer to the table's metadata, so readers see the snapshot before or the one after.
A stream's commit sets a property of the table in the same step, the number of the batch: a batch that the property
covers is not committed again.
"""

import logging
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from holdfast.model.errors import InputError
from holdfast.model.extras import require
from holdfast.pipeline.tables.parquet_files import DataFiles, refuse_other_columns
from holdfast.pipeline.tables.target import BatchId, Mode, is_remote, refuse_existing

require("pyiceberg")

from pyiceberg.catalog import Catalog, load_catalog  # noqa: E402 - with a clear error before
from pyiceberg.exceptions import (  # noqa: E402
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table, TableProperties  # noqa: E402

_TRIES_MAX = 5  # of a commit that another writer's came before; each looks at the table again
# It warns of columns without statistics, which our files lack on purpose, and of commits that are tried again.
logging.getLogger("pyiceberg").setLevel(logging.ERROR)
_PROPERTY = "holdfast.batch."  # and the writer


class IcebergTables:
    def __init__(self, place: str) -> None:
        name, _, self._namespace = place.partition(".")
        self._catalog = _loaded(name)
        warehouse = str(self._catalog.properties.get("warehouse", ""))
        if not warehouse or is_remote(warehouse):
            raise InputError(
                f"catalog {name}: its warehouse ({warehouse or 'not set'}) is no folder that tasks can write to; "
                f"let Spark write there: --conf spark.sql.catalog.{name}=org.apache.iceberg.spark.SparkCatalog"
            )
        self.drafts_beside = Path(warehouse.removeprefix("file://")).absolute() / self._namespace

    def check(self, name: str, mode: Mode) -> None:
        if mode == "create" and self._open(name) is not None:
            raise refuse_existing(self._full(name))

    def has(self, name: str) -> bool:
        return self._open(name) is not None

    def last_batch(self, name: str, writer: str) -> int | None:
        table = self._open(name)
        return None if table is None else _batch_in(table, writer)

    def commit(self, name: str, found: DataFiles, mode: Mode, batch: BatchId | None) -> None:
        table, is_new = self._made(name, found)
        if mode == "create" and not is_new:
            raise refuse_existing(self._full(name))
        refuse_other_columns(self._full(name), table.schema().as_arrow(), found.schema)
        data = Path(table.location().removeprefix("file://")) / "data"
        data.mkdir(parents=True, exist_ok=True)
        places = [str(each.path.rename(data / f"{uuid4().hex}.parquet")) for each in found.files]
        for _ in range(_TRIES_MAX):
            try:
                return self._try(table, places, mode, batch)
            except CommitFailedException:
                table.refresh()
        raise InputError(f"{self._full(name)}: other writers commit to this table all the time; try again")

    def _try(self, table: Table, places: list[str], mode: Mode, batch: BatchId | None) -> None:
        last = None if batch is None else _batch_in(table, batch.writer)
        if batch is not None and last is not None and last >= batch.number:
            raise InputError(
                f"{'.'.join(table.name())}: batch {batch.number} is there already; another driver runs this stream"
            )
        # PyIceberg itself would append again after another writer's commit, without a look at the batch.
        own = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": own})
        with table.transaction() as transaction:
            if batch is not None:
                transaction.set_properties({f"{_PROPERTY}{batch.writer}": str(batch.number)})
            if mode == "replace" and table.current_snapshot() is not None:
                transaction.delete("true")
            if places:
                transaction.add_files(places, check_duplicate_files=False)

    def _made(self, name: str, found: DataFiles) -> tuple[Table, bool]:
        table = self._open(name)
        if table is not None:
            return table, False
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(self._namespace)
        try:
            return self._catalog.create_table(f"{self._namespace}.{name}", schema=found.schema), True
        except TableAlreadyExistsError:  # somebody has made it since we looked
            return self._catalog.load_table(f"{self._namespace}.{name}"), False

    def _open(self, name: str) -> Table | None:
        try:
            return self._catalog.load_table(f"{self._namespace}.{name}")
        except NoSuchTableError:
            return None

    def _full(self, name: str) -> str:
        return f"{self._catalog.name}.{self._namespace}.{name}"


def _batch_in(table: Table, writer: str) -> int | None:
    number = table.properties.get(f"{_PROPERTY}{writer}")
    return None if number is None else int(number)


def _loaded(name: str) -> Catalog:
    try:
        return load_catalog(name)
    except Exception as problem:  # each kind of catalog has errors of its own
        said = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise InputError(
            f"catalog {name}: PyIceberg cannot open it ({said}); describe it in ~/.pyiceberg.yaml or in "
            f"PYICEBERG_CATALOG__{name.upper()}__URI and so on, or give Spark's: --conf spark.sql.catalog.{name}=..."
        ) from problem

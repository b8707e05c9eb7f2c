"""Traces in the embedded engine: files read by DuckDB, and publications matched in this process."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.books import format2
from holdfast.books.trace import PUBLICATION, SCHEMAS
from holdfast.pipeline.audit.publications import KEYS, PublicationSource
from holdfast.pipeline.audit.trace_footers import RunFooters, damaged
from holdfast.pipeline.audit.trace_tables import attributes_of
from holdfast.pipeline.embedded_engine import EmbeddedEngine, literal
from holdfast.pipeline.engine import Relation
from holdfast.pipeline.match.few_events import CONDITIONS_MAX, EVENTS_MAX, FewEvents
from holdfast.pipeline.match.subscriptions_table import InvalidSubscriptionsError, parsed
from holdfast.pipeline.match.tasks import HeldIndex, RowSink, Task

_PAIRS = pa.schema([("source", pa.string()), *((name, pa.int64()) for name in ("seq", "published_us", "subscription"))])


class EmbeddedTraceEngine(EmbeddedEngine):
    def trace_table(self, run: RunFooters, name: str) -> Relation:
        if run.about["format"] == format2.FORMAT and name in format2.UPGRADES:
            rows = format2.upgraded(name, lambda origin: self._read(run, origin))
            return self._plain(run, self.table(rows))
        schema = pa.schema(PUBLICATION) if name == "publications" else SCHEMAS[name]
        return self._plain(run, self.files([run.folder / name / part for part in run.parts[name]], list(schema)))

    def matches(self, run: RunFooters, subscriptions: Relation) -> Relation:
        rows = pa.Table.from_pylist(subscriptions.dicts(), pa.schema([("id", pa.int64()), ("condition", pa.string())]))
        try:
            asked = parsed(rows)
        except InvalidSubscriptionsError as error:
            raise damaged(run.folder, error) from None
        mentioned = {name: each for name, each in attributes_of(run).items() if name in asked.attributes}
        columns = ["source", "seq", "time_us", *(column for each in mentioned.values() for column in each)]
        source = PublicationSource(tuple((name, len(each)) for name, each in mentioned.items()))
        few = run.rows["publications"] <= EVENTS_MAX and len(asked.by_id) <= CONDITIONS_MAX
        finder = FewEvents(asked.by_id, pa.int64()) if few else HeldIndex(asked.matcher())
        task = Task(source, finder, RowSink(len(KEYS), pa.int64()))
        return self._plain(run, self.table(pa.Table.from_batches(task(_batches(run, columns)), _PAIRS)))

    def _read(self, run: RunFooters, name: str) -> pa.Table:
        return pa.concat_tables(pq.ParquetFile(run.folder / name / part).read() for part in run.parts[name])

    def _plain(self, run: RunFooters, rows: Relation) -> Relation:
        """The rows with the name of their run, and without the word `limit`, which means something in SQL."""
        columns = [f'"{each}"' if each != "limit" else '"limit" AS bound' for each in rows.columns]
        return self.sql(f"SELECT {literal(run.label)} AS run, {', '.join(columns)} FROM {rows}")


def _batches(run: RunFooters, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The publications file by file, with these columns in this order; one that a file lacks is empty."""

    def missing(batch: pa.RecordBatch, name: str) -> pa.Array:
        return _matchable(pa.nulls(batch.num_rows, run.schemas["publications"].field(name).type))

    for part in run.parts["publications"]:
        file = pq.ParquetFile(run.folder / "publications" / part)
        there = set(file.schema_arrow.names)
        for batch in file.iter_batches(columns=[each for each in columns if each in there], batch_size=1 << 17):
            yield pa.RecordBatch.from_arrays(
                [_matchable(batch.column(name)) if name in there else missing(batch, name) for name in columns],
                names=columns,
            )


def _matchable(column: pa.Array) -> pa.Array:
    # Beyond 64 signed bits there are only values of at least 2**63, which doubles still order among smaller numbers.
    return column.cast(pa.float64(), safe=False) if pa.types.is_uint64(column.type) else column

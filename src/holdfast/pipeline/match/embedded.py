"""`holdfast match` of small tables in this process: the tasks of the Spark job, one after the other, without Spark.

The same source, index and sinks make the same tables. It stops at what only Spark can do, before anything is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa

from holdfast.pipeline.match.event_files import Format
from holdfast.pipeline.match.outcome import MatchOutcome
from holdfast.pipeline.match.parquet import ParquetTable, RowGroupSource, read_footers, task_rows
from holdfast.pipeline.match.result_columns import result_columns, warnings_of
from holdfast.pipeline.match.small_tables import NeedsSparkError, event_files_of, subscription_rows
from holdfast.pipeline.match.subscriptions_table import Subscriptions, parsed, rejected_table
from holdfast.pipeline.match.tasks import HeldIndex, Task
from holdfast.pipeline.match.write import WriteTask, Written, settle
from holdfast.pipeline.result_folder import ResultDraft
from holdfast.pipeline.tables.results import Place, draft_for

EVENTS_MAX = 1_000_000  # about a second's work, and Spark takes longer to start


@dataclass(frozen=True)
class EmbeddedMatch:
    events: str
    subscriptions: str
    out: Place
    key: Sequence[str] = ()
    keep: Sequence[str] = ()
    counts: bool = False
    skip_invalid: bool = False
    overwrite: bool = False
    append: bool = False  # to tables that are there already
    form: Format | None = None

    def run(self, events_max: int | None = EVENTS_MAX) -> MatchOutcome:
        """A NeedsSparkError where Spark has to; `events_max` None takes as many as there are."""
        started = perf_counter()
        with TemporaryDirectory(prefix="holdfast-match-") as scratch:
            rows = subscription_rows(self.subscriptions)
            table = read_footers(event_files_of(self.events, self.form, Path(scratch)))
            if events_max is not None and table.rows > events_max:
                raise NeedsSparkError(f"{self.events}: more than {events_max:,} events")
            wanted = parsed(rows, skip_invalid=self.skip_invalid)
            kinds = table.kinds_of(wanted.attributes)
            names = ["counts" if self.counts else "matches", *(["rejected"] if self.skip_invalid else [])]
            with draft_for(self.out, names, self.overwrite, self.append) as folder:
                pairs = self._write(folder, table, tuple(kinds), wanted)
                if self.skip_invalid:
                    folder.write("rejected", rejected_table(wanted.rejected))
        return MatchOutcome(
            events=table.rows,
            subscriptions=len(wanted.by_id),
            pairs=pairs,
            rejected=len(wanted.rejected),
            indexes=1,
            index_bytes=0,
            seconds=perf_counter() - started,
            task_seconds=(),
            warnings=tuple(warnings_of(wanted.uses, len(wanted.by_id), table.types, kinds)),
            engine="embedded",
        )

    def _write(
        self, folder: ResultDraft, table: ParquetTable, mentioned: tuple[str, ...], wanted: Subscriptions
    ) -> int:
        """How many pairs there were."""
        keys, kept = result_columns(table.types, self.key, self.keep)
        types = {name: table.carried_type(name) for name in (*keys, *kept)}
        numbered = not keys
        source = RowGroupSource(mentioned, tuple(types.items()), numbered)
        all_groups = task_rows([table.groups]).to_batches()
        finder = HeldIndex(wanted.matcher())
        id_type = pa.int64() if wanted.has_integer_ids else pa.string()
        if self.counts:
            from holdfast.pipeline.match.counting import CountSink  # noqa: PLC0415 - compiled, and not always needed

            schema = pa.schema([("subscription", id_type), ("events", pa.int64())])
            counted = pa.Table.from_batches(Task(source, finder, CountSink(id_type))(all_groups), schema)
            folder.write("counts", counted)
            return sum(counted["events"].to_pylist())
        place = folder.table("matches")
        attempts = place.with_name("_attempts matches")
        attempts.mkdir()
        task = WriteTask(source, finder, str(attempts), len(keys) or 1, numbered)
        written = [Written(**row) for batch in task(all_groups) for row in batch.to_pylist()]
        before = [(name, types[name]) for name in keys] or [("row", pa.int64())]
        columns = [*before, ("subscription", id_type), *((name, types[name]) for name in kept)]
        settle(attempts, place, written, pa.schema(columns))
        return sum(each.pairs for each in written)

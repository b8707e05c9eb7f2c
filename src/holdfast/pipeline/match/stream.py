"""The same match over a stream of events, each pair exactly once.

Spark cuts the stream into micro-batches and writes down what belongs to each before it starts. Batch n is matched with
one version of the subscriptions and becomes visible at once: as the folder `OUT/matches/batch=n`, or as one commit of
a table (`stream_sinks`). After a crash Spark hands over the unfinished batch again: if the sink has it, all was done
but Spark's own note of it; if not, it is matched again, with the same events and the same version.
"""

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.model.errors import InputError
from holdfast.pipeline.match.compile import INDEX_BYTES_MAX, Compiled, compile_subscriptions
from holdfast.pipeline.match.event_files import local_path
from holdfast.pipeline.match.event_stream import EventStream
from holdfast.pipeline.match.frames import over_frame
from holdfast.pipeline.match.index import let_go
from holdfast.pipeline.match.lifetimes import Lifetime
from holdfast.pipeline.match.stream_sinks import StreamSink, opened_sink
from holdfast.pipeline.match.subscription_versions import SubscriptionVersions, Version, newest_table, write_durably
from holdfast.pipeline.match.subscriptions_table import rejected_table
from holdfast.pipeline.spark_engine import plan_of
from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.tables.results import Place
from holdfast.pipeline.tables.target import Target

_MARK = "_stream.json"  # in the result folder and in the checkpoint: which belongs to which
_OURS = frozenset({_MARK, "_checkpoint", "_lock", "versions", "subscriptions"})  # before Spark has written anything


class BatchDone(NamedTuple):
    batch: int
    events: int
    pairs: int
    version: str  # of the subscriptions


@dataclass(frozen=True)
class MatchStream:
    events: EventStream
    subscriptions: str
    out: Place
    checkpoint: str | None = None  # without: inside the result folder
    key: Sequence[str] = ()
    keep: Sequence[str] = ()
    skip_invalid: bool = False
    index_bytes_max: int = INDEX_BYTES_MAX
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})
    on_batch: Callable[["BatchDone"], None] | None = None  # called after each batch
    lifetime: Lifetime | None = None  # of the events
    explain: bool = False  # print Spark's plan of the first batch

    @contextmanager
    def running(self, spark: SparkSession) -> Iterator[StreamingQuery]:
        """Begin, or go on where the last run of the same stream stopped; the query is stopped in the end."""
        out, checkpoint = self._places()
        kept = checkpoint if isinstance(out, Target) else out  # where the stream's own files are
        with explained():
            known = _earlier(kept, checkpoint, self._settings)
            arriving = self.events.frame(spark, StructType.fromJson(json.loads(known["schema"])) if known else None)
            frame = arriving if self.lifetime is None else self.lifetime.applied(arriving, self.key)
            self._try_out(spark, frame)
            if not known:
                known = {**self._settings, "schema": arriving.schema.json(), "id": uuid4().hex}
                _begin(kept, checkpoint, known)
            with _locked(checkpoint), opened_sink(spark, out, known["id"]) as sink:
                versions = SubscriptionVersions(spark, self.subscriptions, checkpoint)
                batches = Batches(self, sink, kept / "rejected", versions)
                writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint / "spark"))
                query = writer.trigger(**self.trigger).start()
                try:
                    yield query
                finally:
                    query.stop()

    def _places(self) -> tuple[Path | Target, Path]:
        if isinstance(self.out, Target):
            if self.checkpoint is None:
                raise InputError("--checkpoint: expected the folder of the stream's checkpoint, beside --to")
            return self.out, local_path(self.checkpoint).absolute()
        out = local_path(self.out).absolute()
        return out, local_path(self.checkpoint).absolute() if self.checkpoint else out / "_checkpoint"

    @property
    def _settings(self) -> dict[str, Any]:
        """What must not change between two runs of one stream."""
        about: dict[str, Any] = {"events": self.events.about, "key": list(self.key), "keep": list(self.keep)}
        if isinstance(self.out, Target):
            about["to"] = str(self.out)
        if self.lifetime is not None:
            about["lifetime"] = list(self.lifetime)
        return about

    def _try_out(self, spark: SparkSession, frame: DataFrame) -> None:
        """Subscriptions and columns that will not do are told before anything is written."""
        table = newest_table(spark, self.subscriptions)
        over_frame(frame, self.compile(spark, table), self.key, self.keep)

    def compile(self, spark: SparkSession, table: DataFrame) -> Compiled:
        return compile_subscriptions(spark, table, self.index_bytes_max, self.skip_invalid)


class Batches:
    """Called by Spark with each micro-batch."""

    def __init__(self, stream: MatchStream, sink: StreamSink, rejected: Path, versions: SubscriptionVersions) -> None:
        self._stream, self._sink, self._rejected, self._versions = stream, sink, rejected, versions
        self._compiled: tuple[Version, Compiled] | None = None
        self._is_explained = False

    def __call__(self, events: DataFrame, batch: int) -> None:
        if self._sink.holds(batch):
            return
        version = self._versions.noted(batch)
        if version is None:
            version = self._versions.newest()
            self._compile(events.sparkSession, version)
            self._versions.note(batch, version)
        compiled = self._compile(events.sparkSession, version)
        plan = over_frame(events, compiled, self._stream.key, self._stream.keep)
        if self._stream.explain and not self._is_explained:
            self._is_explained = True
            print(plan_of(plan.inputs))
        figures = self._sink.write(plan, batch)
        if self._stream.on_batch is not None:
            self._stream.on_batch(BatchDone(batch, *figures, version.label))

    def _compile(self, spark: SparkSession, version: Version) -> Compiled:
        if self._compiled is None or self._compiled[0] != version:
            compiled = self._stream.compile(spark, self._versions.table(version))
            if self._stream.skip_invalid:
                folder = self._rejected / version.copy
                folder.mkdir(parents=True, exist_ok=True)
                pq.write_table(rejected_table(compiled.rejected), folder / "part-0.parquet")
            if self._compiled is not None:
                let_go({*self._compiled[1].files} - {*compiled.files})
            self._compiled = version, compiled
        return self._compiled[1]


def _earlier(out: Path, checkpoint: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an earlier run has settled, or None when there was none. Refuses to mix two streams."""
    here, there = _read_mark(out), _read_mark(checkpoint)
    if not (checkpoint / "spark").exists() and not (out / "matches").exists():
        foreign = {each.name for each in out.iterdir()} - _OURS if out.exists() else set()
        if foreign:
            raise InputError(f"{out} exists already, and no stream has written it; choose another folder")
        return None
    if here is None or there is None or here["id"] != there["id"]:
        raise InputError(
            f"the result in {out} and the checkpoint in {checkpoint} belong to different streams; use new ones"
        )
    changed = [name for name, value in settings.items() if here.get(name) != value]
    if changed:
        text = ", ".join(f"{name} was {here.get(name)} and is now {settings[name]}" for name in changed)
        raise InputError(f"{out}: this stream was started with other settings ({text}); choose another folder")
    return here


def _read_mark(folder: Path) -> dict[str, Any] | None:
    mark = folder / _MARK
    try:
        found = json.loads(mark.read_text()) if mark.exists() else None
    except ValueError:
        found = {}
    if found is not None and not (isinstance(found, dict) and {"id", "events", "key", "keep", "schema"} <= {*found}):
        raise InputError(f"{mark}: damaged; start a new stream in another folder")
    return found


def _begin(out: Path, checkpoint: Path, about: Mapping[str, Any]) -> None:
    for folder in (checkpoint, out):
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / _MARK, json.dumps(about))


@contextmanager
def _locked(checkpoint: Path) -> Iterator[None]:
    """One run at a time. The lock goes with the process, however that ends."""
    with (checkpoint / "_lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{checkpoint}: this stream is running already") from None
        yield

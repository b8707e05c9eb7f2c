"""Audit a trace while it grows: a Structured Streaming job over the files as they appear.

Spark writes down which files belong to which batch before a batch runs. A batch leads from one window to the next
(`window`), which is a folder of the checkpoint that appears when it is complete: so whatever is killed, each file
counts once. The audit's plan runs over the window, by the engine that its size asks for.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import duckdb

from holdfast.books.promised import order_promised
from holdfast.model.errors import InputError
from holdfast.pipeline import number_format
from holdfast.pipeline.audit.engines import engine_for, start
from holdfast.pipeline.audit.facts import facts
from holdfast.pipeline.audit.trace_footers import RunFooters, read_footers
from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.audit.window import FIGURES, SECONDS, About, OpenWindow, read_about
from holdfast.pipeline.embedded_engine import literal
from holdfast.pipeline.engine import EngineName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LATELY_S = 300  # the last minutes
_FILES = "path string, modificationTime timestamp, length long, content binary"  # Spark's, of files as they are
_KEPT = 2  # windows: Spark repeats the last batch at most


@dataclass(frozen=True)
class Followed:
    """What a batch has found."""

    about: About
    strict: bool  # order is promised to everybody
    totals: dict[str, int]  # final
    lately: dict[str, int]  # of the last minutes; what is open is neither lost nor late
    waiting: int  # deliveries that may still come
    delay_us: dict[str, int]  # in the window

    @property
    def verdicts(self) -> dict[str, bool | None]:
        """False is final: it cannot become true again. None may become either, and is known when the run has ended."""
        totals = self.totals
        twice = totals["repeated"] - totals["shared_again"] > 0
        broken = {
            "P1": totals["uncalled_for"] > 0,
            "P2": twice,
            "P3": self.strict and totals["fifo_violations"] > 0,
            "P7": self.about.over_limit > 0,
        }
        return {name: False if each else None for name, each in broken.items()}

    def line(self) -> str:
        lately, totals = self.lately, self.totals
        share = number_format.share(lately["delivered"] / lately["owed"]) if lately["owed"] else "nothing owed"
        broken = [name for name, holds in self.verdicts.items() if holds is False]
        words = [
            f"last {LATELY_S // 60} min: {lately['owed']:,} owed, {share} delivered",
            f"{lately['lost'] + lately['late']:,} lost, {self.waiting:,} may still come",
            *(f"{name} {each / 1_000:.1f} ms" for name, each in self.delay_us.items()),
            f"final: {totals['delivered']:,} of {totals['owed']:,}",
            f"{' '.join(broken)} broken" if broken else "no promise broken so far",
        ]
        if self.about.afterwards:
            words.append(f"{self.about.afterwards:,} came when their event was final")
        return f"{self.about.marked_us / 1e6:,.0f} s: {'; '.join(words)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "marked_us": self.about.marked_us,
            "final_until_us": None if self.about.ended else self.about.frontier_us,
            "ended": self.about.ended,
            "published": self.about.published,
            "final": self.totals,
            "lately": self.lately,
            "open": self.waiting,
            "delay_us": self.delay_us,
            "afterwards": self.about.afterwards,
            "verdicts": self.verdicts,
        }


@dataclass(frozen=True)
class Following:
    """How a trace is followed, and where its state is."""

    run: Path
    checkpoint: Path
    settle_us: int
    engine: EngineName | None = None
    on_batch: Callable[[Followed], None] = lambda followed: None
    trigger: Mapping[str, Any] = field(default_factory=lambda: {"availableNow": True})
    ended: Event = field(default_factory=Event)

    @contextmanager
    def running(self, spark: "SparkSession") -> Iterator["StreamingQuery"]:
        """Begin, or go on where an earlier process stopped; the query is stopped in the end."""
        self.check()
        files = spark.readStream.format("binaryFile").schema(_FILES).option("recursiveFileLookup", True)
        frame = files.option("pathGlobFilter", "*.parquet").load(f"file:{self.run.resolve()}").select("path")
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", f"{self.checkpoint}/spark")
        query = writer.trigger(**self.trigger).start()
        try:
            yield query
        finally:
            query.stop()

    def check(self) -> None:
        if not (self.run / "run").is_dir():
            raise InputError(f"{self.run}: no run here yet; `holdfast up NET --out {self.run} --grow 10` begins one")
        if not (self.run / "begun").is_dir():
            raise InputError(f"{self.run}: this trace does not grow; leave out --follow, or run it with `up --grow 10`")
        mark = self.checkpoint / "follow.json"
        about = {"run": str(self.run.resolve()), "settle_us": self.settle_us}
        if mark.exists() and json.loads(mark.read_text()) != about:
            raise InputError(f"{self.checkpoint}: it belongs to another run or --settle; choose another folder")
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        (draft := mark.with_name(f"_{mark.name}")).write_text(json.dumps(about))
        draft.rename(mark)

    def _batch(self, files: "DataFrame", batch: int) -> None:
        paths = [Path(row["path"].removeprefix("file:")) for row in files.collect()]
        self.take([self.run.resolve() / each.parent.name / each.name for each in paths], batch)

    def take(self, files: list[Path], batch: int) -> None:
        """One batch, unless an earlier process has done it."""
        place = self._window(batch)
        if not place.exists():
            found = self._next(files, batch)
            self.on_batch(found)
        if read_about(place).ended:
            self.ended.set()

    def _next(self, files: list[Path], batch: int) -> Followed:
        draft = self.checkpoint / f"_batch={batch}"
        shutil.rmtree(draft, ignore_errors=True)
        by_table: dict[str, list[Path]] = {}
        for each in sorted(files):
            by_table.setdefault(each.parent.name, []).append(each)
        before = self._window(batch - 1) if batch else None
        window = OpenWindow(before, by_table, draft, self.settle_us)
        try:
            window.gather(next((self.run / "run").glob("*.parquet")))
            footers = read_footers([window.trace])
            engine = start(engine_for(self.engine, footers), footers)
            with engine.explained():
                try:
                    engine.write(facts(Trace(engine, footers), is_read_once=True), draft / "facts")
                finally:
                    engine.close()
            window.settle(draft / "facts")
            shutil.rmtree(draft / "facts")
            found = self._followed(window, footers[0])
        finally:
            window.close()
        draft.rename(self._window(batch))
        for old in self.checkpoint.glob("batch=*"):
            if int(old.name.removeprefix("batch=")) <= batch - _KEPT:
                shutil.rmtree(old)
        return found

    def _window(self, batch: int) -> Path:
        return self.checkpoint / f"batch={batch}"

    def _followed(self, window: OpenWindow, run: RunFooters) -> Followed:
        waiting, _, half, most = window.still_open()
        since = window.about.marked_us // 1_000_000 - LATELY_S
        delay_us = {} if half is None or most is None else {"p50": half, "p99": most}
        return Followed(
            window.about,
            order_promised(run.about)[0] == "strict",
            totals_of(window.folder),
            _sums(window.folder / "so_far.parquet", SECONDS, f"second >= {since}"),
            waiting,
            delay_us,
        )


def totals_of(window: Path) -> dict[str, int]:
    return _sums(window / "pairs.parquet", (*FIGURES, "fifo_violations"))


def newest(checkpoint: Path) -> Path:
    """The folder of the last window."""
    return max(checkpoint.glob("batch=*"), key=lambda each: int(each.name.removeprefix("batch=")))


def _sums(file: Path, names: tuple[str, ...], which: str = "true") -> dict[str, int]:
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
    with duckdb.connect() as db:
        (found,) = db.execute(f"SELECT {sums} FROM read_parquet({literal(str(file))}) WHERE {which}").fetchall()
    return dict(zip(names, map(int, found), strict=True))

"""`holdfast match`: which subscription wants which event; of large tables and streams on Spark."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.spark_options import Conf, EngineChoice, Master, Packages, check_engine, pairs, spark_settings
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.pipeline.match.outcome import MatchOutcome
    from holdfast.pipeline.match.stream import BatchDone, MatchStream

_INDEX_MIB = 256
_POLL_SECONDS = 1  # between two looks at how far Spark is


_SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Write invalid subscriptions to a table `rejected` and continue.")
]
_Form = Annotated[
    str | None, typer.Option("--format", help="parquet, jsonl or csv, if the file names do not end in it.")
]
_Schema = Annotated[
    str | None, typer.Option(help="The events' columns as a Spark schema, such as 'at timestamp, price double'.")
]
_Engine = Annotated[
    EngineChoice | None, typer.Option(help="Match on Spark or in this process; by default, by the size of the tables.")
]
_SourceOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="With --stream: an option of the source.")
]


def run(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="A Parquet, JSONL or CSV file, or a folder of them.")],
    subscriptions: Annotated[str, typer.Argument(metavar="SUBSCRIPTIONS", help="A table with id and condition.")],
    out: Annotated[str, typer.Option(help="The folder for the result.")],
    key: Annotated[list[str] | None, typer.Option(help="A column that identifies an event; repeat for more.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to keep beside each pair; '*' for all.")] = None,
    counts: Annotated[bool, typer.Option("--counts", help="Only count the events of each subscription.")] = False,
    skip_invalid: _SkipInvalid = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result when done.")] = False,
    form: _Form = None,
    schema: _Schema = None,
    index_mib: Annotated[int, typer.Option(min=1, help="Split an index larger than this into shards.")] = _INDEX_MIB,
    stream: Annotated[bool, typer.Option("--stream", help="Match events as they arrive, until stopped.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: match what is there now, then stop.")] = False,
    every: Annotated[float, typer.Option(min=0, help="With --stream: seconds between batches.")] = 1,
    checkpoint: Annotated[
        str | None, typer.Option(help="With --stream: the folder of its checkpoint, if not in the result.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="With --stream: a source of Spark's, such as kafka.")] = None,
    options: _SourceOptions = None,
    engine: _Engine = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, or one per batch.")] = False,
) -> None:
    """Find which subscriptions match which events.

    OUT/matches gets the pairs as Parquet: the event's key columns (without --key, its row number), the subscription's
    id, and what --keep names. With --stream they come as OUT/matches/batch=0, batch=1 and so on, each complete when it
    appears; started again, the stream continues where it was, also after a crash. Small Parquet and JSONL tables are
    matched in this process, large ones and streams on Spark; the last lines say which it was.

    Exit code 0: done. 2: a table, a condition or an option is invalid.

    \b
    Example:
      holdfast match trades.parquet wishes.jsonl --key id --out matches
      holdfast match incoming/ wishes/ --key id --stream --out matches
    """
    if stream and (counts or overwrite):
        raise InputError("--counts and --overwrite do not go with --stream; choose a new folder for a new stream")
    if not stream and (once or checkpoint or source or options):
        raise InputError("--once, --checkpoint, --source and --option go with --stream")
    if not stream:
        _check_place(out, overwrite)
    settings, source_options = spark_settings(conf, packages), pairs("--option", options)
    is_sparks = _is_sparks(engine, master, settings, stream or schema is not None or index_mib != _INDEX_MIB)
    from holdfast.pipeline.match.event_files import as_format

    chosen: dict[str, Any] = {"key": key or [], "keep": keep or [], "skip_invalid": skip_invalid}
    tables: dict[str, Any] = {"counts": counts, "overwrite": overwrite, "form": as_format(form)}
    asked = engine is EngineChoice.EMBEDDED
    if not is_sparks and (outcome := _embedded(asked, events, subscriptions, out, **chosen, **tables)):
        return _say(outcome, out, as_json)
    spark = _session(master, settings)
    from holdfast.pipeline.match.event_stream import EventStream
    from holdfast.pipeline.match.job import MatchJob
    from holdfast.pipeline.match.stream import MatchStream

    chosen["index_bytes_max"] = index_mib << 20
    if stream:
        arriving = EventStream(events, source, source_options, schema, as_format(form))
        trigger = {"availableNow": True} if once else {"processingTime": f"{every:g} seconds"}
        on_batch = _print_batch_json if as_json else _print_batch
        running = MatchStream(arriving, subscriptions, out, checkpoint, trigger=trigger, on_batch=on_batch, **chosen)
        return _run_stream(running, spark)
    with _progress(spark, as_json):
        outcome = MatchJob(events, subscriptions, out, schema=schema, **chosen, **tables).run(spark)
    _say(outcome, out, as_json)


def _is_sparks(engine: EngineChoice | None, master: str | None, settings: dict[str, str], others: bool) -> bool:
    """Whether only Spark can do what is asked; an error if it is not to."""
    check_engine(engine, master, settings)
    if engine is EngineChoice.EMBEDDED and others:
        raise InputError("--stream, --schema and --index-mib are Spark's; leave them out, or give --engine spark")
    return others or bool(master or settings) or engine is EngineChoice.SPARK


def _embedded(asked: bool, events: str, subscriptions: str, out: str, **chosen: Any) -> "MatchOutcome | None":
    """Done in this process; None where it is for Spark, and nobody has asked for this process."""
    from holdfast.pipeline.engine import environment_names_spark
    from holdfast.pipeline.match.embedded import EVENTS_MAX, EmbeddedMatch
    from holdfast.pipeline.match.small_tables import NeedsSparkError

    if environment_names_spark() and not asked:
        return None
    try:
        return EmbeddedMatch(events, subscriptions, out, **chosen).run(None if asked else EVENTS_MAX)
    except NeedsSparkError as reason:
        if asked:
            raise InputError(f"{reason}; give --engine spark") from None
        return None


def _say(outcome: "MatchOutcome", out: str, as_json: bool) -> None:
    for warning in outcome.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(json.dumps({**asdict(outcome), "out": out}) if as_json else _summary(outcome, out))


def _check_place(out: str, overwrite: bool) -> None:
    """Told sooner than Spark can be started."""
    from holdfast.pipeline.result_folder import check_place

    if "://" not in out:
        try:
            check_place(Path(out), overwrite)
        except OSError as problem:
            raise InputError(f"{out}: cannot be read ({problem.strerror}); name another folder") from None


def _session(master: str | None, settings: dict[str, str]) -> "SparkSession":
    from holdfast.pipeline.session import plain_interrupts, session

    made = session("holdfast match", master, settings)
    plain_interrupts()
    return made


def _summary(outcome: "MatchOutcome", out: str) -> str:
    rows = [
        ("events", f"{outcome.events:,}"),
        ("subscriptions", f"{outcome.subscriptions:,}"),
        ("pairs", f"{outcome.pairs:,}"),
    ]
    if outcome.rejected:
        rows.append(("rejected", f"{outcome.rejected:,}"))
    if outcome.indexes > 1:
        rows.append(("shards", f"{outcome.indexes:,}"))
    if outcome.task_seconds:
        slowest, middle = max(outcome.task_seconds), median(outcome.task_seconds)
        rows.append(("tasks", f"{len(outcome.task_seconds):,}, median {middle:.1f} s, slowest {slowest:.1f} s"))
    rows.append(("engine", outcome.engine))
    rows.append(("seconds", f"{outcome.seconds:,.1f}"))
    return "\n".join([*(f"  {label:<16}{text}" for label, text in rows), f"result in {out}"])


def _run_stream(stream: "MatchStream", spark: "SparkSession") -> None:
    from holdfast.pipeline.spark_errors import explained

    with explained(), stream.running(spark) as query:
        try:
            while not query.awaitTermination(_POLL_SECONDS):
                pass  # in steps, so that Ctrl-C is heard
        except KeyboardInterrupt:
            pass


def _print_batch(batch: "BatchDone") -> None:
    events, pairs = _number(batch.events, "event"), _number(batch.pairs, "pair")
    print(f"batch {batch.batch}: {events}, {pairs}, subscriptions of {batch.version}", flush=True)


def _print_batch_json(batch: "BatchDone") -> None:
    print(json.dumps(batch._asdict()), flush=True)


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


@contextmanager
def _progress(spark: "SparkSession", quiet: bool) -> Iterator[None]:
    """A bar on a terminal, nothing elsewhere. Spark Connect does not say how far it is."""
    tracker = _tracker(spark) if not quiet and sys.stderr.isatty() else None
    if tracker is None:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    done = threading.Event()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("matching", total=None)

        def watch() -> None:
            while not done.wait(_POLL_SECONDS):
                stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
                total = sum(stage.numTasks for stage in stages if stage)
                if total:
                    bar.update(task, total=total, completed=sum(stage.numCompletedTasks for stage in stages if stage))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _tracker(spark: "SparkSession") -> Any:
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext.statusTracker()
    except PySparkException:
        return None

"""`holdfast match`: which subscription wants which event; of large tables and streams on Spark."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.dropped_events import DroppedEvents
from holdfast.cli.progress_shown import spark_progress
from holdfast.cli.spark_options import (
    Append,
    Conf,
    EngineChoice,
    Master,
    Packages,
    To,
    check_engine,
    pairs,
    spark_settings,
)
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.pipeline.match.event_files import Format
    from holdfast.pipeline.match.outcome import MatchOutcome
    from holdfast.pipeline.match.stream import BatchDone
    from holdfast.pipeline.tables.results import Place

_INDEX_MIB = 256
_POLL_SECONDS = 1  # between two looks at how far a stream is


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
_Checkpoint = Annotated[
    str | None, typer.Option(help="With --stream: the folder of its checkpoint, if not in the result.")
]
_Time = Annotated[str | None, typer.Option(help="With --stream: the events' column of time, for --lifetime.")]
_Lifetime = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="With --stream: drop events that come later than this behind the newest, and repeats of a key within it.",
    ),
]
_SourceOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="With --stream: an option of the source.")
]


@dataclass(frozen=True)
class _Streaming:
    """What goes with --stream and with nothing else."""

    once: bool
    every_s: float
    checkpoint: str | None
    source: str | None
    options: dict[str, str]
    time: str | None
    lifetime_s: float | None

    def check(self, is_meant: bool, has_table_options: bool) -> None:
        if is_meant and has_table_options:
            raise InputError("--counts and --overwrite do not go with --stream; choose a new folder for a new stream")
        given = (self.once, self.checkpoint, self.source, self.options, self.time, self.lifetime_s)
        if not is_meant and any(each for each in given):
            raise InputError("--once, --checkpoint, --source, --option, --time and --lifetime go with --stream")
        if (self.time is None) != (self.lifetime_s is None):
            raise InputError("--time and --lifetime go together: the events' column of time, and seconds")


def run(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="A Parquet, JSONL or CSV file, or a folder of them.")],
    subscriptions: Annotated[str, typer.Argument(metavar="SUBSCRIPTIONS", help="A table with id and condition.")],
    out: Annotated[str | None, typer.Option(help="The folder for the result.")] = None,
    to: To = None,
    key: Annotated[list[str] | None, typer.Option(help="A column that identifies an event; repeat for more.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to keep beside each pair; '*' for all.")] = None,
    counts: Annotated[bool, typer.Option("--counts", help="Only count the events of each subscription.")] = False,
    skip_invalid: _SkipInvalid = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result when done.")] = False,
    append: Append = False,
    form: _Form = None,
    schema: _Schema = None,
    index_mib: Annotated[int, typer.Option(min=1, help="Split an index larger than this into shards.")] = _INDEX_MIB,
    stream: Annotated[bool, typer.Option("--stream", help="Match events as they arrive, until stopped.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: match what is there now, then stop.")] = False,
    every: Annotated[float, typer.Option(min=0, help="With --stream: seconds between batches.")] = 1,
    checkpoint: _Checkpoint = None,
    source: Annotated[str | None, typer.Option(help="With --stream: a source of Spark's, such as kafka.")] = None,
    options: _SourceOptions = None,
    time: _Time = None,
    lifetime: _Lifetime = None,
    engine: _Engine = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print Spark's plan behind the result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, or one per batch.")] = False,
) -> None:
    """Find which subscriptions match which events.

    OUT/matches gets the pairs as Parquet: the event's key columns (without --key, its row number), the subscription's
    id, and what --keep names. With --stream they come as OUT/matches/batch=0, batch=1 and so on, each complete when it
    appears; started again, the stream continues where it was, also after a crash. With --to they are rows of a table,
    and each batch is one commit. Small Parquet and JSONL tables are matched in this process, large ones and streams on
    Spark; the last lines say which it was.

    Exit code 0: done. 2: a table, a condition or an option is invalid.

    \b
    Example:
      holdfast match trades.parquet wishes.jsonl --key id --out matches
      holdfast match incoming/ wishes/ --key id --stream --to delta:/lake/wanted --checkpoint progress
    """
    streaming = _Streaming(once, every, checkpoint, source, pairs("--option", options), time, lifetime)
    streaming.check(stream, counts or overwrite)
    settings = spark_settings(conf, packages)
    place, by_spark = _place(out, to, append, settings)
    if not stream and isinstance(place, str):
        _check_place(place, overwrite)
    of_sparks = stream or explain or schema is not None or index_mib != _INDEX_MIB
    is_sparks = _is_sparks(engine, master, settings, of_sparks, by_spark)
    chosen: dict[str, Any] = {"key": key or [], "keep": keep or [], "skip_invalid": skip_invalid}
    tables: dict[str, Any] = {"counts": counts, "overwrite": overwrite, "append": append, "form": _format(form)}
    asked = engine is EngineChoice.EMBEDDED
    if not is_sparks and (outcome := _embedded(asked, events, subscriptions, place, **chosen, **tables)):
        return _say(outcome, place, as_json)
    spark = _session(master, settings)
    chosen |= {"index_bytes_max": index_mib << 20, "explain": explain}
    if stream:
        return _run_stream(spark, streaming, (events, schema, _format(form)), subscriptions, place, as_json, **chosen)
    outcome = _run_job(spark, as_json, events, subscriptions, place, schema=schema, **chosen, **tables)
    _say(outcome, place, as_json)


def _place(out: str | None, to: str | None, append: bool, settings: dict[str, str]) -> tuple["Place", bool]:
    """Where the result goes, and whether only Spark can write it there."""
    from holdfast.pipeline.tables.target import parse_target

    if (out is None) == (to is None):
        raise InputError("expected --out FOLDER or --to FORMAT:PLACE, and not both")
    if to is not None:
        target = parse_target(to)
        return target, target.is_sparks(settings)
    if append:
        raise InputError("--append adds to tables, which --to names; a folder holds one result")
    assert out is not None
    return out, False


def _is_sparks(
    engine: EngineChoice | None, master: str | None, settings: dict[str, str], others: bool, by_spark: bool
) -> bool:
    """Whether only Spark can do what is asked; an error if it is not to."""
    check_engine(engine, master, settings)
    if engine is EngineChoice.EMBEDDED and (others or by_spark):
        what = "--stream, --schema, --index-mib and --explain are Spark's" if others else "only Spark writes there"
        raise InputError(f"{what}; leave them out, or give --engine spark" if others else f"{what}: --engine spark")
    return others or by_spark or bool(master or settings) or engine is EngineChoice.SPARK


def _embedded(asked: bool, events: str, subscriptions: str, out: "Place", **chosen: Any) -> "MatchOutcome | None":
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


def _say(outcome: "MatchOutcome", out: "Place", as_json: bool) -> None:
    for warning in outcome.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(json.dumps({**asdict(outcome), "out": str(out)}) if as_json else _summary(outcome, out))
    if outcome.plan and not as_json:
        print(outcome.plan)


def _format(word: str | None) -> "Format | None":
    from holdfast.pipeline.match.event_files import as_format

    return as_format(word)


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


def _summary(outcome: "MatchOutcome", out: "Place") -> str:
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


def _run_job(spark: "SparkSession", quiet: bool, *tables: Any, **chosen: Any) -> "MatchOutcome":
    from holdfast.pipeline.match.job import MatchJob

    with spark_progress(quiet) as progress:
        progress.watch(spark)
        progress.step("matching")
        return MatchJob(*tables, **chosen).run(spark)


def _run_stream(
    spark: "SparkSession",
    streaming: _Streaming,
    events: tuple[Any, ...],
    subscriptions: str,
    place: "Place",
    as_json: bool,
    **chosen: Any,
) -> None:
    from holdfast.pipeline.match.event_stream import EventStream
    from holdfast.pipeline.match.lifetimes import Lifetime
    from holdfast.pipeline.match.stream import MatchStream
    from holdfast.pipeline.spark_errors import explained

    path, schema, form = events
    arriving = EventStream(path, streaming.source, streaming.options, schema, form)
    chosen["trigger"] = (
        {"availableNow": True} if streaming.once else {"processingTime": f"{streaming.every_s:g} seconds"}
    )
    chosen["on_batch"] = _print_batch_json if as_json else _print_batch
    if streaming.time is not None and streaming.lifetime_s is not None:
        chosen["lifetime"] = Lifetime(streaming.time, streaming.lifetime_s)
    stream = MatchStream(arriving, subscriptions, place, streaming.checkpoint, **chosen)
    with explained(), stream.running(spark) as query:
        dropped = DroppedEvents()
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # in steps, so that Ctrl-C is heard
                dropped.tell(query.recentProgress)
        except KeyboardInterrupt:
            pass
        dropped.tell(query.recentProgress)


def _print_batch(batch: "BatchDone") -> None:
    events, pairs = _number(batch.events, "event"), _number(batch.pairs, "pair")
    print(f"batch {batch.batch}: {events}, {pairs}, subscriptions of {batch.version}", flush=True)


def _print_batch_json(batch: "BatchDone") -> None:
    print(json.dumps(batch._asdict()), flush=True)


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"

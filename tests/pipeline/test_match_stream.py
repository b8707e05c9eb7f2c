"""Matching a stream: exactly-once files, restarts, and subscriptions that change on the way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.delta_judge import replayed, rows
from holdfast.model.errors import InputError
from tests.pipeline.judges import duckdb_pairs, pairs

pytestmark = pytest.mark.spark

FILES, ROWS = 3, 50
CONDITIONS = {"low": "price < 10", "ibm": "symbol = 'IBM'", "both": "symbol = 'IBM' AND price < 30 OR price = 7"}


def events(first: int, count: int = ROWS) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({
        "id": pa.array(ids),
        "symbol": [("IBM", "MSFT", "ORCL")[number % 3] for number in ids],
        "price": pa.array([float(number * 7 % 100) for number in ids]),
    })  # fmt: skip


ALL = pa.concat_tables([events(number * ROWS) for number in range(FILES)])


def arrive(folder: Path, number: int) -> None:
    """A file appears at once, complete, and a second younger than the one before, by which Spark orders them."""
    folder.mkdir(exist_ok=True)
    pq.write_table(events(number * ROWS), folder / f"_{number}")
    os.utime(folder / f"_{number}", (1_700_000_000 + number,) * 2)
    (folder / f"_{number}").rename(folder / f"{number}.parquet")


def want(path: Path, conditions: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": id_, "condition": text}) + "\n" for id_, text in conditions.items()))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in range(FILES):
        arrive(tmp_path / "in", number)
    want(tmp_path / "wishes.jsonl", CONDITIONS)
    return tmp_path


def stream(place: Path, **changes: Any) -> Any:
    from holdfast.pipeline.match.event_stream import EventStream
    from holdfast.pipeline.match.stream import MatchStream

    one_file = {"maxFilesPerTrigger": "1"}
    given = {"key": ["id"], "subscriptions": str(place / "wishes.jsonl"), "out": str(place / "out"), **changes}
    return MatchStream(EventStream(str(place / "in"), options=one_file), **given)


def run(spark: Any, made: Any) -> None:
    with made.running(spark) as query:
        query.awaitTermination()


def found(place: Path) -> list[tuple[object, object]]:
    return pairs(pq.read_table(place / "out" / "matches"))


def test_a_stream_has_the_pairs_of_the_whole_and_goes_on_where_it_stopped(spark: Any, place: Path) -> None:
    run(spark, stream(place))
    assert found(place) == duckdb_pairs(ALL, CONDITIONS)
    arrive(place / "in", FILES)
    run(spark, stream(place))
    assert found(place) == duckdb_pairs(pa.concat_tables([ALL, events(FILES * ROWS)]), CONDITIONS)
    batches = sorted(path.name for path in (place / "out" / "matches").iterdir())
    assert batches == [f"batch={number}" for number in range(FILES + 1)]


@contextmanager
def crash(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, batch: int, after: bool) -> Iterator[None]:
    """The process dies around one call of a function, on the way through one batch."""
    original: Callable[..., Any] = getattr(owner, name)
    seen = []

    def dying(self: Any, *arguments: Any) -> Any:
        is_it = f"batch={batch}" in str(self) or batch in arguments
        if is_it:
            seen.append(batch)
        if is_it and not after:
            raise RuntimeError("crash")
        result = original(self, *arguments)
        if is_it:
            raise RuntimeError("crash")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        yield
    assert seen


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("before the note", marks=pytest.mark.slow),
        pytest.param("after the note", marks=pytest.mark.slow),
        pytest.param("before the move", marks=pytest.mark.slow),
        "after the move",
    ],
)
def test_a_crash_anywhere_in_a_batch_changes_nothing(
    spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    from holdfast.pipeline.match.subscription_versions import SubscriptionVersions

    owner, name = (SubscriptionVersions, "note") if "note" in where else (type(place), "rename")
    with crash(monkeypatch, owner, name, batch=1, after="after" in where), pytest.raises(Exception, match="crash"):
        run(spark, stream(place))
    assert (place / "out" / "matches" / "batch=0").exists()
    want(place / "wishes.jsonl", {"other": "id >= 0"})  # from here on, but not for a batch that has been begun
    run(spark, stream(place))
    old_until = 1 if where == "before the note" else 2
    before, later = events(0, old_until * ROWS), events(old_until * ROWS, (FILES - old_until) * ROWS)
    expected = duckdb_pairs(before, CONDITIONS) + duckdb_pairs(later, {"other": "id >= 0"})
    assert found(place) == sorted(expected, key=str)
    assert not (place / "out" / "_unfinished").exists()


def test_a_new_version_is_taken_up_between_two_batches(spark: Any, place: Path) -> None:
    """The stream runs on; versions are folders that are moved into place."""
    for number in range(1, FILES):
        (place / "in" / f"{number}.parquet").unlink()
    want(place / "versions" / "version=1" / "s.jsonl", {"first": "id >= 0"})
    made = stream(place, subscriptions=str(place / "versions"), trigger={"processingTime": "0 seconds"})
    with made.running(spark) as query:
        query.processAllAvailable()
        want(place / "versions" / "version=2" / "s.jsonl", {"second": "id >= 0"})
        arrive(place / "in", 1)
        query.processAllAvailable()
    assert found(place) == sorted([(n, "first" if n < ROWS else "second") for n in range(2 * ROWS)], key=str)
    notes = [json.loads((place / "out" / "_checkpoint" / "versions" / f"{n}.json").read_text()) for n in (0, 1)]
    assert [note["label"] for note in notes] == ["version=1", "version=2"]


def test_a_bad_version_stops_the_stream_and_a_good_one_lets_it_go_on(spark: Any, place: Path) -> None:
    def go_bad() -> None:
        with stream(place, trigger={"processingTime": "0 seconds"}).running(spark) as query:
            query.processAllAvailable()
            want(place / "wishes.jsonl", {"bad": "price <"})
            arrive(place / "in", FILES)
            query.processAllAvailable()

    with pytest.raises(InputError, match="1 subscription is not valid"):
        go_bad()
    want(place / "wishes.jsonl", {"other": "id >= 0"})
    run(spark, stream(place))
    late = [(number, "other") for number in range(FILES * ROWS, (FILES + 1) * ROWS)]
    assert found(place) == sorted([*duckdb_pairs(ALL, CONDITIONS), *late], key=str)


def test_a_damaged_note_of_the_stream_is_named(spark: Any, place: Path) -> None:
    (place / "out" / "matches").mkdir(parents=True)
    for text in ("{", "{}", "[]"):
        (place / "out" / "_stream.json").write_text(text)
        with pytest.raises(InputError, match=r"_stream\.json: damaged"):
            run(spark, stream(place))


def test_versions_that_no_batch_can_need_again_are_forgotten(
    spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.pipeline.match import subscription_versions

    monkeypatch.setattr(subscription_versions, "_NOTES_MAX", 2)
    versions = subscription_versions.SubscriptionVersions(spark, str(place / "wishes.jsonl"), place / "memory")
    for batch in range(4):
        want(place / "wishes.jsonl", {"a": f"id = {batch}"})
        versions.note(batch, versions.newest())
    assert sorted(path.name for path in (place / "memory" / "versions").iterdir()) == ["2.json", "3.json"]
    assert len(list((place / "memory" / "subscriptions").iterdir())) == 2


def test_invalid_subscriptions_stop_a_stream_before_it_writes_anything(spark: Any, place: Path) -> None:
    want(place / "wishes.jsonl", {"bad": "price <"})
    with pytest.raises(InputError, match="1 subscription is not valid"):
        run(spark, stream(place))
    assert not (place / "out").exists()


def test_invalid_subscriptions_of_a_stream_can_be_skipped_and_are_kept_as_a_table(spark: Any, place: Path) -> None:
    want(place / "wishes.jsonl", {"bad": "price <", **CONDITIONS})
    run(spark, stream(place, skip_invalid=True))
    assert found(place) == duckdb_pairs(ALL, CONDITIONS)
    assert pq.read_table(place / "out" / "rejected")["id"].to_pylist() == ["bad"]


def test_two_streams_are_not_mixed(spark: Any, place: Path) -> None:
    run(spark, stream(place))
    with pytest.raises(InputError, match=r"started with other settings \(key was \['id'\] and is now \['symbol'\]\)"):
        run(spark, stream(place, key=["symbol"]))
    with pytest.raises(InputError, match="belong to different streams"):
        run(spark, stream(place, checkpoint=str(place / "another")))
    (place / "taken").mkdir()
    (place / "taken" / "letter.txt").touch()
    with pytest.raises(InputError, match="no stream has written it"):
        run(spark, stream(place, out=str(place / "taken")))
    with stream(place).running(spark), pytest.raises(InputError, match="running already"):
        run(spark, stream(place))


def test_any_source_of_spark_will_do(spark: Any, tmp_path: Path) -> None:
    from holdfast.pipeline.match.event_stream import EventStream
    from holdfast.pipeline.match.stream import MatchStream

    want(tmp_path / "wishes.jsonl", {"even": "value IN (0, 2, 4)"})
    rate = EventStream("-", "rate-micro-batch", {"rowsPerBatch": "6", "numPartitions": "1"})
    trigger = {"processingTime": "0 seconds"}
    made = MatchStream(rate, str(tmp_path / "wishes.jsonl"), str(tmp_path / "out"), key=["value"], trigger=trigger)
    with made.running(spark) as query:
        wait_for(lambda: (tmp_path / "out" / "matches" / "batch=1").exists() or query.exception() is not None)
    assert pairs(pq.read_table(tmp_path / "out" / "matches"), "value") == [(0, "even"), (2, "even"), (4, "even")]


def test_kafka_messages_become_events_with_their_offsets(spark: Any) -> None:
    from holdfast.pipeline.match.event_stream import from_messages
    from holdfast.spark import match

    messages = spark.sql(
        "SELECT BINARY('k') AS key, BINARY('{\"symbol\": \"IBM\", \"price\": 3}') AS value, 'trades' AS topic, "
        "0 AS partition, 17L AS offset, TIMESTAMP '2026-01-01 00:00:00' AS timestamp, 0 AS timestampType"
    )
    wishes = spark.createDataFrame(
        [("a", "symbol = 'IBM' AND price < 5 AND kafka.key = 'k'")], "id string, condition string"
    )
    result = match(
        from_messages(messages, "symbol string, price double"), wishes, key=["kafka.partition", "kafka.offset"]
    )
    assert [tuple(row) for row in result.collect()] == [(0, 17, "a")]


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    until = monotonic() + seconds
    while not condition():
        assert monotonic() < until, "nothing happened"
        sleep(0.02)


def folders(place: Path) -> int:
    return len(list(place.iterdir())) if place.exists() else 0


@pytest.mark.slow
def test_a_killed_stream_ends_with_the_result_of_the_batch_job(tmp_path: Path) -> None:
    """SIGKILL for the driver and its JVM, twice in the middle, then a run to the end."""
    for number in range(12):
        arrive(tmp_path / "in", number)
    want(tmp_path / "wishes.jsonl", CONDITIONS)
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "match"]
    tables, one_file = ["in", "wishes.jsonl", "--key", "id"], ["--stream", "--option", "maxFilesPerTrigger=1"]
    matches = tmp_path / "out" / "matches"
    for done in (3, 7):
        running = subprocess.Popen(
            [*command, *tables, *one_file, "--every", "0", "--out", "out"], cwd=tmp_path, start_new_session=True
        )
        try:
            wait_for(lambda: running.poll() is not None or folders(matches) >= done)  # noqa: B023  # used at once
            assert running.poll() is None
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert folders(matches) < 12, "it was killed in the middle"
    subprocess.run([*command, *tables, *one_file, "--once", "--out", "out"], cwd=tmp_path, check=True)
    subprocess.run([*command, *tables, "--out", "batch"], cwd=tmp_path, check=True)
    expected = pairs(pq.read_table(tmp_path / "batch" / "matches"))
    assert expected == duckdb_pairs(events(0, 12 * ROWS), CONDITIONS)
    assert found(tmp_path) == expected


@pytest.mark.slow
def test_a_killed_stream_takes_new_conditions_from_the_next_batch_on(tmp_path: Path) -> None:
    """SIGKILL twice, and other conditions after each: every batch has those of one version, and none goes back."""
    for number in range(9):
        arrive(tmp_path / "in", number)
    versions = [CONDITIONS, {"low": "price < 50"}, {"odd": "price > 90 OR symbol = 'ORCL'"}]
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "match", "in", "wishes.jsonl"]
    command += ["--key", "id", "--stream", "--option", "maxFilesPerTrigger=1", "--out", "out"]
    matches = tmp_path / "out" / "matches"
    for done, conditions in zip((2, 5), versions, strict=False):
        want(tmp_path / "draft.jsonl", conditions)
        (tmp_path / "draft.jsonl").rename(tmp_path / "wishes.jsonl")
        running = subprocess.Popen([*command, "--every", "0"], cwd=tmp_path, start_new_session=True)
        try:
            wait_for(lambda: running.poll() is not None or folders(matches) >= done)  # noqa: B023  # used at once
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert folders(matches) < 9, "it was killed in the middle"
    want(tmp_path / "wishes.jsonl", versions[-1])
    subprocess.run([*command, "--once"], cwd=tmp_path, check=True)
    used = []
    for batch in range(9):
        expected = [duckdb_pairs(events(batch * ROWS), each) for each in versions]
        used.append(expected.index(pairs(pq.ParquetDataset(matches / f"batch={batch}").read())))
    assert used == sorted(used)
    assert used[0] == 0
    assert used[-1] == 2


# Lifetimes ---------------------------------------------------------------------------------------------------------


def timed(folder: Path, number: int, rows: list[tuple[int, int]]) -> None:
    """Events (id, second) as one file, which is one batch."""
    at = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for _, second in rows]
    folder.mkdir(exist_ok=True)
    table = pa.table({"id": [id_ for id_, _ in rows], "at": pa.array(at, pa.timestamp("us", "UTC"))})
    pq.write_table(table, folder / f"_{number}")
    os.utime(folder / f"_{number}", (1_700_000_000 + number,) * 2)
    (folder / f"_{number}").rename(folder / f"{number}.parquet")


def test_an_event_past_its_lifetime_is_dropped_and_a_repeat_is_matched_once(spark: Any, tmp_path: Path) -> None:
    from holdfast.cli.dropped_events import DroppedEvents
    from holdfast.pipeline.match.lifetimes import Lifetime

    want(tmp_path / "wishes.jsonl", {"all": "id >= 0"})
    timed(tmp_path / "in", 0, [(1, 0), (2, 100)])
    timed(tmp_path / "in", 1, [(3, 75), (2, 100), (5, 101)])
    timed(tmp_path / "in", 2, [(2, 100), (4, 60), (6, 102)])  # 2 is known from before; the watermark is at 70
    made = stream(tmp_path, lifetime=Lifetime("at", 30.0))
    with made.running(spark) as query:
        query.awaitTermination()
        progress = query.recentProgress
    assert found(tmp_path) == [(1, "all"), (2, "all"), (3, "all"), (5, "all"), (6, "all")]
    dropped = [sum(each["numRowsDroppedByWatermark"] for each in batch["stateOperators"]) for batch in progress]
    assert sum(dropped) == 1
    with redirect_stderr(StringIO()) as said:
        DroppedEvents().tell(progress)
    assert said.getvalue() == "batch 2: 1 event came later than the lifetime, and not matched\n"
    with pytest.raises(InputError, match=r"lifetime was \['at', 30.0\] and is now \['at', 5.0\]"):
        run(spark, stream(tmp_path, lifetime=Lifetime("at", 5.0)))


def test_a_lifetime_needs_a_key_and_a_time(spark: Any, place: Path) -> None:
    from holdfast.pipeline.match.lifetimes import Lifetime

    for changes, told in (
        ({"lifetime": Lifetime("price", 5.0)}, "expected a column of type timestamp, and price is double"),
        ({"lifetime": Lifetime("at", 5.0)}, "expected a column of type timestamp, and at is not there"),
    ):
        with pytest.raises(InputError, match=told):
            run(spark, stream(place, **changes))


# Tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["before the commit", "after the commit"])
def test_a_crash_around_a_commit_leaves_each_pair_once_in_the_table(
    spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    from holdfast.pipeline.tables.delta import DeltaTables
    from holdfast.pipeline.tables.target import Target

    commit, lake = DeltaTables.commit, Target("delta", str(place / "lake"))
    made = stream(place, out=lake, checkpoint=str(place / "progress"))

    def dying(self: DeltaTables, name: str, files: Any, mode: Any, batch: Any) -> None:
        if batch.number == 1 and "before" in where:
            raise RuntimeError("crash")
        commit(self, name, files, mode, batch)
        if batch.number == 1:
            raise RuntimeError("crash")

    with monkeypatch.context() as patch, pytest.raises(Exception, match="crash"):
        patch.setattr(DeltaTables, "commit", dying)
        run(spark, made)
    run(spark, made)
    assert pairs(rows(place / "lake" / "matches")) == duckdb_pairs(ALL, CONDITIONS)
    assert [*replayed(place / "lake" / "matches").writers.values()] == [[0, 1, 2]]
    with pytest.raises(InputError, match=r"to was delta:.* and is now delta:"):
        run(spark, stream(place, out=Target("delta", str(place / "other")), checkpoint=str(place / "progress")))
    with pytest.raises(InputError, match="--checkpoint: expected the folder"):
        run(spark, stream(place, out=lake))


def test_spark_writes_parquet_to_any_file_system(
    spark: Any, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`viewfs://` is a file system of Hadoop's that no Python library knows; here it leads to a local folder."""
    from holdfast import cli

    def match(*words: str) -> int:
        with pytest.raises(SystemExit) as left:
            cli.main(["match", "in", "wishes.jsonl", "--key", "id", *words])
        return int(left.value.code or 0)

    monkeypatch.chdir(place)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.there.link./lake", f"file://{place}/behind")
    (place / "behind").mkdir()
    target = ["--to", "parquet:viewfs://there/lake/wanted"]
    assert match(*target, "--explain") == 0
    said = capsys.readouterr().out
    assert "result in parquet:viewfs://there/lake/wanted" in said and "MapInArrow" in said
    assert pairs(pq.read_table(place / "behind" / "wanted" / "matches")) == duckdb_pairs(ALL, CONDITIONS)
    assert match(*target) == 2 and "this table exists" in capsys.readouterr().err
    assert match(*target, "--counts") == 0
    counted = pq.read_table(place / "behind" / "wanted" / "counts")
    assert sum(counted["events"].to_pylist()) == len(duckdb_pairs(ALL, CONDITIONS))
    assert match(*target, "--append") == 2 and "has no commits" in capsys.readouterr().err
    assert match("--to", "delta:viewfs://there/lake/d") == 2
    assert "this Spark session has no delta; add its package: --packages io.delta" in capsys.readouterr().err
    assert match("--to", "parquet:s4://bucket/x") == 2
    assert 'No FileSystem for scheme "s4"' in capsys.readouterr().err
    assert match("--stream", "--once", *target, "--checkpoint", "progress") == 2
    assert "could not tell which batches are written" in capsys.readouterr().err

"""Spark reads from and publishes to a live network: brokers and gateways are processes, driven over loopback."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import holdfast
from holdfast.gateway.client import BlockingGateway, GatewayClient
from holdfast.model.errors import InputError
from holdfast.net.address import parse_address
from holdfast.pipeline.live.columns import DEFAULT_SCHEMA
from holdfast.pipeline.live.options import stream_options
from holdfast.pipeline.live.source import LiveBatchReader, LiveStreamReader
from tests.net.test_processes import PATIENCE_S, Process, Processes

NOON = datetime(2024, 2, 29, 12, 0, 0, 1, UTC)


class Site:
    """A broker, gateways, and what tests do with them."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self.folder = folder
        _, self.broker = processes.broker("b1", "--push-back")

    def gateway(self, name: str, *arguments: str, listen: str = "tcp://127.0.0.1:0") -> tuple[Process, str]:
        log = str(self.folder / name)
        made = self._processes.start(
            "gateway", "--broker", self.broker, "--log", log, "--listen", listen, "--json", *arguments
        )
        ready = json.loads(made.line("ready"))
        made.line("subscribed", error=True)
        return made, ready["listen"][0]

    def publish(self, *events: dict[str, Any], payload: bytes = b"") -> None:
        with holdfast.connect_sync(self.broker) as client:
            for event in events:
                client.publish(event, payload)


@contextmanager
def client_of(address: str) -> Iterator[BlockingGateway]:
    with BlockingGateway(GatewayClient(parse_address(address))) as client:
        yield client


def await_events(address: str, stream: str, count: int) -> None:
    with client_of(address) as client:
        assert client.do(client.client.ends(stream, count - 1, PATIENCE_S)).end == count


def counts(address: str) -> dict[str, int]:
    with client_of(address) as client:
        return client.do(client.client.counts())


def until(true: Callable[[], object]) -> None:
    """For what nobody tells us of: look again until it is so."""
    end = monotonic() + 2 * PATIENCE_S
    while not true():
        assert monotonic() < end, "it does not happen"
        sleep(0.01)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    processes = Processes()
    yield Site(processes, tmp_path_factory.mktemp("gateways"))
    processes.end()


def reader(address: str, **options: str) -> LiveStreamReader:
    return LiveStreamReader(DEFAULT_SCHEMA, stream_options({"gateway": address, **options}))


def offsets(made: LiveStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """What a batch reads, task by task."""
    return [
        each
        for part in made.partitions(start, end)
        for batch in made.read(part)
        for each in batch["offset"].to_pylist()
    ]


# The reader itself -----------------------------------------------------------------------------------------------


def test_batches_are_ranges_of_the_log_and_read_the_same_again(site: Site) -> None:
    _, address = site.gateway("ranges", "--condition", "ranges >= 0")
    made = reader(address, maxRowsPerTrigger="40", rowsPerPartition="15")
    start = made.initialOffset()
    assert made.latestOffset(start, made.getDefaultReadLimit()) == start
    assert made.partitions(start, start) == []
    site.publish(*({"ranges": n} for n in range(100)))
    await_events(address, "events", 100)
    first = made.latestOffset(start, made.getDefaultReadLimit())
    assert [(part.lo, part.hi) for part in made.partitions(start, first)] == [(0, 15), (15, 30), (30, 40)]
    for _ in range(3):
        assert offsets(made, start, first) == list(range(40))
    made.prepareForTriggerAvailableNow()
    site.publish({"ranges": 100})  # comes too late for this run
    await_events(address, "events", 101)
    ends, at = [], first
    while (end := made.latestOffset(at, made.getDefaultReadLimit())) != at:
        ends.append(end["offset"])
        at = end
    assert ends == [80, 100]
    made.commit(at)
    made.stop()
    restarted = reader(address)  # as after a crash: offsets come from the checkpoint
    assert offsets(restarted, first, at) == list(range(40, 100))
    restarted.stop()


def test_where_to_begin_can_be_chosen(site: Site) -> None:
    _, address = site.gateway("begin", "--condition", "begin >= 0")
    site.publish(*({"begin": n} for n in range(10)))
    await_events(address, "events", 10)
    for chosen, offset in [("earliest", 0), ("latest", 10), ("7", 7)]:
        made = reader(address, startingOffset=chosen)
        assert made.initialOffset()["offset"] == offset
        made.stop()
    batch = LiveBatchReader(
        DEFAULT_SCHEMA, stream_options({"gateway": address, "startingOffset": "3", "endingOffset": "8"})
    )
    (part,) = batch.partitions()
    assert [each for found in batch.read(part) for each in found["offset"].to_pylist()] == [3, 4, 5, 6, 7]
    late = LiveBatchReader(DEFAULT_SCHEMA, stream_options({"gateway": address, "endingOffset": "11"}))
    with pytest.raises(InputError, match="option endingOffset is 11, but the stream events ends at 10"):
        late.partitions()


def test_dropped_events_fail_the_query_or_are_left_out_as_it_wishes(site: Site) -> None:
    _, address = site.gateway("drops", "--condition", "drops >= 0", "--keep-mb", "0.25")
    made = reader(address)
    start = made.initialOffset()
    for n in range(40):
        site.publish({"drops": n}, payload=b"x" * 20_000)
        await_events(address, "events", n + 1)
    with client_of(address) as client:
        oldest = client.do(client.client.ends("events")).oldest
    assert oldest > 0
    with pytest.raises(InputError, match=f"event 0 is no longer in the log, which begins at {oldest}; keep more"):
        made.latestOffset(start, made.getDefaultReadLimit())
    made.stop()
    lenient = reader(address, failOnDataLoss="false")
    end = lenient.latestOffset(start, lenient.getDefaultReadLimit())
    assert offsets(lenient, start, end) == list(range(oldest, 40))
    lenient.stop()


def test_a_log_that_was_replaced_is_not_taken_for_the_old_one(site: Site) -> None:
    process, address = site.gateway("replaced", "--condition", "replaced >= 0")
    site.publish(*({"replaced": n} for n in range(3)))
    await_events(address, "events", 3)
    made = reader(address)
    end = made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
    made.stop()
    process.ask(signal.SIGTERM)
    shutil.rmtree(site.folder / "replaced")
    _, address = site.gateway("replaced", "--condition", "replaced >= 0", listen=address)
    site.publish(*({"replaced": n} for n in range(5)))
    await_events(address, "events", 5)
    made = reader(address)
    with pytest.raises(InputError, match="the checkpoint is of another log"):
        made.latestOffset(end, made.getDefaultReadLimit())
    with pytest.raises(InputError, match="the checkpoint is of another log"):
        made.partitions(end, end)
    made.stop()
    lenient = reader(address, failOnDataLoss="false")
    later = lenient.latestOffset(end, lenient.getDefaultReadLimit())
    assert offsets(lenient, end, later) == [0, 1, 2, 3, 4]
    lenient.stop()


def test_a_query_can_bring_its_own_gateway(site: Site) -> None:
    log = str(site.folder / "embedded")
    options = stream_options({"broker": site.broker, "log": log, "condition": "embedded >= 0", "stream": "mine"})
    made = LiveStreamReader(DEFAULT_SCHEMA, options)
    start = made.initialOffset()
    site.publish(*({"embedded": n} for n in range(5)))
    until(lambda: made.reportLatestOffset()["offset"] == 5)
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert offsets(made, start, end) == [0, 1, 2, 3, 4]
    batch = LiveBatchReader(DEFAULT_SCHEMA, options)  # finds the one that runs
    assert len(batch.partitions()) == 1
    made.stop()
    with pytest.raises(InputError, match=f"no gateway runs in {log}; start one: holdfast gateway --broker"):
        batch.partitions()
    again = LiveStreamReader(DEFAULT_SCHEMA, options)
    assert again.initialOffset() == start
    assert offsets(again, start, end) == [0, 1, 2, 3, 4]
    again.stop()


# In Spark --------------------------------------------------------------------------------------------------------


def test_a_table_of_the_log_has_the_events_with_their_types(site: Site, spark: Any) -> None:
    _, address = site.gateway("types", "--condition", "n >= 0")
    event = {"n": 1, "s": "☃", "d": 0.5, "b": True, "t": NOON, "u": 2**64 - 1, "x.y": 2, "time": 3}
    site.publish(event, {"n": 2}, payload=b"pay")
    await_events(address, "events", 2)
    named = (
        "offset long, n long, s string, d double, b boolean, t timestamp, u decimal(20,0), `x.y` int, `attr:time` long"
    )
    table = spark.read.format("holdfast").schema(f"{named}, payload binary").option("gateway", address).load()
    first, second = table.orderBy("offset").collect()
    assert (first.n, first.s, first.d, first.b, first.u) == (1, "☃", 0.5, True, Decimal(2**64 - 1))
    assert (first.t.astimezone(UTC), first["x.y"], first["attr:time"]) == (NOON, 2, 3)
    assert (second.n, second.s, second.u, bytes(second.payload)) == (2, None, None, b"pay")
    typed = (
        "SELECT id.seq, attributes['d'].double AS d, attributes['u'].decimal AS u, attributes['n'].long AS n FROM {df}"
    )
    plain = spark.read.format("holdfast").option("gateway", address).load()
    rows = spark.sql(typed, df=plain).orderBy("n").collect()
    assert [(row.seq, row.d, row.u, row.n) for row in rows] == [(1, 0.5, Decimal(2**64 - 1), 1), (2, None, None, 2)]


def stream(spark: Any, address: str, columns: str, **options: str) -> Any:
    source = spark.readStream.format("holdfast").schema(columns).option("gateway", address)
    return source.options(**options).load()


def run_to_the_end(frame: Any, form: str, checkpoint: Path, **options: str) -> Any:
    writer = frame.writeStream.format(form).option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.slow
def test_a_stream_goes_on_from_its_checkpoint_and_writes_each_event_once(
    site: Site, spark: Any, tmp_path: Path
) -> None:
    _, address = site.gateway("once", "--condition", "once >= 0")
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    for numbers in (range(50), range(50, 70)):
        site.publish(*({"once": n} for n in numbers))
        await_events(address, "events", numbers[-1] + 1)
        frame = stream(spark, address, "offset long, once long", condition="once >= 0", maxRowsPerTrigger="40")
        run_to_the_end(frame, "parquet", checkpoint, path=str(out))
    rows = spark.read.parquet(str(out)).collect()
    assert sorted((row.offset, row.once) for row in rows) == [(n, n) for n in range(70)]


def test_a_batch_that_spark_runs_again_is_not_published_again(site: Site, spark: Any, tmp_path: Path) -> None:
    _, address = site.gateway("twice", "--condition", "twice >= 0")
    checkpoint = tmp_path / "checkpoint"
    site.publish(*({"twice": n} for n in range(60)))
    await_events(address, "events", 60)
    with holdfast.connect_sync(site.broker) as subscriber:
        wanted = subscriber.subscribe("squared >= 0")
        subscriber.flush()
        for _ in range(2):
            frame = stream(spark, address, "twice long", rowsPerPartition="20")
            run_to_the_end(
                frame.selectExpr("twice * twice AS squared", "CAST(NULL AS STRING) AS nothing"),
                "holdfast",
                checkpoint,
                gateway=address,
            )
            # As if the driver had died after the sink's commit, before Spark noted it: the batch is run again.
            last = max(
                (each for each in (checkpoint / "commits").iterdir() if each.name.isdigit()), key=lambda p: int(p.name)
            )
            last.unlink()
            (last.parent / f".{last.name}.crc").unlink()
        found = [wanted.next(timeout=PATIENCE_S) for _ in range(60)]
        assert sorted(each.event["squared"] for each in found) == [n * n for n in range(60)]
        assert all(set(each.event) == {"squared"} for each in found)
        assert counts(address)["committed"] == 60
        with pytest.raises(TimeoutError):
            wanted.next(timeout=0.2)


@pytest.mark.slow
def test_a_table_that_is_a_named_batch_is_published_once_however_often_it_is_written(site: Site, spark: Any) -> None:
    _, address = site.gateway("table", "--condition", "id >= 0")
    writer = spark.range(10).write.format("holdfast").option("gateway", address).mode("append")
    for _ in range(2):
        writer.option("query", "nightly").option("batch", "7").save()
    await_events(address, "events", 10)
    assert counts(address)["committed"] == 10


def test_spark_shows_what_is_wrong_in_one_line_of_ours(site: Site, spark: Any) -> None:
    _, address = site.gateway("wrong", "--condition", "wrong >= 0")
    source = spark.read.format("holdfast")
    for act, complaint in [
        (lambda: source.option("gatewy", address).load(), "there is no option gatewy; did you mean gateway?"),
        (
            lambda: spark.range(1).write.format("holdfast").option("gateway", address).mode("overwrite").save(),
            "published events cannot be overwritten; use mode append",
        ),
    ]:
        with pytest.raises(Exception) as caught:  # of Spark, which wraps ours
            act()
        assert any(line.endswith(complaint) or complaint in line for line in str(caught.value).splitlines())


# Killed ----------------------------------------------------------------------------------------------------------

JOB = """
import sys
from holdfast.pipeline.session import session

address, out, trigger = sys.argv[1:]
spark = session("job", "local[2]", profile="test")
events = (
    spark.readStream.format("holdfast").schema("offset long, killed long")
    .option("gateway", address).option("maxRowsPerTrigger", "300").option("rowsPerPartition", "100").load()
)
when = {"availableNow": True} if trigger == "rest" else {"processingTime": "0 seconds"}
queries = [
    events.writeStream.format("parquet").option("path", f"{out}/table").option("checkpointLocation", f"{out}/file"),
    events.selectExpr("killed AS echoed").writeStream.format("holdfast").option("gateway", address)
    .option("checkpointLocation", f"{out}/sink"),
]
for query in [each.trigger(**when).start() for each in queries]:
    query.awaitTermination()
rows = spark.read.parquet(f"{out}/table").collect()
print("offsets", sorted(row.offset for row in rows))
print("events", sorted(row.killed for row in rows))
"""


def _ids(folder: Path) -> set[int]:
    return {int(each.name) for each in folder.iterdir() if each.name.isdigit()} if folder.exists() else set()


def _in_the_middle(out: Path, before: dict[str, int]) -> bool:
    """Both queries have done batches in this life, and one has a batch under way: planned, and not noted as done."""
    commits = {query: _ids(out / query / "commits") for query in before}
    planned = {query: _ids(out / query / "offsets") for query in before}
    return all(len(commits[query]) > count for query, count in before.items()) and planned != commits


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_driver_loses_and_doubles_nothing(site: Site, tmp_path: Path) -> None:
    total = 3_000
    _, address = site.gateway("killed", "--condition", "killed >= 0")
    out, nowhere = tmp_path / "out", tmp_path / "nowhere"
    nowhere.mkdir()  # Spark's workers see their working folder, and must not find us there

    def job(trigger: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", JOB, address, str(out), trigger]
        return subprocess.Popen(command, cwd=nowhere, stdout=subprocess.PIPE, text=True, start_new_session=True)

    with holdfast.connect_sync(site.broker) as client:
        wanted = client.subscribe("echoed >= 0", queue_max=10 * total)
        client.flush()
        for life in range(2):
            before = {query: len(_ids(out / query / "commits")) for query in ("file", "sink")}
            running = job("on and on")
            first = life * total // 3
            for n in range(first, first + total // 3):
                client.publish({"killed": n})
            until(lambda before=before: _in_the_middle(out, before))
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        for n in range(2 * total // 3, total):
            client.publish({"killed": n})
        client.flush()
        await_events(address, "events", total)
        for _ in range(3):  # Spark gives a worker ten seconds to start, which a busy machine may need more than once
            finished = job("rest")
            said, _ = finished.communicate(timeout=10 * PATIENCE_S)
            if finished.returncode == 0:
                break
        assert finished.returncode == 0
        lines = dict(line.split(" ", 1) for line in said.splitlines() if line.startswith(("offsets", "events")))
        assert json.loads(lines["offsets"]) == list(range(total))
        assert json.loads(lines["events"]) == list(range(total))
        found = [wanted.next(timeout=PATIENCE_S) for _ in range(total)]
        assert sorted(each.event["echoed"] for each in found) == list(range(total))
        assert counts(address)["committed"] == total
        with pytest.raises(TimeoutError):
            wanted.next(timeout=0.2)

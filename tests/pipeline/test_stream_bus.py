"""Spark reads from and publishes to somebody else's bus: through a gateway of its own, and through one that runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import holdfast
from holdfast.carriers.servers import BusServer
from holdfast.model.errors import InputError
from holdfast.pipeline.live.options import stream_options
from holdfast.pipeline.live.source import HoldfastSource
from tests.carriers.servers import running
from tests.net.test_processes import PATIENCE_S, Processes

pytestmark = pytest.mark.slow

PLANT = {"space": "plant", "lanes": "plant.{site}"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BusServer]:
    with running("nats", tmp_path) as made:
        yield made


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.end()


def rows_in(spark: Any, folder: Path) -> list[int]:
    if not any(folder.glob("*.parquet")):
        return []
    return sorted(row.n for row in spark.read.schema("n long").parquet(str(folder)).collect())


def until(true: Any) -> None:
    end_s = monotonic() + 3 * PATIENCE_S
    while not true():
        assert monotonic() < end_s, "it does not happen"
        sleep(0.1)


def test_a_query_reads_a_bus_whose_server_is_killed_and_has_each_event_once(server, spark, tmp_path):
    """The query has a gateway of its own; what comes while it runs is in its log."""
    source = spark.readStream.format("holdfast").schema("n long").option("broker", server.address).options(**PLANT)
    frame = source.option("log", str(tmp_path / "log")).option("condition", "n >= 0").load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="200 milliseconds").start(str(tmp_path / "out"))
    try:
        with holdfast.connect_sync(server.address, **PLANT, recovery="end-to-end") as client:
            until(lambda: query.lastProgress is not None)  # its gateway has subscribed
            client.publish_many([{"n": n, "site": "north"} for n in range(500)])
            server.kill()
            server.start()
            client.publish_many([{"n": n, "site": "south"} for n in range(500, 800)])
            until(lambda: len(rows_in(spark, tmp_path / "out")) >= 800)
    finally:
        query.stop()
    assert rows_in(spark, tmp_path / "out") == list(range(800))


def test_a_query_that_is_stopped_goes_on_where_it_was_and_publishes_once(server, spark, processes, tmp_path):
    words = ["gateway", "--broker", server.address, "--space", "plant", "--lanes", "plant.{site}", "--json"]
    words += ["--log", str(tmp_path / "gw"), "--listen", "tcp://127.0.0.1:0", "--condition", "n >= 0"]
    made = processes.start(*words)
    address = json.loads(made.line("ready"))["listen"][0]
    made.line("subscribed", error=True)
    how = {"recovery": "end-to-end", "order": "strict"}
    with holdfast.connect_sync(server.address, **PLANT, **how) as client:
        squares = client.subscribe("squared >= 0")
        client.flush()
        for first in (0, 40):  # each time another query with the same checkpoint
            client.publish_many([{"n": n, "site": "north"} for n in range(first, first + 40)])
            client.flush()
            found = spark.read.format("holdfast").schema("n long").option("gateway", address)
            until(lambda upto=first + 40, found=found: found.load().count() == upto)
            frame = spark.readStream.format("holdfast").schema("n long").option("gateway", address).load()
            wanted = frame.selectExpr("n * n AS squared", "'south' AS site")
            writer = wanted.writeStream.format("holdfast").option("gateway", address)
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            assert writer.trigger(availableNow=True).start().awaitTermination(6 * PATIENCE_S)
        got = [squares.next(timeout=PATIENCE_S).event["squared"] for _ in range(80)]
        assert sorted(got) == [n * n for n in range(80)]
        with pytest.raises(holdfast.TimedOutError):
            squares.next(timeout=1)


def test_options_of_a_bus_are_checked_before_anything_runs():
    with pytest.raises(InputError, match="option body is 'xml'; expected native or json"):
        stream_options({"broker": "nats://127.0.0.1:1", "log": "x", "body": "xml"})
    with pytest.raises(InputError, match="is no option of such an address"):
        HoldfastSource({"broker": "nats://127.0.0.1:1?qos=1", "log": "x"})

"""From a live network into a Parquet table, with Spark Structured Streaming.

    ./run python examples/stream_to_parquet.py FOLDER

It starts a broker and a gateway (`holdfast gateway`, which logs the events of a condition so that Spark can read them
again after a crash), publishes a thousand trades, and lets a streaming query write the cheap ones to FOLDER/trades.
In earnest broker and gateway run elsewhere, and the query without `availableNow` goes on for ever.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import holdfast
from holdfast.spark import session

HOLDFAST = Path(sys.executable).with_name("holdfast")
CHEAP = "symbol = 'IBM' AND price < 120"
TRADES = 1_000


def start(*words: str) -> tuple[subprocess.Popen[str], str]:
    """A verb that runs until it is terminated, and the address where it listens."""
    process = subprocess.Popen(
        [str(HOLDFAST), *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["listen"][0]


async def logged(gateway: str, count: int) -> None:
    """Wait until so many events are in the gateway's log."""
    async with holdfast.connect_gateway(gateway) as log:
        await log.ends("cheap", count - 1, 60)


def main(folder: Path) -> None:
    log = str(folder / "gateway-log")
    broker, at = start("broker", "--id", "b1", "--listen", "tcp://127.0.0.1:0")
    gateway, logged_at = start(
        "gateway", "--broker", at, "--log", log, "--listen", "tcp://127.0.0.1:0", "--stream", f"cheap={CHEAP}"
    )
    spark = session("stream to Parquet")
    try:
        with holdfast.connect_sync(at) as feed:
            for number in range(TRADES):
                feed.publish({"symbol": "IBM", "price": 110.0 + number % 20, "number": number})
        asyncio.run(logged(logged_at, TRADES // 2))  # every second of them is cheap
        stream = (
            spark.readStream.format("holdfast")
            .option("gateway", logged_at)
            .option("stream", "cheap")
            .schema("time timestamp, symbol string, price double, number long")
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(folder / "trades"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        table = spark.read.parquet(str(folder / "trades"))
        table.groupBy("price").count().orderBy("price").show(5)
        print(f"{table.count()} of {TRADES} trades are in {folder / 'trades'}")
    finally:
        spark.stop()
        for process in (gateway, broker):
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

"""A desk that speaks MQTT, through another project's client: what it got beside what it should have got.

The run's books know native clients. This one is counted by itself: what matches its condition is found in the trace
with SQL, and what arrived is compared with that event by event, so that a loss and a copy do not make up for each
other.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiomqtt
import duckdb
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

CONDITION, _SQL = "price > 120", '"attr:price" > 120'  # a part of the trades; the second for DuckDB, on the trace
_TAIL_S = 20.0  # after the run, for what is being recovered: four doublings of the first pause
_QUIET_S = 3.0  # and this long without an event nothing is

Trade = tuple[str, str, float, int]  # source, symbol, price, volume


@dataclass(frozen=True)
class DeskCount:
    owed: int
    delivered: int
    twice: int  # QoS 1: a copy may come when a connection breaks

    @property
    def missing(self) -> int:
        return self.owed - self.delivered


class MqttDesk:
    def __init__(self, port: int) -> None:
        self._port = port
        self._client: aiomqtt.Client  # while a loop runs
        self._found: Counter[Trade] = Counter()
        self._reading: asyncio.Task[None] | None = None
        self._read_s = 0.0

    async def start(self) -> None:
        """Its broker knows what it wants; the others know it before the first trade."""
        version = aiomqtt.ProtocolVersion.V5
        self._client = aiomqtt.Client("127.0.0.1", self._port, identifier="mqtt-desk", protocol=version)
        await self._client.__aenter__()
        where = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        where.UserProperty = ("$where", CONDITION)
        await self._client.subscribe("#", qos=1, properties=where)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._client.messages:
            event: dict[str, Any] = json.loads(bytes(message.payload))
            source = message.topic.value.removeprefix("events/")
            self._found[source, event["symbol"], float(event["price"]), int(event["volume"])] += 1
            self._read_s = asyncio.get_running_loop().time()

    async def finish(self) -> None:
        """Until nothing has come for a while, and take leave."""
        loop = asyncio.get_running_loop()
        self._read_s, end_s = loop.time(), loop.time() + _TAIL_S
        while loop.time() < min(end_s, self._read_s + _QUIET_S):
            await asyncio.sleep(0.1)
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._client.__aexit__(None, None, None)

    def counted(self, run: Path) -> DeskCount:
        rows = duckdb.execute(
            f"""SELECT source, "attr:symbol", "attr:price", "attr:volume" FROM read_parquet(?) WHERE {_SQL}""",
            [str(run / "publications" / "*.parquet")],
        ).fetchall()
        owed = Counter((source, symbol, float(price), int(volume)) for source, symbol, price, volume in rows)
        return DeskCount(owed.total(), (owed & self._found).total(), (self._found - owed).total())

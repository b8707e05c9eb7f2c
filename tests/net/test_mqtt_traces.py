"""Clients of MQTT in the trace of a run: its judges treat them as the clients of the file."""

import asyncio
import json
from pathlib import Path

import aiomqtt
import duckdb
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from holdfast.books.promises import check
from holdfast.net.free_ports import free_ports
from tests.net.test_up import PROGRAM

FILE = """
name = "two"
duration_s = 4
routing = "subscriptions"

[topology]
kind = "listed"
brokers = ["b1", "b2"]
links = [["b1", "b2"]]

[transport]
kind = "tcp"
mqtt_port = {port}

[[client]]
id = "p"
broker = "b1"
publish = [{{ every_s = 0.02, at_s = 0.1, attributes = {{ n = 1 }} }}]

[[client]]
id = "s"
broker = "b2"
subscriptions = ["m = 1"]
"""


async def run_with_guests(folder: Path, *more: str) -> tuple[dict[str, int], list[int], Path]:
    """What the run printed, and how many events each client of MQTT got; the native ones publish n, they m."""
    port, out = free_ports(2), folder / "run"
    (folder / "net.toml").write_text(FILE.format(port=port))
    command = [*PROGRAM, "up", str(folder / "net.toml"), "--out", str(out), "--json", *more]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    got = [0, 0, 0, 0]

    async def subscriber(number: int, topic_filter: str) -> None:
        async with aiomqtt.Client("127.0.0.1", port + 1, identifier=f"s{number}", clean_session=True) as client:
            await client.subscribe(topic_filter, qos=1)
            async for _ in client.messages:
                got[number] += 1

    async def publisher() -> None:
        properties = Properties(PacketTypes.PUBLISH)
        properties.ContentType = "application/json"
        v5 = aiomqtt.ProtocolVersion.V5
        async with aiomqtt.Client("127.0.0.1", port, identifier="p", protocol=v5) as client:
            while got[0] < 20:  # by then the run has begun, and b1 knows what is wanted at b2
                await asyncio.sleep(0.01)
            for _ in range(100):
                await client.publish("m", b'{"m": 1}', qos=1, properties=properties)
                await asyncio.sleep(0.01)

    while process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port + 1)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            break
    sharing = [subscriber(number, "$share/workers/m") for number in (2, 3)]
    works = [subscriber(0, "events/#"), subscriber(1, "m"), *sharing, publisher()]
    tasks = [asyncio.create_task(each) for each in works]
    printed, _ = await process.communicate()
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return json.loads(printed), got, out


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--in-process",)], ids=["processes", "in one process"])
def test_a_trace_has_what_clients_of_mqtt_publish_subscribe_to_and_get(tmp_path: Path, more: tuple[str, ...]) -> None:
    printed, got, out = asyncio.run(asyncio.wait_for(run_with_guests(tmp_path, *more), 100))
    tables = {name: f"read_parquet('{out}/{name}/*.parquet')" for name in ("publications", "deliveries")}
    found = dict(duckdb.sql(f"SELECT subscriber, count(*) FROM {tables['deliveries']} GROUP BY 1").fetchall())
    published = dict(duckdb.sql(f"SELECT source, count(*) FROM {tables['publications']} GROUP BY 1").fetchall())
    assert published["mqtt:p"] == 100 and published["p"] > 100
    assert found["s"] == 100 and printed["unowed"] == 0  # the native subscriber got what MQTT published
    assert [found["mqtt:s0"], found["mqtt:s1"]] == got[:2]
    assert found["group:workers topic = 'm'"] == got[2] + got[3] == 100 and min(got[2:]) > 0  # one of them got each
    verdicts = check(out)
    assert [name for name, each in verdicts.items() if not each.holds] == [], verdicts

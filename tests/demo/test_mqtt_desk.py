"""The demo's client of MQTT, at a member of a run whose file asks for MQTT, and its count beside tampered ones."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast
from holdfast.demo import mqtt_desk
from holdfast.demo.mqtt_desk import MqttDesk
from holdfast.model.errors import InputError
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.free_ports import free_ports
from holdfast.net.member import Member
from holdfast.network.load import parse_text
from tests.net.harness import live, until

FILE = """
duration_s = 10
topology = {{ kind = "listed", brokers = ["b1", "b2"], links = [["b1", "b2"]] }}
transport = {{ kind = "tcp", mqtt_port = {port} }}
reliability = {{ recovery = "end-to-end", order = "strict" }}
"""
TRADES = [("x", "A", 121.0, 5), ("x", "A", 121.0, 5), ("x", "B", 119.0, 5), ("y", "C", 500.5, 7)]


def written(folder: Path) -> Path:
    names = ("source", "attr:symbol", "attr:price", "attr:volume")
    (folder / "publications").mkdir()
    table = pa.table({name: [each[at] for each in TRADES] for at, name in enumerate(names)})
    pq.write_table(table, folder / "publications" / "part-00000.parquet")
    return folder


@live
async def test_a_desk_gets_native_events_from_the_second_broker_of_a_file(tmp_path: Path) -> None:
    port = free_ports(2)
    network = parse_text(FILE.format(port=port), "mqtt")
    member = Member("b2", network, lambda spec, near, far: None, Clock())  # type: ignore[arg-type,return-value]
    address = await member.start(Address("tcp", "127.0.0.1", 0))
    desk = MqttDesk(port + 1)
    await desk.start()
    async with asyncio.timeout(30):
        for source in ("x", "y"):
            async with holdfast.connect(str(address), name=source) as client:
                for publisher, symbol, price, volume in TRADES:
                    if publisher == source:
                        await client.publish({"symbol": symbol, "price": price, "volume": volume})
        run = written(tmp_path)
        await until(lambda: desk.counted(run).missing == 0)
        with patch.object(mqtt_desk, "_QUIET_S", 0.1):
            await desk.finish()
    await member.stop()
    count = desk.counted(tmp_path)
    assert (count.owed, count.delivered, count.twice) == (3, 3, 0)


def test_a_loss_and_a_copy_do_not_make_up_for_each_other(tmp_path: Path) -> None:
    desk = MqttDesk(1)
    desk._found.update([("x", "A", 121.0, 5)] * 3)
    count = desk.counted(written(tmp_path))
    assert (count.owed, count.delivered, count.missing, count.twice) == (3, 2, 1, 1)


@pytest.mark.parametrize(("other", "complaint"), [("port", "overlap"), ("metrics_port", "overlap")])
def test_ports_for_mqtt_are_ports_of_their_own(other: str, complaint: str) -> None:
    text = FILE.format(port=20_000).replace("mqtt_port = 20000", f"mqtt_port = 20000, {other} = 20001")
    with pytest.raises(InputError, match=complaint):
        parse_text(text, "mqtt")

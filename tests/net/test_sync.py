"""The twin for scripts: the same names without `async`."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

import holdfast
from holdfast.model.errors import InputError, MisuseError
from holdfast.net.address import parse_address
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings


@pytest.fixture
def address() -> Iterator[str]:
    """A broker in a thread of its own."""
    started, found = threading.Event(), []

    async def main() -> None:
        broker = BrokerNode(NodeSettings("b1", (parse_address("tcp://127.0.0.1:0"),)))
        await broker.start()
        stop = asyncio.Event()
        found.extend([str(broker.listening[0]), asyncio.get_running_loop(), stop])
        started.set()
        await stop.wait()
        await broker.stop()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    started.wait()
    yield found[0]
    found[1].call_soon_threadsafe(found[2].set)
    thread.join()


def test_publish_and_subscribe_without_async(address: str) -> None:
    with holdfast.connect_sync(address, name="desk-1") as client:
        assert (client.name, client.broker) == ("desk-1", "b1")
        with client.subscribe("price < 120") as cheap:
            client.publish({"price": 130})
            client.publish({"price": 99.5}, payload=b"x", lifetime=60)
            delivery = cheap.next(timeout=60)
            assert (delivery.event, delivery.payload) == ({"price": 99.5}, b"x")
            with pytest.raises(TimeoutError):
                cheap.next(timeout=0.01)
        assert list(cheap) == []


def test_a_for_loop_reads_as_long_as_there_is_a_subscription(address: str) -> None:
    with holdfast.connect_sync(address) as client:
        wanted = client.subscribe("n >= 0")
        for n in range(250):
            client.publish({"n": n})
        client.flush()
        got = []
        for delivery in wanted:
            got.append(delivery.event["n"])
            if len(got) == 250:
                wanted.close()
        assert got == list(range(250))
        assert (wanted.dropped, wanted.closed, wanted.condition) == (0, True, "n >= 0")


def test_errors_come_to_the_caller(address: str) -> None:
    before = threading.active_count()
    with holdfast.connect_sync(address) as client:
        with pytest.raises(holdfast.ConditionError):
            client.subscribe("price <")
        with pytest.raises(InputError):
            client.publish({"a": [[]]})
        client.advertise("a > 0").close()
    with pytest.raises(MisuseError, match="closed"):
        client.publish({"a": 1})
    client.close()
    with pytest.raises(holdfast.TransportError, match="there is no such host"):
        holdfast.connect_sync("tcp://no-such-host.invalid:1")
    assert threading.active_count() <= before + 1  # one that looks up names may be kept

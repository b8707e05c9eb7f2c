"""`import holdfast` has what an application needs: brokers as objects, with and without `async`, and their clients."""

import asyncio
import json
from pathlib import Path
from urllib.request import urlopen

import pytest

import holdfast
from holdfast.net.public_names import public_names
from holdfast.testing.fixtures import holdfast_broker  # noqa: F401  # as an application would import it
from tests.net.harness import live, take, until, values

LISTEN = "tcp://127.0.0.1:0"


@live
async def test_two_brokers_with_addresses_as_texts_pass_events_on() -> None:
    async with (
        holdfast.Broker(LISTEN, name="b1") as b1,
        holdfast.Broker([LISTEN, "udp://127.0.0.1:0"], name="b2", peers={"b1": b1.address}) as b2,
    ):
        await b1.connected_to("b2")
        async with holdfast.connect(b1.address) as one, holdfast.connect(b2.addresses[1]) as other:
            wanted = one.subscribe("n > 0")
            await one.flush()
            while not wanted.waiting:  # until b2 knows of it
                await other.publish({"n": 1})
                await asyncio.sleep(0.01)
            assert values(await take(wanted, 1)) == [1]
            assert sorted(b1.neighbours) == sorted(["b2", one.name])
        assert repr(b1) == f"<Broker b1 on {b1.address}>"
        assert b1.health()["ok"] and b2.health()["peers"] == {"b1": True}
        b2.set_peers({})
        await until(lambda: "b1" not in b2.neighbours)
    assert repr(b1) == "<Broker b1, not running>"
    with pytest.raises(holdfast.MisuseError, match="does not run"):
        b1.address  # noqa: B018


def test_a_broker_without_async_stores_events_and_serves_metrics(tmp_path: Path) -> None:
    settings = {"name": "b1", "hops": "retransmission", "store": tmp_path / "b1.db"}
    with holdfast.SyncBroker(metrics="127.0.0.1:0", **settings) as broker:
        with holdfast.connect_sync(broker.address, name="desk", durable=True) as client:
            broker.connected_to("desk", timeout=60)
            client.publish({"n": 1})
            client.flush(timeout=60)
            assert "desk" in broker.neighbours
        with urlopen(f"{broker.metrics}/health", timeout=30) as answer:
            assert json.load(answer) == broker.health()
        with pytest.raises(holdfast.MisuseError, match="runs already"):
            broker.start()
    broker.stop()
    with pytest.raises(holdfast.MisuseError, match="does not run"):
        broker.health()


def test_what_cannot_be_is_refused_before_a_broker_is_started() -> None:
    for wrong, told in (
        ({"listen": "7001"}, "not an address"),
        ({"listen": []}, "needs an address"),
        ({"peers": {"b2": "tcp://127.0.0.1:0"}}, "port 0"),
        ({"name": "a b"}, "white space"),
        ({"hops": "twice"}, "hops"),
        ({"routing": "west"}, "routing is 'west'"),
        ({"metrics": "nowhere"}, "not a place to listen"),
    ):
        with pytest.raises(holdfast.InputError, match=told):
            holdfast.Broker(**wrong)


def test_a_port_in_use_is_told_and_leaves_nothing_behind() -> None:
    with holdfast.SyncBroker() as broker:
        second = holdfast.SyncBroker(broker.address)
        with pytest.raises(holdfast.TransportError, match="the port is in use"):
            second.start()
    second.start()
    second.stop()


def test_the_fixture_serves_tests_without_async(holdfast_broker: str) -> None:  # noqa: F811
    with holdfast.connect_sync(holdfast_broker) as client, client.subscribe("n = 1") as wanted:
        client.publish({"n": 1})
        assert wanted.next(timeout=60).event == {"n": 1}


def test_the_fixture_serves_tests_with_async_of_whatever_plugin(holdfast_broker: str) -> None:  # noqa: F811
    async def test() -> None:
        async with holdfast.connect(holdfast_broker) as client:
            assert client.broker is not None

    asyncio.run(test())


def test_the_sync_client_works_inside_a_running_event_loop_as_in_a_notebook() -> None:
    async def cell() -> None:
        with holdfast.SyncBroker() as broker, holdfast.connect_sync(broker.address) as client:
            wanted = client.subscribe("n >= 0")
            assert client.publish_many({"n": n} for n in range(2_500)) == 2_500
            got = []
            while len(got) < 2_500:
                got += wanted.batch(timeout=60)
            assert values(got) == list(range(2_500))
            with pytest.raises(TimeoutError):
                wanted.batch(timeout=0.01)
            assert client.attached(timeout=60) == broker.name

    asyncio.run(cell())


@live
async def test_objects_show_what_they_are_and_dir_shows_only_the_interface() -> None:
    async with holdfast.Broker(LISTEN, name="b1") as broker, holdfast.connect(broker.address, name="desk") as client:
        wanted = client.subscribe("price < 120")
        await client.publish({"price": 99, "at": {"desk": 7}}, payload=b"abc")
        delivery = await anext(wanted)
        number = delivery.seq
        shown = (
            f"<Delivery {{'price': 99, 'at': {{'desk': 7}}}}, payload of 3 bytes from desk, number {number}, original>"
        )
        assert repr(delivery) == shown
        assert repr(client) == "<Client desk, connected to b1, 1 subscriptions>"
        assert repr(wanted) == "<Subscription 'price < 120', 0 waiting>"
        assert repr(holdfast.Loss("desk", 3, 4, "gone")) == "Loss(source='desk', first=3, last=4, reason='gone')"
        shown = {each for each in dir(client) if not each.startswith("__")}
        assert shown == set(
            "name counters connections broker settled recovered publish publish_many flush forget advertise subscribe "
            "losses denials states on_state attach attached detach close".split()
        )
        assert public_names(dir(client.losses())) == sorted(each for each in dir(client.losses()))
        assert repr(client.losses()) == "<Losses, 0 unread>"
    assert repr(client) == "<Client desk, closed, 1 subscriptions>"


@live
async def test_nested_attributes_come_back_nested_and_are_found_by_dotted_names() -> None:
    async with holdfast.Broker(LISTEN) as broker, holdfast.connect(broker.address) as client:
        wanted = client.subscribe("home.team = 'Yankees'")
        await client.publish({"home": {"team": "Yankees", "at": {"bat": 3}}, "inning": 1})
        event = (await anext(wanted)).event
        assert event == {"home": {"team": "Yankees", "at": {"bat": 3}}, "inning": 1}
        assert (event["home.at.bat"], event.get("home.team"), event.get("home.score", 0)) == (3, "Yankees", 0)
        assert "home.team" in event and "home.score" not in event and 1 not in event
        with pytest.raises(KeyError):
            event["inning.now"]
        await client.publish(event)  # and go on as they came
        assert (await anext(wanted)).event == event

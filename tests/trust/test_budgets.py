"""Budgets of connections and identities: who sends too much is slowed and told, and others do not feel it."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.carriers.connecting import connect
from holdfast.model.errors import InputError, TransportError
from holdfast.model.messages import Delta, Heartbeat, Publication, Publish
from holdfast.net.half_open import HalfOpen
from holdfast.net.http import HttpResponse, listen, parse_place
from holdfast.net.node import BrokerNode
from holdfast.trust.authority import DevelopmentAuthority
from holdfast.trust.budget import Budgets, BudgetSettings, IdentityShares, Meter
from holdfast.trust.identity import ANONYMOUS, Principal
from holdfast.trust.settings import TrustSettings
from holdfast.wire.codec import encode_message, framed
from holdfast.wire.signals import LEVEL, Hello, Welcome, encode_signal
from tests.net.certificates import Authority
from tests.net.harness import QUICK, fails, lab, live, settled, until
from tests.net.mqtt_client import MqttClient
from tests.net.raw import RawPeer
from tests.trust.raw_datagrams import RawDatagrams


def test_a_meter_lets_a_burst_pass_and_then_so_much_a_second() -> None:
    meter = Meter(frames_s=10)
    assert all(meter.spend(1, 100.0) <= 0 for _ in range(10))
    assert meter.spend(1, 100.0) == pytest.approx(0.1)
    assert meter.spend(1, 100.0) == pytest.approx(0.2)
    assert meter.spend(1, 100.3) <= 0  # both are paid for, and this one as well
    assert meter.spend(1, 100.3) == pytest.approx(0.1)


def test_a_large_frame_costs_by_its_bytes() -> None:
    meter = Meter(frames_s=10, bytes_s=1_000)
    assert meter.spend(1_500, 0.0) == pytest.approx(0.5)


def test_what_is_dropped_is_not_paid_for() -> None:
    meter = Meter(frames_s=10)
    taken = [meter.spend(1, at / 1_000, may_wait=False) <= 0 for at in range(2_000)]  # 1,000 a second, for 2 s
    assert sum(taken) == pytest.approx(10 + 2 * 10, abs=2)


def test_connections_of_an_identity_share_a_budget_and_strangers_have_their_own() -> None:
    budgets = Budgets(BudgetSettings(identity_connections=2, identity_frames_s=10, connection_frames_s=10))
    desk = Principal("desk")
    for _ in range(2):
        assert not budgets.why_full(desk)
        budgets.enter(desk)
    assert "desk has 2 connections already" in budgets.why_full(desk)
    assert not budgets.why_full(Principal("other")) and not budgets.why_full(ANONYMOUS)
    one, other = budgets.of(desk), budgets.of(desk)
    assert all(each.spend(1, 0.0) <= 0 for each in (one, other) for _ in range(5))
    assert one.spend(1, 0.0) > 0 and other.spend(1, 0.0) > 0
    nobody = budgets.of(ANONYMOUS)
    assert nobody.spend(1, 0.0) <= 0
    budgets.leave(desk)
    assert not budgets.why_full(desk)


def test_clients_of_an_identity_share_their_filters_and_subscriptions() -> None:
    shares = IdentityShares(BudgetSettings(identity_filters=10, identity_subscriptions=4))
    for name in ("desk.1", "desk.2"):
        shares.enter(name, Principal("desk"))
    shares.enter("somebody", ANONYMOUS)
    shares.note("desk.1", 6, 2)
    assert not shares.why_over("desk.2", 4, 2) and not shares.why_over("desk.1", 10, 4)
    assert "10 filters of all clients of desk" in shares.why_over("desk.2", 5, 2)
    assert "4 subscriptions of all clients of desk" in shares.why_over("desk.2", 4, 3)
    assert not shares.why_over("somebody", 10**6, 10**6)
    shares.note("desk.1", 1, 1)
    assert not shares.why_over("desk.2", 9, 3)
    shares.forget("desk.1")
    assert not shares.why_over("desk.2", 10, 4)
    shares.note("desk.1", 6, 2)
    shares.leave("desk.1")  # for now: its broker keeps what it wants
    assert shares.why_over("desk.2", 5, 2)


def test_who_is_there_longest_without_a_name_is_closed_first() -> None:
    closed: list[str] = []
    half_open = HalfOpen(2, closed.append)
    for name in ("a", "b", "c"):
        half_open.enter(name, name, lambda: None)
    half_open.leave("b")
    half_open.enter("d", "d", lambda: None)
    assert closed == ["a"]


# Live --------------------------------------------------------------------------------------------


async def greeted(broker: BrokerNode, peer: Any, name: str, **said: Any) -> None:
    peer.signal(Hello(name, "client", 1, level=LEVEL, **said))
    assert isinstance(await peer.heard_signal(), Welcome)
    peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="client"))


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets have a second's worth and never any more, however long a test takes."""
    for where in ("throttle", "http"):
        monkeypatch.setattr(f"holdfast.net.{where}.monotonic", lambda: 1_000.0)


@pytest.mark.usefixtures("stopped_clock")
@live
async def test_a_client_above_its_budget_is_slowed_and_told_and_loses_nothing() -> None:
    async with lab() as net:
        broker = await net.broker("b1", budgets=BudgetSettings(connection_frames_s=100))
        publisher, subscriber = await net.client(broker, name="p"), await net.client(broker, name="s")
        wanted = subscriber.subscribe("TRUE")
        await subscriber.flush()
        for n in range(105):
            await publisher.publish({"n": n})
            await asyncio.sleep(0)  # so that each leaves in a frame of its own
        got = [(await wanted.next(timeout=20)).event["n"] for _ in range(105)]
        assert got == list(range(105))
        assert broker.counters.incidents["over_budget"] == 1  # said once a second
        assert "it sends more than 100 frames" in publisher.denials()[0].reason
        assert not subscriber.denials()


@pytest.mark.usefixtures("stopped_clock")
@live
async def test_a_flood_of_one_client_leaves_the_others_their_share() -> None:
    async with lab() as net:
        broker = await net.broker("b1", budgets=BudgetSettings(connection_frames_s=500))
        bystander = await net.client(broker, name="s")
        wanted = bystander.subscribe("n >= 0")
        await bystander.flush()
        async with RawPeer(broker.listening[0]) as peer:
            await greeted(broker, peer, "flood")
            for _ in range(20):
                for seq in range(1, 501):
                    peer.say(Publish(Publication("flood", seq, 1, None, {"x": 1}, b"")))
                await bystander.publish({"n": 1})
                assert (await wanted.next(timeout=20)).event == {"n": 1}
            await until(lambda: broker.driver.links["flood"].held_up)  # it is let go for one frame now and then
            assert broker.counters.received < 1_500  # of the 10,000 that were sent: 500, and one after each pause


@pytest.mark.usefixtures("stopped_clock")
@live
async def test_datagrams_above_a_budget_are_dropped_and_the_rest_is_served() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0", budgets=BudgetSettings(connection_frames_s=100))
        with RawDatagrams(broker.listening[0]) as peer:
            await peer.open()
            peer.first(encode_signal(Hello("flood", "client", 1, level=LEVEL)))
            await peer.receive()
            before = broker.counters.received
            for seq in range(1, 1_001):
                message = Publish(Publication("flood", seq, 1, None, {"x": 1}, b""))
                peer.tagged(framed([encode_message(message)]))
                if not seq % 100:
                    await asyncio.sleep(0)
            await until(lambda: broker.counters.incidents.get("over_budget"))
            assert broker.counters.received - before <= 100


@live
async def test_an_mqtt_client_above_its_budget_is_slowed() -> None:
    budgets = BudgetSettings(connection_frames_s=10)
    async with holdfast.Broker(["mqtt://127.0.0.1:0"], budgets=budgets) as b1:
        port = int(b1.addresses[0].rpartition(":")[2])
        async with MqttClient(port, "flood") as flood, MqttClient(port, "other") as other:
            for _ in range(1_000):
                await flood.publish("a", b"x", 0)
            slowed = asyncio.create_task(flood.silent())  # in a minute and a half
            assert await other.silent()
            assert not slowed.done()
            slowed.cancel()
            assert b1.counters.incidents["over_budget"] >= 1


@live
async def test_an_identity_has_so_many_connections(tmp_path: Path) -> None:
    DevelopmentAuthority(tmp_path, 30).issue("desk")
    async with lab() as net:
        trust = TrustSettings(token_keys=tmp_path / "issuer.json")
        budgets = BudgetSettings(identity_connections=2)
        listen_on = ("tcp://127.0.0.1:0", "mqtt://127.0.0.1:0")
        broker = await net.broker("b1", listen_on, trust=trust, budgets=budgets)
        token = str(tmp_path / "desk.token")
        first = await net.client(broker, name="desk.1", token=token)
        await net.client(broker, name="desk.2", token=token)
        third = connect(str(broker.listening[0]), name="desk.3", token=token, settings=QUICK)
        assert "desk has 2 connections already" in await fails(third.__aenter__(), TransportError)
        password = (tmp_path / "desk.token").read_bytes().strip()
        async with MqttClient(broker.listening[1].port, "desk.4", user="", password=password) as other:
            assert other.connack.reason == 0x97
            assert "desk has 2 connections already" in other.connack.properties["reason_string"]
        await first.close()
        await net.client(broker, name="desk.3", token=token)


@live
async def test_the_subscriptions_of_an_identity_are_counted_over_all_its_clients(tmp_path: Path) -> None:
    DevelopmentAuthority(tmp_path, 30).issue("desk")
    async with lab() as net:
        trust = TrustSettings(token_keys=tmp_path / "issuer.json")
        broker = await net.broker("b1", trust=trust, budgets=BudgetSettings(identity_filters=5))
        token = str(tmp_path / "desk.token")
        first = await net.client(broker, name="desk.1", token=token)
        second = await net.client(broker, name="desk.2", token=token)
        kept = [first.subscribe(f"n = {n}") for n in range(3)]
        await first.flush()
        kept += [second.subscribe(f"n = {n}") for n in range(3)]
        await until(lambda: broker.counters.incidents.get("too_many_conditions"))
        loss = await anext(aiter(second.losses()))
        assert "5 filters of all clients of desk (identity_filters)" in loss.reason
        assert len(kept) == 6
        await first.close()  # which makes room
        third = await net.client(broker, name="desk.3", token=token)
        wanted = third.subscribe("n = 7")
        await third.flush()
        await third.publish({"n": 7})
        assert (await wanted.next(timeout=20)).event == {"n": 7}


@live
async def test_who_comes_again_under_its_name_leaves_no_budget_behind(tmp_path: Path) -> None:
    DevelopmentAuthority(tmp_path, 30).issue("desk")
    token = (tmp_path / "desk.token").read_text().strip()
    async with lab() as net:
        trust = TrustSettings(token_keys=tmp_path / "issuer.json")
        broker = await net.broker("b1", trust=trust, budgets=BudgetSettings(identity_filters=5))
        place = broker.listening[0]
        async with RawPeer(place) as first, RawPeer(place) as again:
            await greeted(broker, first, "desk", token=token)
            await greeted(broker, again, "desk", token=token)
            assert await first.closed()  # after the other has come
            await until(lambda: broker.connections == 1)
            again.say(Delta("subscriptions", 1, tuple(f"n = {n}" for n in range(6)), ()))
            await until(lambda: broker.counters.incidents.get("too_many_conditions"))


@pytest.mark.parametrize("scheme", ["tcp", "tls", "mqtt", "ws"])
@live
async def test_connections_that_say_nothing_keep_nobody_out(scheme: str, authority: Authority) -> None:
    async with lab() as net:
        address = f"{scheme}://127.0.0.1:0" + ("/mqtt" if scheme == "ws" else "")
        tls = authority.broker("b1")
        listen_on = (address, "tls://127.0.0.1:0") if scheme != "tls" else (address,)
        broker = await net.broker("b1", listen_on, tls=tls, budgets=BudgetSettings(half_open=5))
        place = broker.listening[0]
        hanging = [socket.create_connection((place.host, place.port)) for _ in range(50)]
        try:
            await until(lambda: broker.counters.incidents.get("half_open_closed") == 45)
            if scheme == "mqtt":
                async with MqttClient(place.port, "c") as client:
                    assert client.connack.reason == 0
            elif scheme != "ws":
                files = vars(authority.files("c")) if scheme == "tls" else {}
                assert (await net.client(broker, **files)).broker == "b1"
            assert broker.connections <= 10
        finally:
            for each in hanging:
                each.close()


@pytest.mark.usefixtures("stopped_clock")
@live
async def test_who_asks_for_metrics_too_often_is_told_so() -> None:
    refused: list[str] = []
    pages = {"/metrics": lambda: HttpResponse("ok")}
    server = await listen(parse_place("127.0.0.1:0"), pages, 4, refused.append)
    port = int(server.address.rpartition(":")[2])
    codes = []
    for _ in range(8):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        codes.append((await reader.read()).split(b" ")[1])
        writer.close()
    server.close()
    assert codes == [b"200"] * 4 + [b"429"] * 4 and refused == ["127.0.0.1"] * 4


def test_a_budget_of_the_command_line_is_checked() -> None:
    from holdfast.cli.broker import _budgets

    assert _budgets(["half_open=7", "http_requests_s = 3"]) == BudgetSettings(half_open=7, http_requests_s=3)
    for given, why in (("half_opn=7", 'did you mean "half_open"'), ("half_open=x", "expected NAME=NUMBER")):
        with pytest.raises(InputError, match=why):
            _budgets([given])


@live
async def test_brokers_have_no_budget() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]}, budgets=BudgetSettings(connection_frames_s=20))
        await b1.connected_to("b2")
        publisher, subscriber = await net.client(b1, name="p"), await net.client(b2, name="s")
        wanted = subscriber.subscribe("TRUE")
        await settled(subscriber, publisher)
        for n in range(100):
            await publisher.publish({"n": n})
            await wanted.next(timeout=20)
        assert "over_budget" not in b2.counters.incidents

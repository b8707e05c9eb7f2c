"""The attacks that worked before brokers knew each other: none does, and each does again without its defence.

An attack tells what damage it has done. Tampered with, a broker lacks the one check that the attack is about; if the
damage were none even then, the attack would show nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.model.messages import Batch, Delta, Heartbeat, Publication, Publish
from holdfast.net import datagram
from holdfast.net.http import HttpResponse, listen, parse_place
from holdfast.net.udp import UdpWire
from holdfast.protocol.circles import Circles
from holdfast.protocol.groups.member import GroupMember
from holdfast.protocol.groups.messages import Announce, Hand, HandedEvent, envelope
from holdfast.trust.cookie import Cookies
from holdfast.wire.codec import encode_message, framed
from holdfast.wire.signals import LEVEL, Hello, Ping, Pong, Refusal, Welcome, encode_signal
from tests.net.harness import Lab, lab, live, settled, until
from tests.protocol.test_circles import mesh
from tests.trust.doors import Doors, epoch_of, greeted
from tests.trust.raw_datagrams import RawDatagrams

FAR = 2**62
GENUINE = 50
BEAT = Heartbeat(1, ((0, 0), (0, 0)), kind="client")
HELLO = encode_signal(Hello("raw", "client", 1, level=LEVEL))
BYE = encode_signal(Refusal("bye", "the client leaves"))


# A forged source ---------------------------------------------------------------------------------


async def arrived(net: Lab, doors: Doors, **reliability: Any) -> int:
    """How many of 50 events of feed arrive after somebody has published one as feed, with the number 2^62."""
    b1, b2 = await doors.pair(net)
    subscriber = await doors.connected(net, b2, "desk", **reliability)
    wanted = subscriber.subscribe("n IS NOT NULL")
    last = await doors.connected(net, b1, "last")
    await settled(subscriber, last)
    async with doors.mallory(b2) as peer:
        assert isinstance(await greeted(peer, "mallory", "client"), Welcome)
        forged = Publish(Publication("feed", FAR, 1, None, {"n": -1}, b""))
        peer.say(BEAT, forged)
        peer.signal(Ping(7))
        while await peer.frame() != encode_signal(Pong(7)):
            pass
        feed = await doors.connected(net, b1, "feed", **reliability)
        for n in range(GENUINE):
            await feed.publish({"n": n})
        await feed.flush()
        await last.publish({"n": GENUINE})
        found = 0
        while (value := (await wanted.next(timeout=20)).event["n"]) != GENUINE:
            found += value >= 0
        return found


@live
async def test_a_forged_source_with_the_number_2_to_62_silences_nobody(doors: Doors) -> None:
    async with lab() as net:
        assert await arrived(net, doors, order="strict", recovery=True) == GENUINE


@live
async def test_a_broker_that_vouches_for_nothing_lets_a_source_be_silenced(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.protocol.broker.not_vouched_for", lambda *_: None)
    async with lab() as net:
        assert await arrived(net, doors, order="strict", recovery=True) < GENUINE


# A forged home of a group ------------------------------------------------------------------------


async def shared(net: Lab, doors: Doors) -> list[int]:
    """What a member of a group gets after a client has said that it is the group's home, or handed it an event."""
    b1, b2 = await doors.pair(net)
    member, feed = await doors.connected(net, b1, "desk"), await doors.connected(net, b1, "feed")
    wanted = member.subscribe("n IS NOT NULL", group="g")
    await settled(member, feed)
    await feed.publish({"n": 0})
    found = [(await wanted.next(timeout=20)).event["n"]]
    machine: Any = member.driver.machine
    while not isinstance(machine, GroupMember):
        machine = machine.inner
    (its,) = machine._of.values()
    async with doors.mallory(b2) as peer:
        assert isinstance(await greeted(peer, "mallory", "client"), Welcome)
        event = HandedEvent("feed", FAR, 1, None, {"n": -1}, b"")
        hand = Hand(its.key, its.member, its.home.home, its.stream, its.received + 1, (event,))
        peer.say(BEAT, envelope("mallory", hand, "desk", 1))
        peer.say(envelope("mallory", Announce(its.key, "group:mallory", 0), None, 1))
        peer.signal(Ping(7))
        while await peer.frame() != encode_signal(Pong(7)):
            pass
        await settled(member, feed)
        await feed.publish({"n": 1})
        with suppress(TimeoutError):
            while found[-1] != 1:
                found.append((await wanted.next(timeout=2)).event["n"])
        return found


@live
async def test_who_is_no_home_of_a_group_hands_nothing_out_and_ends_none(doors: Doors) -> None:
    async with lab() as net:
        assert await shared(net, doors) == [0, 1]


@live
async def test_where_anybody_may_say_that_it_is_the_home_of_a_group_it_is_believed(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.protocol.groups.messages._is_home", lambda *_: True)
    async with lab() as net:
        assert await shared(net, doors) != [0, 1]


# The name of another broker ----------------------------------------------------------------------


async def greeted_as_b1(net: Lab, doors: Doors) -> object:
    """What b2 says to somebody who greets it as b1, with the epoch that b1 tells everybody."""
    b1, b2 = await doors.pair(net)
    async with epoch_of(doors, b1) as epoch, doors.mallory(b2) as peer:
        return await greeted(peer, "b1", "broker", epoch)


@live
async def test_who_greets_as_another_broker_is_refused(doors: Doors) -> None:
    async with lab() as net:
        assert isinstance(await greeted_as_b1(net, doors), Refusal)


@live
async def test_brokers_without_keys_take_anybody_for_another_broker(tmp_path: Path) -> None:
    class Open(Doors):
        def broker(self, name: str) -> dict[str, Any]:
            return {}

    async with lab() as net:
        assert isinstance(await greeted_as_b1(net, Open("tcp", tmp_path, None)), Welcome)


# Datagrams ---------------------------------------------------------------------------------------


async def handled(place: Any) -> None:
    with RawDatagrams(place) as last:
        await last.open()


async def reflected(net: Lab) -> tuple[int, int]:
    """Bytes that an address was sent which has answered nothing, and bytes that came in its name."""
    broker = await net.broker("b1", "udp://127.0.0.1:0")
    publisher = await net.client(broker)
    with RawDatagrams(broker.listening[0]) as victim:
        victim.cookie = b"c" * 16
        wants = Delta("subscriptions", 1, ("TRUE",), ())
        recorded = [
            datagram.first(victim.nonce, victim.cookie, HELLO),
            *[datagram.head(b"c" * datagram.TAG_BYTES) + framed([encode_message(each)]) for each in (BEAT, wants)],
        ]
        for data in recorded:
            victim.send(data)
        await handled(broker.listening[0])
        for n in range(300):
            await publisher.publish({"n": n})
        await publisher.flush()
        await handled(broker.listening[0])
        return sum(map(len, victim.waiting())), sum(map(len, recorded))


@live
async def test_three_recorded_datagrams_draw_no_flood_to_an_address() -> None:
    async with lab() as net:
        drawn, sent = await reflected(net)
        assert drawn <= sent


@live
async def test_without_cookies_recorded_datagrams_draw_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cookies, "is_valid", lambda *_: True)
    async with lab() as net:
        drawn, sent = await reflected(net)
        assert drawn > 3 * sent


async def slots_taken(net: Lab) -> int:
    """Connections of a broker after 500 forged greetings."""
    broker, dice = await net.broker("b1", ("udp://127.0.0.1:0", "tcp://127.0.0.1:0")), Random(1)
    for _ in range(50):
        with RawDatagrams(broker.listening[0]) as raw:
            for _ in range(10):
                raw.send(datagram.first(dice.randbytes(8), dice.randbytes(16), HELLO))
            await handled(broker.listening[0])
    return broker.connections


@live
async def test_a_flood_of_forged_hellos_takes_no_slot() -> None:
    async with lab() as net:
        assert await slots_taken(net) == 0


@live
async def test_without_cookies_forged_hellos_take_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cookies, "is_valid", lambda *_: True)
    async with lab() as net:
        assert await slots_taken(net) > 0


async def survives_bye(net: Lab) -> bool:
    """Whether a client is still connected after a datagram that says bye from its address."""
    broker = await net.broker("b1", "udp://127.0.0.1:0")
    client = await net.client(broker, name="desk")
    await settled(client, client)
    session = client._session
    assert session is not None
    before = broker._sessions["desk"]
    session.wire._port._socket.send(BYE)  # type: ignore[attr-defined]
    session.wire._port._socket.send(datagram.head(b"\0" * datagram.TAG_BYTES) + BYE)  # type: ignore[attr-defined]
    await handled(broker.listening[0])
    return broker._sessions.get("desk") is before


@live
async def test_a_spoofed_bye_ends_nothing() -> None:
    async with lab() as net:
        assert await survives_bye(net)


@live
async def test_without_tags_a_spoofed_bye_ends_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = UdpWire.on_datagram

    def on_datagram(self: UdpWire, data: memoryview) -> bool:
        if data == BYE:
            self.receiver.on_frame(data)
            return True
        return genuine(self, data)

    monkeypatch.setattr(UdpWire, "on_datagram", on_datagram)
    async with lab() as net:
        assert not await survives_bye(net)


# Circles -----------------------------------------------------------------------------------------


def transmissions(brokers: int) -> int:
    """Of one event, on a full mesh of brokers that route by subscriptions."""
    wires = mesh(brokers)
    before = len(wires.sent)
    wires.publish("c-b0", n=1)
    return sum(isinstance(each[2], Publish | Batch) for each in wires.sent[before:])


def test_an_event_does_not_go_round_a_full_mesh() -> None:
    assert transmissions(3) <= 2 * 3 * 2


def test_brokers_that_remember_no_event_send_it_round_and_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Circles, "is_first", lambda *_: True)
    monkeypatch.setattr(Circles, "first_of", lambda *_: None)
    assert transmissions(3) > 2 * 3 * 2


@live
async def test_a_full_mesh_of_live_brokers_delivers_once_and_names_the_circle(doors: Doors) -> None:
    async with lab() as net:
        listen_on = f"{doors.scheme}://127.0.0.1:0"
        brokers: dict[str, Any] = {}
        for name in ("b1", "b2", "b3", "b4"):
            peers = {each: broker.listening[0] for each, broker in brokers.items()}
            brokers[name] = await net.broker(name, listen_on, peers=peers, **doors.broker(name))
            for each in peers:
                await brokers[name].connected_to(each)
        publisher = await doors.connected(net, brokers["b1"], "feed")
        subscriber = await doors.connected(net, brokers["b3"], "desk")
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(20):
            await publisher.publish({"n": n})
        assert [(await wanted.next(timeout=20)).event["n"] for _ in range(20)] == list(range(20))
        await publisher.publish({"n": 20})
        assert (await wanted.next(timeout=20)).event["n"] == 20  # and none of the others came again before it
        await until(lambda: any(each.counters.incidents.get("routing_circle") for each in brokers.values()))


# Connections that hang ---------------------------------------------------------------------------


async def metrics_answer(hanging: int) -> bool:
    server = await listen(parse_place("127.0.0.1:0"), {"/metrics": lambda: HttpResponse("fine")})
    port = int(server.address.rpartition(":")[2])
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(hanging)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    answer = b""
    with suppress(ConnectionResetError):
        answer = await reader.read()
    for each in (*[far for _, far in held], writer):
        each.close()
    server.close()
    return b"200 OK" in answer


@live
async def test_forty_hanging_connections_do_not_keep_metrics_from_others() -> None:
    assert await metrics_answer(40)


@live
async def test_where_whoever_comes_last_is_closed_metrics_are_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def newest(of: Any) -> Any:
        return reversed(of) if isinstance(of, dict) else _iter(of)

    _iter: Callable[[Any], Any] = iter
    monkeypatch.setattr("holdfast.net.http._CONNECTIONS_MAX", 40)
    monkeypatch.setattr("holdfast.net.http.iter", newest, raising=False)
    assert not await metrics_answer(40)

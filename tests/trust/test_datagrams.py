"""Over UDP, an address that does not answer costs nothing, and who cannot read what others send can end nothing."""

import asyncio
from contextlib import ExitStack
from random import Random

import pytest

from holdfast.model.messages import Detach
from holdfast.net import datagram
from holdfast.net.admission import is_full
from holdfast.net.node import BrokerNode
from holdfast.trust.cookie import Cookies
from holdfast.wire.codec import encode, framed
from holdfast.wire.signals import Hello, Refusal, decode_signal_untrusted, encode_signal
from tests.net.harness import lab, live, settled, take, until, values
from tests.trust.raw_datagrams import RawDatagrams

HELLO = encode_signal(Hello("raw", "client", 1))
BYE = encode_signal(Refusal("bye", "the client leaves"))


async def handled(broker: BrokerNode) -> None:
    """Until the broker has read what was sent before."""
    with RawDatagrams(broker.listening[0]) as last:
        await last.open()


@live
async def test_an_address_that_does_not_answer_draws_no_more_than_it_sent_and_leaves_nothing() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        publisher = await net.client(broker)
        with RawDatagrams(broker.listening[0]) as victim:
            opening, guessed = datagram.opening(b"n" * 8), datagram.first(b"n" * 8, b"c" * 16, HELLO)
            sent = 0
            for data in (HELLO, opening, guessed, datagram.head(b"t" * 8) + HELLO, opening[:9], b"\xf1", b"") * 30:
                victim.send(data)
                sent += len(data)
                if sent % 7 == 0:
                    await handled(broker)
            for n in range(100):
                await publisher.publish({"n": n})
            await handled(broker)
            assert sum(map(len, victim.waiting())) <= sent
        assert broker.connections == 1 and broker.counters.refused == 0


@live
async def test_a_recorded_greeting_is_of_no_use_from_another_address() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        with RawDatagrams(broker.listening[0]) as raw, RawDatagrams(broker.listening[0]) as victim:
            await raw.open()
            raw.first(HELLO)
            await until(lambda: broker.neighbours)
            for _ in range(3):
                victim.send(datagram.first(raw.nonce, raw.cookie, HELLO))
            await handled(broker)
            answers = victim.waiting()
            assert [each[0] for each in answers] == [datagram.COOKIE] * 3
            assert broker.connections == 1


@live
async def test_forged_greetings_take_no_slot_of_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.net.udp._WIRES_MAX", 20)
    dice = Random(1)
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        with RawDatagrams(broker.listening[0]) as raw:
            for _ in range(2_000):
                raw.send(datagram.first(dice.randbytes(8), dice.randbytes(16), HELLO))
                raw.waiting()
            await handled(broker)
        assert broker.connections == 0
        client = await net.client(broker)
        assert client.broker == "b1"


@live
async def test_connections_over_udp_leave_those_over_tcp_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.net.admission.SESSIONS_MAX", 3)
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        for name in "abc":
            await net.client(broker, name=name)
        sessions = list(broker._sessions.values())
        assert is_full(sessions, sessions[0].wire, 3)

        class Stream:
            reliable = True

        assert not is_full(sessions, Stream(), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("frame", [BYE, encode(Detach()), b""], ids=["bye", "detach", "nothing"])
@pytest.mark.parametrize("forge", ["bare", "first", "guessed tag", "reset", "their nonce"])
@live
async def test_who_cannot_read_the_tags_can_end_nothing(forge: str, frame: bytes) -> None:
    def forged(nonce: bytes) -> bytes:
        return {
            "bare": frame,
            "first": datagram.first(b"x" * 8, b"c" * 16, frame),
            "guessed tag": datagram.head(b"\0" * 8) + frame,
            "reset": bytes([datagram.RESET]) + b"\0" * 8,
            "their nonce": datagram.with_cookie(nonce, b"c" * 16),
        }[forge]

    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        client = await net.client(broker, name="desk")
        wanted = client.subscribe("n >= 0")
        await settled(client, client)
        session = client._session
        assert session is not None
        wire = session.wire
        data = forged(wire.nonce)  # type: ignore[attr-defined]
        if data:
            wire._port._socket.send(data)  # type: ignore[attr-defined]  # as if from the client's address
            theirs = broker._sessions["desk"].wire
            theirs._port._socket.sendto(data, theirs.remote)  # type: ignore[attr-defined]  # and from the broker's
        for n in range(50):
            await client.publish({"n": n})
        assert values(await take(wanted, 50)) == list(range(50))
        assert client.connections == 1 and broker.counters.incidents.get("unknown_neighbour") is None


@live
async def test_who_was_forgotten_learns_it_by_its_own_tag() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        with RawDatagrams(broker.listening[0]) as raw:
            raw.cookie = b"c" * 16
            raw.tagged(framed([b"\x90"]))
            assert await raw.receive() == bytes([datagram.RESET]) + b"c" * 8
        client = await net.client(broker, name="desk")
        for session in list(broker._sessions.values()):
            session.wire.abort()
        await until(lambda: client.connections == 2)


@live
async def test_a_greeting_of_an_older_version_is_refused_in_words() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        with RawDatagrams(broker.listening[0]) as raw:
            raw.send(HELLO)
            answer = await raw.receive()
            assert len(answer) <= len(HELLO)
            assert decode_signal_untrusted(answer) == Refusal("version", "0.3 needed")
        assert broker.connections == 0


def test_a_cookie_is_for_one_address_and_a_while() -> None:
    now_s = 1_000.0
    cookies = Cookies(lambda: now_s)
    cookie = cookies.of(("127.0.0.1", 1), b"nonce")
    for later_s, valid in ((0, True), (10, True), (20, False)):
        now_s = 1_000.0 + later_s
        assert cookies.is_valid(cookie, ("127.0.0.1", 1), b"nonce") is valid
    now_s = 1_000.0
    assert not cookies.is_valid(cookie, ("127.0.0.1", 2), b"nonce")
    assert not cookies.is_valid(cookie, ("127.0.0.1", 1), b"other")
    assert not Cookies(lambda: now_s).is_valid(cookie, ("127.0.0.1", 1), b"nonce")


@live
async def test_what_is_lost_while_a_wire_opens_is_sent_again() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        with ExitStack() as stack:
            raws = [stack.enter_context(RawDatagrams(broker.listening[0])) for _ in range(2)]
            for raw in raws:  # the answer to the first request is lost
                raw.send(datagram.opening(raw.nonce))
            await asyncio.sleep(0)
            for number, raw in enumerate(raws):
                await raw.open()
                raw.first(encode_signal(Hello(f"raw-{number}", "client", 1)))
            await until(lambda: len(broker.neighbours) == 2)

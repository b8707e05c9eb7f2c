"""Whatever a peer sends, a broker counts it and goes on; it does not crash, hang or grow."""

import asyncio
import gc
import socket
from pathlib import Path
from random import Random

import psutil
import pytest

from holdfast.model.messages import Delta, NodeKind
from holdfast.net import datagram
from holdfast.net.address import Address
from holdfast.net.node import BrokerNode
from holdfast.net.tcp import TcpWire
from holdfast.trust.settings import TrustSettings
from holdfast.wire.signals import AskPast, Challenge, Hello, Ping, Refusal, Welcome, encode_signal
from tests.net.harness import fails, lab, live, settled, until
from tests.net.raw import RawPeer
from tests.wire.test_untrusted import FRAMES, mutilated

HELLO = encode_signal(Hello("raw", "client", 1))


async def works(broker: BrokerNode, net: object) -> None:
    client = await net.client(broker)  # type: ignore[attr-defined]
    await settled(client, client)
    await client.close()


@live
async def test_another_protocol_version_is_told_so_and_the_connection_closed() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            raw.send(b"\x02" + HELLO[1:])
            answer = await raw.heard_signal()
            assert answer == Refusal("version", "this is protocol version 1, not 2")
            assert await raw.closed()
        assert broker.counters.refused == 1
        await works(broker, net)


@live
async def test_a_broker_of_another_version_is_named_to_who_dials_it() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = b"\x07\x01\x90"
        writer.write(len(frame).to_bytes(4, "big") + frame)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with lab() as net, server:
        address = Address("tcp", "127.0.0.1", server.sockets[0].getsockname()[1])
        problem = await fails(net.client(address), Exception)
        assert problem == f"cannot connect to {address}: it has protocol version 7, this is version 1"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"\xff" * 100,
        (2**24 + 1).to_bytes(4, "big"),
        b"\0\0\0\0",
        b"\0\0\0\1\1",
        len(FRAMES[0]).to_bytes(4, "big") + FRAMES[0],
        len(HELLO).to_bytes(4, "big") + HELLO[:-1] + b"\xc1",
        b"\0\0\0\x09" + encode_signal(Ping(1)),
    ],
    ids=range(8),
)
@live
async def test_what_is_no_greeting_is_counted_and_the_connection_closed(data: bytes) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            raw.writer.write(data)
            assert await raw.closed()
        assert broker.counters.bad_frames == 1
        await works(broker, net)


@pytest.mark.parametrize(
    "frame",
    [FRAMES[0][:-1], FRAMES[0] + b"\0", b"\x01\x00\x91\xc0", b"\x01\x07\x90", b"\x02" + FRAMES[0][1:], HELLO, b""],
    ids=["short", "long", "nil", "kind", "version", "hello again", "empty"],
)
@live
async def test_a_bad_frame_after_the_greeting_closes_a_stream(frame: bytes) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            assert isinstance(await raw.greet(epoch=2), Welcome)
            raw.send(frame)
            assert await raw.closed()
        assert broker.counters.bad_frames == 1
        await works(broker, net)


@live
async def test_a_frame_of_thousands_of_messages_closes_a_stream() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            await raw.greet("raw")
            raw.say(*[Delta("subscriptions", 1, (), ())] * 3_000)
            assert await raw.closed()
        assert broker.counters.bad_frames == 1
        await works(broker, net)


@live
async def test_a_table_that_is_not_made_of_conditions_is_an_incident() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            await raw.greet()
            raw.say(Delta("subscriptions", 1, ("price <",), ()))
            await until(lambda: broker.counters.incidents.get("bad_condition"))
        await works(broker, net)


@live
async def test_who_says_nothing_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.net.session._GREETING_S", 0.05)
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            raw.writer.write(b"\0\0")
            assert await raw.closed()
        await until(lambda: broker.connections == 0)


@live
async def test_pings_from_somebody_who_does_not_read_cost_nothing() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            await raw.greet()
            for token in range(50_000):
                raw.signal(Ping(token))
                if token % 1_000 == 0:
                    await raw.writer.drain()
            await raw.writer.drain()
            await works(broker, net)


@live
async def test_questions_about_the_past_from_somebody_who_does_not_read_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lab() as net:
        broker = await net.broker("b" * 200)  # which answers that it keeps none, with its name
        async with RawPeer(broker.listening[0]) as raw:
            await raw.greet()
            wire, asked = broker._sessions["raw"].wire, list[AskPast]()
            assert isinstance(wire, TcpWire)
            answer = broker._history.on_ask
            monkeypatch.setattr(broker._history, "on_ask", lambda *given: (asked.append(given[1]), answer(*given)))
            for token in range(40_000):
                raw.signal(AskPast(token, "n = 1", 0, 0))
                if token % 1_000 == 0:
                    await raw.writer.drain()
            await until(lambda: len(asked) == 40_000)
            await works(broker, net)
            assert wire._transport.get_write_buffer_size() < 2 * 2**20  # more than fits is not answered


@pytest.mark.parametrize("kind", ["client", "broker"])
@live
async def test_who_says_hello_again_and_again_is_not_answered_for_ever(kind: NodeKind, tmp_path: Path) -> None:
    (tmp_path / "broker.key").write_text("00" * 16)
    trust = TrustSettings(broker_key=tmp_path / "broker.key")  # a broker is asked for a proof, and gives none
    async with lab() as net:
        broker = await net.broker("b1", trust=trust)
        async with RawPeer(broker.listening[0]) as raw:
            raw.signal(Hello("raw", kind, 1))
            assert isinstance(await raw.heard_signal(), Welcome if kind == "client" else Challenge)
            raw.signal(Hello("raw", kind, 1))
            assert await raw.closed()
        await until(lambda: broker.counters.bad_frames == 1)


async def feed_stream(broker: BrokerNode, frames: int, seed: int) -> None:
    """Greet, then send nonsense until the broker hangs up; and so on."""
    nonsense, rng = mutilated(Random(seed)), Random(seed)
    left = frames
    while left > 0:
        async with RawPeer(broker.listening[0]) as raw:
            if rng.random() < 0.9:
                await raw.greet(epoch=rng.randrange(2**30))
            for _ in range(rng.randint(1, 20)):
                left -= 1
                raw.send(next(nonsense))
            raw.writer.write_eof()
            await raw.closed()


async def feed_datagrams(broker: BrokerNode, frames: int, seed: int) -> None:
    nonsense, rng = mutilated(Random(seed)), Random(seed)
    place = broker.listening[0].host, broker.listening[0].port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto(datagram.opening(b"8 bytes."), place)
        cookie = datagram.cookie_in(memoryview(await asyncio.get_running_loop().sock_recv(sock, 100)))
        for number in range(frames):
            if rng.random() < 0.01:
                sock.sendto(datagram.first(b"8 bytes.", cookie, HELLO), place)
            sock.sendto((datagram.head(cookie[: datagram.TAG_BYTES]) + next(nonsense))[:60_000], place)
            if number % 50 == 0:
                await asyncio.sleep(0)  # the broker's turn
            while rng.random() < 0.5:
                try:
                    sock.recv(2_000)
                except BlockingIOError:
                    break


@live
async def test_a_broker_survives_nonsense_over_tcp_and_udp() -> None:
    async with lab() as net:
        stream = await net.broker("b1")
        await feed_stream(stream, 2_000, seed=1)
        assert stream.counters.bad_frames > 100
        await works(stream, net)
        datagrams = await net.broker("b2", "udp://127.0.0.1:0")
        await feed_datagrams(datagrams, 5_000, seed=1)
        assert datagrams.counters.bad_frames > 100
        await works(datagrams, net)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_a_broker_does_not_grow_under_200_000_frames_of_nonsense(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.net.harness.PATIENCE_S", 1_000.0)
    feed = feed_stream if scheme == "tcp" else feed_datagrams

    @live
    async def test() -> None:
        async with lab() as net:
            broker = await net.broker("b1", f"{scheme}://127.0.0.1:0")
            await feed(broker, 20_000, seed=2)
            gc.collect()
            before = psutil.Process().memory_info().rss
            await feed(broker, 200_000, seed=3)
            gc.collect()
            assert psutil.Process().memory_info().rss - before < 20 * 2**20
            await works(broker, net)

    test()

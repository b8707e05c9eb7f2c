"""A gateway between a live broker and its readers and writers, over loopback."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.gateway import gateway as gateway_module
from holdfast.gateway.client import GatewayClient, RefusedError, connect_gateway
from holdfast.gateway.gateway import Gateway, GatewaySettings
from holdfast.gateway.messages import (
    AckOffset,
    AskCounts,
    AskEnds,
    Commit,
    EventToPublish,
    Fetch,
    ListStreams,
    OpenStream,
    Part,
    Refused,
    Request,
    Stage,
    StreamState,
    decode_answer_untrusted,
    encode_gateway,
)
from holdfast.model.errors import HoldfastError, InputError, TransportError
from holdfast.net.address import Address, parse_address
from holdfast.net.client import Client
from holdfast.net.node import BrokerNode
from holdfast.protocol.settings import ProtocolSettings
from holdfast.store.log import GoneError, Retention
from tests.net.certificates import Authority
from tests.net.harness import Lab, fails, lab, live, take, until, values
from tests.net.raw import RawPeer

ANYWHERE = "tcp://127.0.0.1:0"
USUAL = ProtocolSettings()  # a gateway's clients beat at the usual rate, and a broker must not expect more


@asynccontextmanager
async def gateway(folder: Path, *brokers: BrokerNode | Address, **settings: Any) -> AsyncIterator[Gateway]:
    addresses = tuple(each if isinstance(each, Address) else each.listening[0] for each in brokers)
    settings.setdefault("listen", (parse_address(ANYWHERE),))
    made = Gateway(GatewaySettings(folder, addresses, **settings))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def client_of(made: Gateway, **settings: Any) -> AsyncIterator[GatewayClient]:
    async with connect_gateway(str(made.listening[0]), **settings) as client:
        yield client


async def listening_to(made: Gateway, broker: BrokerNode) -> None:
    """Wait until the broker knows what the gateway's streams want."""
    await broker.connected_to(f"{made.name}.reads")
    for each in made.streams.values():
        await made.open_stream(each.condition, each.name)


async def logged(client: GatewayClient, stream: StreamState, count: int) -> list[Any]:
    """The first so many events of a stream, as soon as they are there."""
    now = await client.ends(stream.name, count - 1, wait_s=60)
    assert now.end == count
    return [each async for each in client.fetch(now, 0, count)]


async def usual(net: Lab, name: str = "b1", listen: str | Address = ANYWHERE) -> BrokerNode:
    return await net.broker(name, listen, protocol=USUAL)


@live
async def test_every_kind_of_value_comes_out_of_the_log_as_it_was_published(tmp_path: Path) -> None:
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456, UTC)
    event = {"s": "naïve ☃", "i": -(2**63), "u": 2**64 - 1, "d": 0.1, "b": True, "t": moment, "x.y": None, "z": 1e300}
    async with lab() as net:
        broker = await usual(net)
        async with gateway(tmp_path / "gw", broker, streams={"all": "i < 0"}) as made, client_of(made) as client:
            await listening_to(made, broker)
            publisher = await net.client(broker, name="desk")
            seq = await publisher.publish(event, b"\x00\xff")
            (stream,) = await client.streams()
            (found,) = await logged(client, stream, 1)
            assert (found.offset, found.event, found.payload, found.via) == (0, event, b"\x00\xff", "original")
            assert (found.source, found.seq, stream.condition) == ("desk", seq, "i < 0")
            assert {name: type(value) for name, value in found.event.items()} == {k: type(v) for k, v in event.items()}
            assert found.time_us <= found.logged_us


@live
async def test_a_restarted_gateway_goes_on_where_it_was_and_takes_no_event_twice(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        streams = {"all": "n >= 0"}
        for numbers in (range(5), range(3, 8)):  # the second time some are published again with the same numbers
            async with gateway(tmp_path / "gw", broker, streams=streams) as made, client_of(made) as client:
                await listening_to(made, broker)
                first_seq = 100 + numbers[0]
                async with Client([broker.listening[0]], "desk", None, USUAL, first_seq=first_seq) as publisher:
                    for number in numbers:
                        await publisher.publish({"n": number})
                found = await logged(client, (await client.streams())[0], numbers[-1] + 1)
                assert [(each.event["n"], each.seq) for each in found] == [(n, 100 + n) for n in range(numbers[-1] + 1)]
        counts = made.streams["all"].counts()
        assert (counts["events"], counts["duplicates"]) == (8, 2)


@live
async def test_streams_are_opened_by_their_condition_however_it_is_spelled(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        async with gateway(tmp_path / "gw", broker, streams_max=2) as made, client_of(made) as client:
            await listening_to(made, broker)
            cheap = await client.open("price<10")
            assert (await client.open("price  <  10.0")).name == cheap.name
            assert (await client.open("NOT price >= 10")).log == cheap.log
            big = await client.open("volume > 1000", "big")
            assert {each.name for each in await client.streams()} == {cheap.name, "big"}
            publisher = await net.client(broker)
            for n in range(10):
                await publisher.publish({"n": n, "price": n * 2, "volume": n * 500})
            assert [each.event["n"] for each in await logged(client, cheap, 5)] == [0, 1, 2, 3, 4]
            assert [each.event["n"] for each in await logged(client, big, 7)] == [3, 4, 5, 6, 7, 8, 9]
            for asked, complaint in [
                (client.open("volume > 7", "big"), "the stream big has the condition volume > 1000, not volume > 7"),
                (client.open("third > 0"), "there are 2 streams .* and 2 are allowed"),
                (client.open("third >"), "expected a value"),
                (client.ends("nothing"), "there is no stream 'nothing'; there are: big, c-"),
            ]:
                with pytest.raises(RefusedError, match=complaint):
                    await asked
        async with gateway(tmp_path / "gw", broker) as made, client_of(made) as client:  # they are there again
            assert {each.name: each.end for each in await client.streams()} == {cheap.name: 5, "big": 7}
            for name in ("../up", "", ".hidden", "a/b", "-x", "x" * 201):
                with pytest.raises(InputError, match="cannot be the name of a stream"):
                    Gateway(GatewaySettings(tmp_path / "other", (broker.listening[0],), (), {name: "a = 1"}))
                if name:
                    await fails(client.open("fourth > 0", name), HoldfastError)
    assert not (tmp_path / "other").exists()


@live
async def test_what_retention_has_dropped_is_told_with_where_the_log_begins(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        keep = Retention(keep_bytes=2**18, segment_bytes=2**14)
        async with gateway(tmp_path / "gw", broker, streams={"all": "n >= 0"}, retention=keep) as made:
            await listening_to(made, broker)
            async with client_of(made) as client:
                publisher = await net.client(broker)
                stream = await client.ends("all")
                for n in range(60):
                    await publisher.publish({"n": n}, b"x" * 10_000)
                    stream = await client.ends("all", n, wait_s=60)
                assert stream.end == 60
                assert stream.oldest > 0
                try:
                    _ = [each async for each in client.fetch(stream, 0, 60)]
                    raise AssertionError("the first event is still there")
                except GoneError as gone:
                    assert gone.oldest == stream.oldest
                    assert f"begins at {stream.oldest}" in str(gone)
                kept = [each.event["n"] async for each in client.fetch(stream, stream.oldest, 60)]
                assert kept == list(range(stream.oldest, 60))
                assert (await client.counts())["all.dropped_unread"] == stream.oldest
                for lo, hi, log, code in [
                    (0, 61, stream.log, "not yet"),
                    (9, 8, stream.log, "not yet"),
                    (59, 60, "x", "other log"),
                ]:
                    with pytest.raises(RefusedError) as caught:
                        await client._ask(Fetch("all", log, lo, hi), StreamState)
                    assert caught.value.code == code


@live
async def test_a_batch_is_published_once_however_often_it_comes(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        subscriber = await net.client(broker, settings=USUAL)
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        async with gateway(tmp_path / "gw", broker) as made, client_of(made) as client:
            for batch, numbers in enumerate([range(0, 50), range(50, 100)]):
                events = [{"n": number} for number in numbers]
                assert await client.publish(events, "query", batch)
                assert not await client.publish(events, "query", batch)
            found = await take(wanted, 100)
            assert values(found) == list(range(100))
            assert [each.seq - found[0].seq for each in found] == list(range(100))
            assert {each.source for each in found} == {made.name}
            assert not await client.publish([{"n": 1}], "query", 0)
            await until(lambda: made.ledger.published == 100)
        async with gateway(tmp_path / "gw", broker) as made, client_of(made) as client:  # and after a restart
            assert not await client.publish([{"n": 7}], "query", 1)
            assert await client.publish([{"n": 100}], "query", 2)
            (last,) = await take(wanted, 1)
            assert (last.event, last.seq) == ({"n": 100}, found[-1].seq + 1)
        assert wanted.waiting == 0


@live
async def test_a_broker_that_goes_away_gets_the_rest_when_it_is_back_and_nobody_gets_it_twice(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        address = broker.listening[0]
        async with gateway(tmp_path / "gw", broker, streams={"all": "n >= 0"}) as made, client_of(made) as client:
            await listening_to(made, broker)
            await client.publish([{"n": n} for n in range(20)], "query", 0)
            await logged(client, (await client.streams())[0], 20)  # the gateway is its own subscriber here
            await broker.stop(0.1)
            assert await client.publish([{"n": n} for n in range(20, 40)], "query", 1)  # safe without a broker
            again = await usual(net, "b1", address)
            await again.connected_to(f"{made.name}.reads")
            found = await logged(client, (await client.streams())[0], 40)
            assert [each.event["n"] for each in found] == list(range(40))
            await until(lambda: made.ledger.waiting == 0)


def _refuse(first: int) -> None:
    raise sqlite3.OperationalError("database or disk is full")


@live
async def test_a_chunk_that_is_sent_again_is_the_same_events_to_a_subscriber(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        subscriber = await net.client(broker, settings=USUAL)
        wanted = subscriber.subscribe("n >= 0")
        await subscriber.flush()
        async with gateway(tmp_path / "gw", broker) as made, client_of(made) as client:
            made.ledger.on_published = _refuse  # type: ignore[method-assign]
            await client.publish([{"n": n} for n in range(10)], "query", 0)
            assert values(await take(wanted, 10)) == list(range(10))
        async with gateway(tmp_path / "gw", broker) as made, client_of(made) as client:
            await client.publish([{"n": 10}], "query", 1)
            assert values(await take(wanted, 1)) == [10]
            await until(lambda: made.ledger.published == 11)
        assert subscriber.counters.incidents["duplicate"] >= 10


@live
async def test_a_reader_and_a_writer_outlive_a_restart_of_the_gateway(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        async with gateway(tmp_path / "gw", broker, streams={"all": "n >= 0"}) as made:
            await listening_to(made, broker)
            where = made.listening
            client = await GatewayClient(where[0], patience_s=60).__aenter__()
            await client.publish([{"n": 0}], "query", 0)
            following = client.follow((await client.streams())[0], 0)
            assert (await anext(following)).event == {"n": 0}
            waiting = asyncio.ensure_future(anext(following))
            await asyncio.sleep(0)
        async with gateway(tmp_path / "gw", broker, streams={"all": "n >= 0"}, listen=where) as made:
            await listening_to(made, broker)
            publisher = await net.client(broker)
            await publisher.publish({"n": 1})
            assert (await waiting).event == {"n": 1}
        await client.__aexit__()


@live
async def test_a_gateway_without_a_broker_serves_its_log_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "_SUBSCRIBE_S", 0.01)
    told: list[str] = []
    settings = GatewaySettings(
        tmp_path / "gw", (parse_address("tcp://127.0.0.1:1"),), (parse_address(ANYWHERE),), {"all": "n >= 0"}
    )
    made = Gateway(settings, told.append)
    await made.start()
    async with client_of(made) as client:
        assert (await client.open("n >= 0")).name == "all"
        assert await client.publish([{"n": 0}], "query", 0)
        await until(lambda: len(told) >= 2)
    await made.stop()
    assert any("cannot reach tcp://127.0.0.1:1: connection refused" in line for line in told)


@live
async def test_a_full_ledger_holds_up_the_writer_until_its_patience_ends(tmp_path: Path) -> None:
    nobody = parse_address("tcp://127.0.0.1:1")
    async with gateway(tmp_path / "gw", nobody, ledger_bytes=1_000) as made, client_of(made, patience=0.2) as client:
        assert await client.publish([{"n": 0}], "query", 0)
        with pytest.raises(RefusedError, match="1,000 are allowed") as caught:
            await client.publish([{"text": "x" * 1_000}], "query", 1)
        assert caught.value.code == "full"


@live
async def test_tls_works_for_a_gateway_too(tmp_path: Path, authority: Authority, other_authority: Authority) -> None:
    async with lab() as net:
        broker = await usual(net)
        listen = (parse_address("tls://127.0.0.1:0"),)
        async with gateway(tmp_path / "gw", broker, listen=listen, tls=authority.files("gateway")) as made:
            files = authority.files("reader")
            names = {"certificate": files.certificate, "key": files.key, "ca": files.ca}
            async with client_of(made, **names) as client:
                assert await client.streams() == []
            other = other_authority.files("reader")
            strange = {"certificate": other.certificate, "key": other.key}
            trusting = client_of(made, **strange, ca=files.ca, patience=0.1)
            with pytest.raises(TransportError):
                async with trusting as client:
                    await client.streams()


@live
async def test_bad_settings_are_told_all_at_once_and_nothing_is_made(tmp_path: Path) -> None:
    settings = GatewaySettings(
        tmp_path / "gw", (), (parse_address("udp://127.0.0.1:0"),), {"a": "x <"}, retention=Retention(10)
    )
    with pytest.raises(InputError) as caught:
        Gateway(settings)
    for complaint in ("address of a broker", "tcp:// or tls://", "log of 10 bytes", "expected a value"):
        assert complaint in str(caught.value)
    with pytest.raises(InputError, match=r"keep_s must be a number of seconds above 0, found -1\.0"):
        Retention(keep_s=-1.0)
    assert list(tmp_path.iterdir()) == []


# What comes from outside -----------------------------------------------------------------------------------------

REQUESTS: list[Request] = [
    ListStreams(),
    OpenStream("a = 1", "name"),
    AskEnds("all", 3, 1_000),
    Fetch("all", "0" * 32, 0, 10),
    AckOffset("all", "reader", 7),
    Stage("query", 1, 2, "attempt", 3, [EventToPublish({"a": 1, "b": "text", "c": 0.5, "d": None}, b"payload", 5)]),
    Commit("query", 1, [Part(0, "attempt", 1)]),
    AskCounts(),
]


def nonsense(dice: Random) -> bytes:
    """A request with something wrong with it, or with nothing right about it."""
    frame = bytearray(encode_gateway(dice.choice(REQUESTS)))
    match dice.randrange(6):
        case 0:
            return bytes(frame[: dice.randrange(len(frame))])
        case 1:
            for _ in range(dice.randint(1, 4)):
                frame[dice.randrange(len(frame))] = dice.randrange(256)
        case 2:
            frame += dice.randbytes(dice.randint(1, 20))
        case 3:
            return dice.randbytes(dice.randrange(200))
        case 4:
            frame[2:] = msgspec.msgpack.encode(dice.choice([{}, [], ["fetch"], ["fetch", 1, 2, 3, 4], "x", [[]] * 50]))
        case 5:
            frame[2:] = b"\x91" * dice.randrange(5_000)
    return bytes(frame)


@live
async def test_a_gateway_survives_thousands_of_frames_of_nonsense(tmp_path: Path) -> None:
    dice = Random(4)
    async with lab() as net:
        broker = await usual(net)
        async with gateway(tmp_path / "gw", broker, streams={"all": "n >= 0"}, streams_max=3) as made:
            await listening_to(made, broker)
            left = 3_000
            while left > 0:
                async with RawPeer(made.listening[0]) as raw:
                    for _ in range(dice.randint(1, 10)):
                        left -= 1
                        raw.send(nonsense(dice))
                    if dice.random() < 0.3:
                        raw.writer.write((2 ** dice.randrange(32)).to_bytes(4, "big"))
                    raw.writer.write_eof()
                    await raw.closed()
            assert made.connections.bad_frames > 300
            await until(lambda: len(made.connections) == 0)
            async with client_of(made) as client:  # and works as before
                await client.publish([{"n": 1}], "afterwards", 0)
                stream = await client.ends("all", 0, wait_s=60)
                assert [each.event async for each in client.fetch(stream, 0, 1)] == [{"n": 1}]


@pytest.mark.parametrize(
    "body",
    [
        ["stage", "q", 0, 0, "a", 0, [[{"a": [[1]]}]]],
        ["stage", "q", 0, 0, "a", 0, [[{"a": {"b": 1}}]]],
        ["stage", "q", 0, 0, "a", 0, [[{"n" * 256: 1}]]],
        ["stage", "q", 0, 0, "a", 0, [[{str(n): 1 for n in range(257)}]]],
        ["stage", "q", 0, 0, "a", 0, [[{"a": 1}, b"x" * (2**20 + 1)]]],
        ["stage", "q", -1, 0, "a", 0, []],
        ["stage", "", 0, 0, "a", 0, []],
        ["ends", "all", 0, 31_000_000],
        ["fetch", "all", "x", 0, 2**63],
        ["commit", "q", 0, [[0, "a", -1]]],
    ],
    ids=range(10),
)
@live
async def test_what_is_past_a_limit_is_counted_and_ends_the_connection(tmp_path: Path, body: list[Any]) -> None:
    async with gateway(tmp_path / "gw", parse_address("tcp://127.0.0.1:1")) as made:
        async with RawPeer(made.listening[0]) as raw:
            raw.send(b"\x01\x02" + msgspec.msgpack.encode(body))
            assert await raw.closed()
        assert made.connections.bad_frames == 1


@live
async def test_another_protocol_version_is_told_so_by_a_gateway(tmp_path: Path) -> None:
    nobody = parse_address("tcp://127.0.0.1:1")
    async with gateway(tmp_path / "gw", nobody) as made, RawPeer(made.listening[0]) as raw:
        raw.send(b"\x09" + encode_gateway(ListStreams())[1:])
        answer = decode_answer_untrusted(await raw.frame())
        assert answer == Refused("version", "this is protocol version 1, not 9")
        assert await raw.closed()


@live
async def test_who_asks_nothing_is_not_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.gateway.connections._FIRST_REQUEST_S", 0.05)
    async with gateway(tmp_path / "gw", parse_address("tcp://127.0.0.1:1")) as made:
        async with RawPeer(made.listening[0]) as raw:
            assert await raw.closed()
        await until(lambda: len(made.connections) == 0)


@live
async def test_a_client_that_dials_something_else_is_told(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await usual(net)
        async with connect_gateway(str(broker.listening[0]), patience=0.1) as client:
            problem = await fails(client.streams(), TransportError)
        assert f"no answer from the gateway at {broker.listening[0]}" in problem
        problem = await fails(connect_gateway("tcp://127.0.0.1:1").__aenter__(), TransportError)
        assert problem == "cannot reach tcp://127.0.0.1:1: connection refused; is the gateway running?"

"""Nodes find each other in any order, keep one connection, and come back when it breaks."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.carriers.connecting import connect
from holdfast.model.errors import InputError, MisuseError, TransportError
from holdfast.net.address import Address
from holdfast.net.client import Client
from holdfast.net.journal import Note
from holdfast.net.node import BrokerNode
from holdfast.net.session import Session, open_session
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Wire
from holdfast.protocol.effects import PublishCall
from holdfast.protocol.hops.settings import HopSettings
from tests.net.certificates import Authority
from tests.net.harness import QUICK, Lab, fails, lab, live, settled, take, until, values


async def free_addresses(net: Lab, scheme: str, count: int) -> list[Address]:
    """Ports that were free a moment ago, no two the same."""
    scouts = [await net.broker(f"scout{number}", f"{scheme}://127.0.0.1:0") for number in range(count)]
    for scout in scouts:
        await scout.stop()
    return [scout.listening[0] for scout in scouts]


@contextmanager
def silent_address() -> Iterator[Address]:
    """A port on which nobody listens, and which nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield Address("tcp", *bound.getsockname())


def cut(node: BrokerNode, neighbour: str) -> None:
    """Break the connection as a network does, without a good-bye."""
    node.driver.links[neighbour].wire.abort()


async def flows(publisher: Client, subscriber: Client) -> None:
    wanted = subscriber.subscribe("n > 0")
    await settled(subscriber, publisher)
    await publisher.publish({"n": 1})
    assert values([await anext(wanted)]) == [1]


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_a_broker_may_start_before_the_peer_it_dials(scheme: str) -> None:
    async with lab() as net:
        later, own = await free_addresses(net, scheme, 2)
        b2 = await net.broker("b2", own, peers={"b1": later})
        b1 = await net.broker("b1", later)
        await b1.connected_to("b2")
        await flows(await net.client(b1), await net.client(b2))


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_when_both_dial_one_connection_remains_and_both_know_which(scheme: str) -> None:
    async with lab() as net:
        one, other = await free_addresses(net, scheme, 2)
        b1, b2 = await asyncio.gather(
            net.broker("b1", one, peers={"b2": other}), net.broker("b2", other, peers={"b1": one})
        )
        await b1.connected_to("b2")
        await b2.connected_to("b1")
        await flows(await net.client(b1), await net.client(b2))
        await until(lambda: b1.connections == b2.connections == 2)  # each other and a client
        assert {b1.dialled("b2"), b2.dialled("b1")} == {True, False}


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_of_two_connections_the_one_that_the_smaller_name_dialled_is_kept(scheme: str) -> None:
    async with lab() as net:
        b1, b2 = await net.pair(scheme)  # b2 has dialled
        assert b1.dialled("b2") is False
        await open_session(b2.listening[0], b1)
        await until(lambda: b1.connections == b2.connections == 1)
        assert b1.dialled("b2") is True
        assert "b1 has dialled b2" in await fails(open_session(b1.listening[0], b2), TransportError)
        assert b1.connections == b2.connections == 1
        await flows(await net.client(b1), await net.client(b2))


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_a_second_client_of_the_same_name_is_refused_while_the_first_is_there(scheme: str) -> None:
    async with lab() as net:
        broker = await net.broker("b1", f"{scheme}://127.0.0.1:0")
        address = str(broker.listening[0])
        first = await net.client(broker, name="desk-1")
        problem = await fails(connect(address, name="desk-1").__aenter__(), TransportError)
        assert problem == f"cannot connect to {address}: another client named desk-1 is connected to b1"
        assert broker.counters.refused == 1
        await first.close()
        await flows(await net.client(broker, name="desk-1"), await net.client(broker))


@live
async def test_a_broker_refuses_its_own_name() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        problem = await fails(connect(str(broker.listening[0]), name="b1").__aenter__(), TransportError)
        assert "is this broker itself" in problem


@live
async def test_whoever_answers_in_the_place_of_another_is_not_taken_for_it() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        lines: list[str] = []
        b2 = await net.broker("b2", peers={"b9": b1.listening[0]}, log=lambda note: lines.append(note.text))
        await until(lambda: any("it is b1, not b9" in line for line in lines))
        assert b2.neighbours == ()


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_dialling_whom_another_has_replaced_leaves_the_connection_with_that_one_alone(scheme: str) -> None:
    lines: list[str] = []
    async with lab() as net:
        where = f"{scheme}://127.0.0.1:0"
        replica = await net.broker("b1+1", where)
        b2 = await net.broker("b2", where, log=lambda note: lines.append(note.text))
        replica.add_peer("b2", b2.listening[0])
        await asyncio.gather(replica.connected_to("b2"), b2.connected_to("b1+1"))
        b2.add_peer("b1", replica.listening[0])  # where b1 was before
        await until(lambda: any("it is b1+1, not b1" in line for line in lines))
        assert not any("disconnected" in line for line in lines)


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_a_client_comes_back_by_itself_and_its_subscriptions_with_it(scheme: str) -> None:
    async with lab() as net:
        broker = await net.broker("b1", f"{scheme}://127.0.0.1:0")
        publisher, subscriber = await net.client(broker), await net.client(broker, name="desk-1")
        wanted = subscriber.subscribe("n > 0")
        await settled(subscriber, publisher)
        cut(broker, "desk-1")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_a_broker_that_begins_anew_is_found_again_by_clients_and_peers(scheme: str) -> None:
    async with lab() as net:
        b1, b2 = await net.pair(scheme)
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n > 0")
        await settled(subscriber, publisher)
        await b1.stop()
        again = await net.broker("b1", b1.listening[0])
        await again.connected_to("b2", publisher.name)
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]


@live
async def test_peers_connect_again_after_their_connection_broke() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        publisher, subscriber = await net.client(b1), await net.client(b2)
        for side, far in ((b1, "b2"), (b2, "b1")):
            cut(side, far)
            await until(lambda side=side, far=far: far not in side.neighbours)  # type: ignore[misc]
            await flows(publisher, subscriber)


@live
async def test_publishing_waits_for_a_connection() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker)
        await broker.stop()
        await until(lambda: client.broker is None)
        publishing = asyncio.create_task(client.publish({"n": 1}))
        again = await net.broker("b1", broker.listening[0])
        await publishing
        await client.flush()
        assert again.counters.received >= 2  # a heartbeat and the event


@live
async def test_a_client_with_a_list_of_brokers_goes_to_one_that_answers() -> None:
    with silent_address() as nobody:
        async with lab() as net:
            b1, b2 = await net.pair()
            publisher = await net.client(b2)
            subscriber = await net.client(nobody, b1, b2)
            assert subscriber.broker == "b1"
            wanted = subscriber.subscribe("n > 0")
            await settled(subscriber, publisher)
            await b1.stop()
            await until(lambda: subscriber.broker == "b2")
            await settled(subscriber, publisher)
            await publisher.publish({"n": 1})
            assert values([await anext(wanted)]) == [1]


@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_a_broker_that_is_not_there_is_one_clear_line(scheme: str) -> None:
    async with lab() as net:
        (nobody,) = await free_addresses(net, scheme, 1)
        problem = await fails(connect(str(nobody)).__aenter__(), TransportError)
        assert str(nobody) in problem
        assert "connection refused" in problem
        assert "\n" not in problem
        both = await fails(connect([str(nobody), "tcp://no-such-host.invalid:1"]).__aenter__(), TransportError)
        assert "there is no such host" in both


@live
async def test_a_port_in_use_is_one_clear_line() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        problem = await fails(net.broker("b2", b1.listening[0]), TransportError)
        assert problem == f"cannot listen on {b1.listening[0]}: the port is in use"


@live
async def test_flush_returns_when_the_broker_has_everything() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker)
        before = broker.counters.received
        for n in range(3_000):
            await client.publish({"n": n})
        await client.flush()
        assert broker.counters.received >= before + 3_000


@live
async def test_flush_fails_when_the_session_is_lost_first() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker, name="desk-1")
        broker.driver.links["desk-1"].wire.pause()
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0)
        broker.crash()
        await net.broker("b1", broker.listening[0])
        assert "the connection broke" in await fails(flushing, TransportError)


@live
async def test_flush_fails_when_the_session_is_lost_while_something_waits_to_be_sent() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker, name="desk-1")
        client.driver.links["b1"].set_writable(False)  # as when the broker does not read
        await client.publish({"n": 1})
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0)
        broker.crash()
        await net.broker("b1", broker.listening[0])
        assert "the connection broke" in await fails(flushing, TransportError)


@live
async def test_who_waits_for_a_broker_to_store_something_is_told_when_the_client_closes(tmp_path: Path) -> None:
    async with lab() as net:
        broker = await net.broker("b1", hops=HopSettings("retransmission"), store=tmp_path / "b1.db")
        client = await net.client(broker, durable=True)
        await broker.stop(0.1)
        await until(lambda: client.broker is None)
        client.driver.give(PublishCall({"n": 1}, b"", None))
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0)
        await client.close()
        assert "closed" in await fails(flushing, MisuseError)


@live
async def test_a_client_that_falls_silent_where_only_silence_tells_is_disconnected() -> None:
    async with lab() as net:
        broker = await net.broker("b1", "udp://127.0.0.1:0")
        client = await net.client(broker, name="desk-1")
        client.driver.stop()  # as if the process hung: nothing comes
        await until(lambda: "desk-1" not in broker.neighbours)
        assert broker.counters.incidents["lease_expired"] == 1


@live
async def test_stopping_sends_what_waits_or_counts_it() -> None:
    async with lab() as net:
        b1, b2 = await net.pair()
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(2_000):
            await publisher.publish({"n": n})
        await publisher.flush()
        await b1.stop()
        await b2.stop()
        assert values(await take(wanted, 2_000)) == list(range(2_000))
        assert b1.counters.unsent == b2.counters.unsent == 0


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
@live
async def test_a_broker_stops_although_somebody_comes_at_that_moment(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """uvloop tells nobody that a connection is closed whose handshake is cancelled just when it is through."""

    def accept_and_stop_listening(self: BrokerNode, wire: Wire) -> Session:
        session = accept(self, wire)
        for each in self._listeners:
            each.close()
        return session

    accept = BrokerNode._accept
    monkeypatch.setattr(BrokerNode, "_accept", accept_and_stop_listening)
    async with lab() as net:
        tls = authority.broker("b1") if scheme == "tls" else None
        broker = await net.broker("b1", f"{scheme}://127.0.0.1:0", tls=tls)
        files = vars(authority.files("c")) if scheme == "tls" else {}
        await fails(connect(str(broker.listening[0]), settings=QUICK, **files).__aenter__(), TransportError)
        await asyncio.wait_for(broker.stop(), 20)


@live
async def test_a_certificate_of_an_unknown_authority_is_refused_in_one_line(
    authority: Authority, other_authority: Authority
) -> None:
    async with lab() as net:
        broker = await net.broker("b1", "tls://127.0.0.1:0", tls=authority.broker("b1"))
        address = str(broker.listening[0])
        stranger = connect(address, ca=other_authority.certificate, settings=QUICK)
        told = await fails(stranger.__aenter__(), TransportError)
        assert "bad certificate: " in told
        assert "--ca FILE" in told
        nameless = connect(address, ca=authority.certificate, settings=QUICK)
        problem = await fails(nameless.__aenter__(), TransportError)
        assert problem.startswith(f"cannot connect to {address}: ")
        assert (
            "certificate required" in problem or "may require a client certificate" in problem
        )  # the alert may come too late
        assert "\n" not in problem


@live
async def test_failed_tls_handshakes_are_logged_and_counted(authority: Authority, other_authority: Authority) -> None:
    async with lab() as net:
        notes: list[Note] = []
        broker = await net.broker("b1", "tls://127.0.0.1:0", tls=authority.broker("b1"), log=notes.append)
        place = broker.listening[0]
        for known, why in ((None, "certificate"), (other_authority.files("client"), "certificate verify failed")):
            context = (known or TlsFiles(ca=authority.certificate)).for_dialling()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            counted = broker.counters.tls_refused
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(place.host, place.port, ssl=context)
                await reader.read()
                writer.close()
            await until(lambda counted=counted: broker.counters.tls_refused > counted)
            assert why in notes[-1].text
        _, plain = await asyncio.open_connection(place.host, place.port)
        plain.write(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: broker.counters.tls_refused == 3)
        plain.close()
        assert [each.kind for each in notes] == ["tls_refused"] * 3
        assert (
            notes[-1].text.startswith("127.0.0.1:") and "failed the TLS handshake: TLS: http request" in notes[-1].text
        )
        client = await net.client(broker, **vars(authority.files("client")))
        assert client.broker == "b1"


@live
async def test_plain_text_to_a_tls_port_is_refused_in_one_line(authority: Authority) -> None:
    async with lab() as net:
        broker = await net.broker("b1", "tls://127.0.0.1:0", tls=authority.files("broker", trusting=False))
        plain = Address("tcp", "127.0.0.1", broker.listening[0].port)
        problem = await fails(connect(str(plain), settings=QUICK).__aenter__(), TransportError)
        assert problem.startswith(f"cannot connect to {plain}: closed by the other end; if it is a broker with TLS")


@live
async def test_tls_to_a_plain_port_is_refused_in_one_line_that_says_so(authority: Authority) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        there = Address("tls", "127.0.0.1", broker.listening[0].port)
        client = connect(str(there), ca=authority.certificate, settings=QUICK)
        problem = await fails(client.__aenter__(), TransportError)
        assert problem == f"cannot reach {there}: closed by the other end; is it a broker that speaks plain tcp://?"


@live
async def test_files_that_are_no_certificate_are_named(authority: Authority) -> None:
    async with lab() as net:
        ok = authority.files("broker")
        for files, complaint in [
            (TlsFiles(), "needs a certificate"),
            (TlsFiles("nowhere.pem"), "nowhere.pem: No such file"),
            (TlsFiles(__file__, ok.key), "test_connections.py"),
            (TlsFiles(ok.certificate, authority.files("another").key), "key values mismatch"),
            (TlsFiles(ok.certificate, ok.key, __file__), "test_connections.py"),
            (TlsFiles(ok.certificate), "unless --key FILE"),
        ]:
            problem = await fails(net.broker("b1", "tls://127.0.0.1:0", tls=files), InputError)
            assert complaint in problem
        client = connect("tls://127.0.0.1:1", key=ok.key, settings=QUICK)
        assert "add --certificate FILE" in await fails(client.__aenter__(), InputError)


@live
async def test_a_name_is_free_again_although_closing_was_cancelled() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        for turns in range(6):  # of the event loop before the cancellation comes
            client = await connect(str(broker.listening[0]), name="desk", settings=QUICK).__aenter__()
            closing = asyncio.create_task(client.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            if turns:  # before the first turn nothing had begun
                await until(lambda: not broker.neighbours)
            else:
                await client.close()

"""Nobody is believed to be what it says: it proves it, or is refused."""

from pathlib import Path

import pytest

from holdfast.carriers.connecting import connect
from holdfast.model.errors import TransportError
from holdfast.net.journal import Note
from holdfast.net.node import BrokerNode
from holdfast.trust.certificate import certified
from holdfast.trust.identity import Principal
from holdfast.trust.settings import TrustSettings
from holdfast.wire.signals import Challenge, Hello, Refusal, Welcome
from tests.net.certificates import Authority
from tests.net.harness import QUICK, Lab, fails, lab, live, settled, take, until, values
from tests.net.raw import RawPeer
from tests.trust.doors import KEY, OTHER_KEY, Doors, epoch_of, greeted

EVENTS = 200


async def carries(net: Lab, doors: Doors, b1: BrokerNode, b2: BrokerNode) -> None:
    """That events of a client at the first broker reach one at the second, in order and all."""
    publisher = await doors.connected(net, b1, "feed")
    subscriber = await doors.connected(net, b2, "desk")
    wanted = subscriber.subscribe("n >= 0")
    await settled(subscriber, publisher)
    for n in range(EVENTS):
        await publisher.publish({"n": n})
    assert values(await take(wanted, EVENTS)) == list(range(EVENTS))


@live
async def test_brokers_that_prove_themselves_carry_events(doors: Doors) -> None:
    async with lab() as net:
        await carries(net, doors, *await doors.pair(net))


@pytest.mark.parametrize("name", ["b9", "mallory"])
@live
async def test_a_client_does_not_become_a_broker_by_saying_so(doors: Doors, name: str) -> None:
    async with lab() as net:
        b1, b2 = await doors.pair(net)
        async with doors.mallory(b1) as peer:
            answer = await greeted(peer, name, "broker")
            assert isinstance(answer, Refusal) and "broker" in answer.reason
            assert await peer.closed()
        assert name not in b1.neighbours
        await carries(net, doors, b1, b2)


@pytest.mark.parametrize("kind", ["broker", "client"])
@live
async def test_a_link_is_not_taken_over_with_the_public_epoch_of_a_broker(doors: Doors, kind: str) -> None:
    async with lab() as net:
        b1, b2 = await doors.pair(net)
        async with epoch_of(doors, b1) as epoch, doors.mallory(b2) as peer:
            answer = await greeted(peer, "b1", kind, epoch)  # type: ignore[arg-type]
            assert isinstance(answer, Refusal)
            await carries(net, doors, b1, b2)


@live
async def test_a_client_is_not_replaced_by_somebody_who_has_its_epoch() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker, name="desk", recovery=True)
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(Hello("desk", "client", client._hello.epoch))  # which its digests tell to everybody
            answer = await peer.heard_signal()
            assert isinstance(answer, Refusal) and "another client named desk" in answer.reason
        wanted = client.subscribe("n = 1")
        await client.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]


@live
async def test_a_recorded_proof_is_of_no_use_on_another_connection(tmp_path: Path) -> None:
    doors = Doors("tcp", tmp_path, None)
    async with lab() as net:
        broker = await net.broker("b1", **doors.broker("b1"))
        other = await net.broker("b2", **doors.broker("b2"))
        hello = Hello("b2", "broker", 7, nonce=b"n" * 16, expects="b1")
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(hello)
            first = await peer.heard_signal()
            assert isinstance(first, Challenge)
            from holdfast.net.credentials import dial_words

            words = dial_words(hello, first.nonce)
            proven = Hello("b2", "broker", 7, nonce=b"n" * 16, expects="b1", proof=other.gate.proof(words))
            peer.signal(proven)
            assert isinstance(await peer.heard_signal(), Welcome)  # as who has the key may
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(proven)
            assert isinstance(await peer.heard_signal(), Refusal)


@live
async def test_a_broker_with_another_key_is_refused_and_says_so_in_its_log(tmp_path: Path) -> None:
    doors, notes = Doors("tcp", tmp_path, None), list[Note]()
    (tmp_path / "other.key").write_text(OTHER_KEY)
    async with lab() as net:
        b1 = await net.broker("b1", **doors.broker("b1"))
        other = TrustSettings(broker_key=tmp_path / "other.key")
        await net.broker("b2", peers={"b1": b1.listening[0]}, trust=other, log=notes.append)
        await until(lambda: any(each.kind == "cannot_connect" for each in notes))
        assert "it does not prove that it is the broker b2" in notes[0].text
        assert b1.neighbours == ()


@live
async def test_a_listener_without_the_key_is_no_peer(tmp_path: Path) -> None:
    doors, notes = Doors("tcp", tmp_path, None), list[Note]()
    async with lab() as net:
        impostor = await net.broker("b1")
        settings = doors.broker("b2")
        await net.broker("b2", peers={"b1": impostor.listening[0]}, log=notes.append, **settings)
        await until(lambda: any(each.kind == "cannot_connect" for each in notes))
        assert "it does not prove that it is the broker b1" in notes[0].text


@live
async def test_a_key_is_replaced_without_a_restart(tmp_path: Path) -> None:
    doors = Doors("tcp", tmp_path, None)
    async with lab() as net:
        b1, b2 = await doors.pair(net)
        file = tmp_path / "broker.key"
        for text in (f"{KEY}\n{OTHER_KEY}", f"{OTHER_KEY}\n{KEY}"):
            file.write_text(text)
            b1.read_trust()
            b2.read_trust()
            assert b2.neighbours == ("b1",)
        file.write_text(OTHER_KEY)  # the link that was opened with the old key ends, and comes back with the new one
        before = b1._sessions["b2"]
        b1.read_trust()
        b2.read_trust()
        await until(lambda: b1._sessions.get("b2") not in (None, before))
        await carries(net, doors, b1, b2)


@live
async def test_a_certificate_is_for_its_name_and_what_lies_below(authority: Authority) -> None:
    async with lab() as net:
        broker = await net.broker("b1", "tls://127.0.0.1:0", tls=authority.broker("b1"))
        files, address = vars(authority.files("desk")), str(broker.listening[0])
        for name in ("desk", "desk.7", None):
            client = await net.client(broker, name=name, **files)
            assert client.name == "desk" or client.name.startswith("desk.")
        for name in ("feed", "desk-7", "b1"):
            problem = await fails(connect(address, name=name, settings=QUICK, **files).__aenter__(), TransportError)
            assert "its certificate is for desk" in problem or "this broker itself" in problem


@pytest.mark.parametrize("name", ["*", "d*", "desk\0.x", "ｄesk", "DESK", "desk "])
def test_a_common_name_is_read_letter_by_letter(name: str) -> None:
    shown = certified({"subject": ((("commonName", name),),)})
    assert shown.identity("client", "desk") is shown.identity("broker", "desk") is None
    assert shown.identity("client", name) == Principal(name)


def test_a_uri_may_be_for_all_names_that_begin_so_and_is_no_host_name() -> None:
    shown = certified({"subjectAltName": (("URI", "holdfast:client:desk-*"),)})
    assert shown.identity("client", "desk-7") == Principal("desk-7") and shown.identity("broker", "desk-7") is None
    assert certified({"subjectAltName": (("DNS", "holdfast:broker:b1"),)}).identity("broker", "b1") is None


@live
async def test_a_peer_may_have_a_certificate_for_its_name_alone(authority: Authority) -> None:
    async with lab() as net:
        listen = "tls://127.0.0.1:0"
        b1 = await net.broker("b1", listen, tls=authority.files("b1"))
        b2 = await net.broker("b2", listen, tls=authority.files("b2"), peers={"b1": b1.listening[0]})
        await until(lambda: b1.counters.refused)  # nothing says that b2 is a broker
        b1.add_peer("b2", b2.listening[0])
        await b1.connected_to("b2")


@live
async def test_who_dials_checks_that_the_certificate_is_that_of_the_broker(authority: Authority) -> None:
    async with lab() as net:
        broker = await net.broker("b1", "tls://127.0.0.1:0", tls=authority.broker("b2"))
        client = connect(str(broker.listening[0]), settings=QUICK, **vars(authority.files("desk")))
        assert "its certificate is for the broker b2" in await fails(client.__aenter__(), TransportError)


@live
async def test_a_new_certificate_is_shown_without_a_restart(authority: Authority, tmp_path: Path) -> None:
    async with lab() as net:
        own, later = authority.broker("b1"), authority.broker("b2")
        certificate, key = tmp_path / "own.pem", tmp_path / "own.key"

        def install(files: object) -> None:
            certificate.write_bytes(Path(files.certificate).read_bytes())  # type: ignore[attr-defined]
            key.write_bytes(Path(files.key).read_bytes())  # type: ignore[attr-defined]

        install(own)
        tls = type(own)(str(certificate), str(key), own.ca)
        broker = await net.broker("b1", "tls://127.0.0.1:0", tls=tls)
        desk = vars(authority.files("desk"))
        client = await net.client(broker, name="desk", **desk)
        install(later)
        broker.read_trust()
        assert client.broker == "b1"  # who is connected stays
        late = connect(str(broker.listening[0]), settings=QUICK, **desk)
        assert "its certificate is for the broker b2" in await fails(late.__aenter__(), TransportError)


@live
async def test_without_keys_and_an_authority_everybody_is_believed() -> None:
    """Which is why `holdfast doctor` warns of such a broker beyond the loopback interface."""
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(Hello("b9", "broker", 1))
            assert isinstance(await peer.heard_signal(), Welcome)

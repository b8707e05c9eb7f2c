"""What a publisher has signed arrives as it was, or is refused, named and asked for again, whatever way it comes."""

import asyncio
import hashlib
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import holdfast
from holdfast.carriers.connecting import connect
from holdfast.carriers.memory import MemoryBus
from holdfast.model.errors import InputError, MisuseError
from holdfast.model.messages import Batch
from holdfast.net.signing import Signing
from holdfast.protocol.proofs import ProofChecker, leaf_of, prove, with_proof
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.signing import EventSigner, EventVerifier
from holdfast.trust.authority import DevelopmentAuthority
from holdfast.trust.signatures import Signers, read_signing_key
from tests.carriers import riding
from tests.net.harness import lab, live, settled, take, until, values
from tests.net.mqtt_client import MqttClient, mqtt_port
from tests.trust.liar import Lies, lying

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
encode = msgspec.msgpack.encode


# Proofs ------------------------------------------------------------------------------------------


class Event(NamedTuple):
    seq: int
    time_us: int
    lifetime_us: int | None
    payload: bytes
    attributes: bytes


def run_of(size: int) -> list[Event]:
    return [Event(100 + at, 10**15 + at, None, b"p" * (at % 3), encode({"n": at, "s": "é"})) for at in range(size)]


def verify(source: str, text: bytes, signature: bytes) -> bool:
    """For `feed` alone."""
    try:
        KEY.public_key().verify(signature, text)
    except InvalidSignature:
        return False
    return source == "feed"


def judged(source: str, event: Event, proof: str) -> bool:
    """Slow and obvious, by what docs/trust.md says of a proof; it shares nothing with ours."""
    data = b64decode(proof)
    version, place, depth, signature, beside = data[0], int.from_bytes(data[1:3]), data[3], data[4:68], data[68:]
    numbers = encode([event.seq, event.time_us, event.lifetime_us, event.payload])
    node = hashlib.sha256(b"\x00" + numbers + event.attributes).digest()[:16]
    for level in range(depth):
        others = [beside[48 * level + 16 * each :][:16] for each in range(3)]
        others.insert(place >> (2 * level) & 3, node)
        node = hashlib.sha256(b"\x01" + b"".join(others)).digest()[:16]
    return version == 1 and verify(source, b"holdfast run 1\x00" + encode([source, node]), signature)


@pytest.mark.parametrize("size", [1, 2, 4, 5, 16, 17, 63, 257])
def test_every_event_of_a_run_is_proved_alone_and_by_one_signature(size: int) -> None:
    signed: list[bytes] = []
    events = run_of(size)
    proofs = prove("feed", events, lambda text: signed.append(text) or KEY.sign(text))  # type: ignore[func-returns-value]
    assert len(signed) == 1
    checked: list[bytes] = []
    checker = ProofChecker(lambda source, text, signature: checked.append(text) or verify(source, text, signature))  # type: ignore[func-returns-value]
    for event, proof in zip(events, proofs, strict=True):
        assert judged("feed", event, proof)
        assert checker.check("feed", leaf_of(*event), proof)
        assert ProofChecker(verify).check("feed", leaf_of(*event), proof)
    assert checked == signed  # once for all of them


def test_whatever_is_changed_is_noticed_and_a_memory_of_the_genuine_ones_does_not_help() -> None:
    events, dice = run_of(21), Random("changes")
    proofs = prove("feed", events, KEY.sign)
    checker = ProofChecker(verify)
    assert all(checker.check("feed", leaf_of(*event), proof) for event, proof in zip(events, proofs, strict=True))
    for _ in range(2_000):
        at = dice.randrange(21)
        event, proof = events[at], proofs[at]
        match dice.randrange(7):
            case 0:
                event = event._replace(seq=event.seq + dice.choice([-1, 1, 2**62]))
            case 1:
                event = event._replace(time_us=event.time_us + 1)
            case 2:
                event = event._replace(lifetime_us=dice.randrange(10**9))
            case 3:
                event = event._replace(payload=event.payload + b"x")
            case 4:
                event = event._replace(attributes=encode({"n": at + 1000, "s": "é"}))
            case 5:
                event = events[(at + 1 + dice.randrange(20)) % 21]
            case 6:
                data = bytearray(b64decode(proof))
                data[dice.choice([0, 3, dice.randrange(4, len(data))])] ^= 1 << dice.randrange(8)
                proof = b64encode(data).decode()
        assert not ProofChecker(verify).check("feed", leaf_of(*event), proof)
        if event not in events:  # of a genuine one that is known, no more is looked at than it takes
            assert not checker.check("feed", leaf_of(*event), proof)
        assert not judged("feed", event, proof)


@pytest.mark.parametrize("proof", [None, 7, "", "é", "AA==", "A" * 91, "A" * 92, "AQAAfw" + "A" * 86, "x" * 500, ["a"]])
def test_what_is_no_proof_is_refused(proof: object) -> None:
    assert not ProofChecker(verify).check("feed", leaf_of(*run_of(1)[0]), proof)


def test_what_one_has_signed_proves_nothing_about_another() -> None:
    """Mallory signs a tree with an event in it that it calls feed's, and has an event of its own checked first."""
    mallory = Ed25519PrivateKey.generate()
    keys = {"mallory": mallory.public_key(), "feed": KEY.public_key()}

    def by_name(source: str, text: bytes, signature: bytes) -> bool:
        try:
            keys[source].verify(signature, text)
        except InvalidSignature:
            return False
        return True

    events = run_of(4)
    proofs = prove("mallory", events, mallory.sign)
    checker = ProofChecker(by_name)
    assert checker.check("mallory", leaf_of(*events[0]), proofs[0])
    assert not checker.check("feed", leaf_of(*events[1]), proofs[1])


def test_a_proof_is_written_as_it_was_in_the_first_version() -> None:
    """Ed25519 is deterministic: whoever changes a byte of this changes what all peers check."""
    proofs = prove("feed", run_of(2), KEY.sign)
    assert hashlib.sha256("\n".join(proofs).encode()).hexdigest() == GOLDEN
    assert [len(each) for each in proofs] == [156, 156]


GOLDEN = "a1409a73569481ee0c94f049134893ccc212a931b770d60247178cfbb5b3656e"


@pytest.mark.parametrize("names", [0, 1, 14, 15, 16, 200])
def test_a_proof_is_added_to_attributes_that_are_encoded(names: int) -> None:
    attributes = {f"a{each}": each for each in range(names)}
    assert msgspec.msgpack.decode(with_proof(encode(attributes), "p" * 300)) == {**attributes, "~sig": "p" * 300}


class Keys:
    def knows(self, source: str) -> bool:
        return source == "feed"

    def verify(self, source: str, text: bytes, signature: bytes) -> bool:
        return verify(source, text, signature)


def batch_of(size: int) -> Batch:
    """Signed once, as a publisher sends it; of every third event the payload is three bytes."""
    events = [{"n": at, "t": "é" * (at % 5)} for at in range(size)]
    payloads = {at: b"abc" for at in range(0, size, 3)}
    signer = EventSigner("feed", KEY.sign)
    proof = signer.together(100, [10**15 + at for at in range(size)], [encode(each) for each in events], payloads)
    numbers = tuple(range(100, 100 + size)), "feed", tuple(10**15 + at for at in range(size))
    return Batch(*numbers, tuple(events), tuple(payloads.get(at, b"") for at in range(size)), 0, 100, 99 + size, proof)  # type: ignore[arg-type]


def judged_together(batch: Batch) -> list[int]:
    """The numbers of those that are genuine; slow and obvious, by what docs/trust.md says of the proof of a batch."""
    proof = batch.proof
    version, signature, hashes = proof[0], proof[9:73], proof[73:]
    if version != 1 or not hashes or len(hashes) % 16:
        return []
    leaves = [hashes[at : at + 16] for at in range(0, len(hashes), 16)]
    level = leaves
    while len(level) > 1:
        level = level + [bytes(16)] * (-len(level) % 4)
        blocks = [b"".join(level[at : at + 4]) for at in range(0, len(level), 4)]
        level = [hashlib.sha256(b"\x01" + each).digest()[:16] for each in blocks]
    if not verify(batch.source, b"holdfast run 1\x00" + encode([batch.source, level[0]]), signature):
        return []
    good = []
    for each in zip(batch.seqs, batch.times_us, batch.payloads, batch.attributes, strict=True):
        seq, time_us, payload, attributes = each
        leaf = hashlib.sha256(b"\x00" + encode([seq, time_us, None, payload]) + encode(attributes)).digest()[:16]
        if leaf in leaves:
            good.append(seq)
    return good


@pytest.mark.parametrize("size", [1, 2, 4, 5, 16, 17, 63, 257])
def test_a_batch_shares_a_proof_and_what_leaves_it_has_one_of_its_own(size: int) -> None:
    batch = batch_of(size)
    assert judged_together(batch) == list(batch.seqs)
    assert EventVerifier(Keys()).opened_batch(batch) == (msgspec.structs.replace(batch, proof=b""), [])
    verifier = EventVerifier(Keys())
    for at, each in enumerate(batch.publications()):
        plain = {name: value for name, value in each.attributes.items() if name != "~sig"}
        event = Event(each.seq, each.time_us, None, each.payload, encode(plain))
        assert judged("feed", event, each.attributes["~sig"])  # type: ignore[arg-type]
        assert verifier.opened(each) == msgspec.structs.replace(each, attributes=batch.attributes[at])
    assert batch.attributes[0].keys() == {"n", "t"}  # others may have the same object


@pytest.mark.parametrize("step", [1, 2, 3, 50, 200])
def test_a_part_of_a_batch_has_the_shorter_proof_and_is_opened_as_the_whole_is(step: int) -> None:
    whole = batch_of(400)
    part = whole.picked(range(7, 400, step))
    assert bool(part.proof) == (step < 50)  # four times 411 bytes are less than 400 times 16
    opened, incidents = EventVerifier(Keys()).opened_batch(part)
    assert opened.attributes == whole.attributes[7::step] and opened.seqs == whole.seqs[7::step] and not incidents


def test_whatever_is_changed_in_a_batch_is_noticed_event_by_event() -> None:
    dice, verifier = Random("batches"), EventVerifier(Keys())
    refused_some = refused_all = 0
    for _ in range(1_500):
        batch = batch_of(dice.choice([2, 5, 21]))
        if dice.random() < 0.3 and len(batch.seqs) == 21:
            batch = batch.picked(sorted(dice.sample(range(21), 15)))
        batch = tampered(batch, dice)
        good = judged_together(batch)
        opened, incidents = verifier.opened_batch(batch)
        assert list(opened.seqs) == good
        assert Counter(each.first for each in incidents) == Counter(batch.seqs) - Counter(good)
        assert (opened.since, opened.upto) == (batch.since, batch.upto)
        refused_all += not good
        refused_some += 0 < len(good) < len(batch.seqs)
    assert refused_all > 300 and refused_some > 300


def tampered(batch: Batch, dice: Random) -> Batch:
    at, proof = dice.randrange(len(batch.seqs)), bytearray(batch.proof)
    events, change = {name: list(getattr(batch, name)) for name in ("seqs", "times_us", "attributes", "payloads")}, {}
    match dice.randrange(7):
        case 0:
            events["seqs"][at] += dice.choice([1, -1, 1_000, -90])
        case 1:
            events["times_us"][at] += 1
        case 2:
            events["payloads"][at] += b"x"
        case 3:
            events["attributes"][at] = {**events["attributes"][at], "t": "other"}
        case 4:
            proof[dice.randrange(len(proof))] ^= 1 << dice.randrange(8)
        case 5:
            proof = proof[: dice.randrange(1, len(proof))]
        case 6:
            change = {"source": "mallory"}
    return msgspec.structs.replace(
        batch, **{name: tuple(each) for name, each in events.items()}, proof=bytes(proof), **change
    )


# Keys --------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    authority = DevelopmentAuthority(tmp_path, 30)
    authority.add_signer("feed")
    return tmp_path


def test_keys_are_changed_without_a_restart_and_a_bad_file_changes_nothing(keys: Path) -> None:
    signers, text = Signers(keys / "signers.json"), b"text"
    old = read_signing_key(keys / "feed.sign")(text)
    assert signers.verify("feed", text, old) and signers.verify("feed.7", text, old)
    assert not signers.verify("feeder", text, old) and not signers.verify("feed", b"other", old)
    (keys / "feed.sign").rename(keys / "feed.old")
    DevelopmentAuthority(keys, 30).add_signer("feed")
    new = read_signing_key(keys / "feed.sign")(text)
    assert signers.verify("feed", text, new) and signers.verify("feed", text, old)
    both = (keys / "signers.json").read_text()
    (keys / "signers.json").write_text("no")
    with pytest.warns(holdfast.HoldfastWarning, match="stay as they were"):
        assert signers.verify("feed", text, new)
    only = msgspec.json.decode(both)
    (keys / "signers.json").write_text(msgspec.json.encode({"feed": only["feed"][1:]}).decode())
    assert signers.verify("feed", text, new) and not signers.verify("feed", text, old)


@pytest.mark.parametrize("text", ["", "[]", '{"feed": "x"}', '{"feed": ["x"]}', '{"feed": [7]}'])
def test_a_file_of_signers_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "signers.json").write_text(text)
    with pytest.raises(InputError, match="signers"):
        Signers(tmp_path / "signers.json")


def test_a_key_of_another_kind_signs_nothing(keys: Path) -> None:
    with pytest.raises(InputError, match="Ed25519"):
        read_signing_key(keys / "ca.key")
    with pytest.raises(InputError, match="cannot be read"):
        read_signing_key(keys / "nowhere")


def test_who_signs_has_a_name() -> None:
    with pytest.raises(InputError, match="needs a name"):
        connect("tcp://127.0.0.1:1", sign="feed.sign")


# Live --------------------------------------------------------------------------------------------


def at(keys: Path) -> tuple[str, str]:
    return str(keys / "feed.sign"), str(keys / "signers.json")


@pytest.mark.parametrize("order", ["none", "strict"])
@live
async def test_a_broker_that_changes_events_is_convicted_and_the_publisher_sends_them_again(
    keys: Path, order: Any
) -> None:
    sign, signers = at(keys)
    lies = Lies(b"genuine", b"altered", 7)
    async with lab() as net:
        broker = await net.broker("b1")
        async with (
            lying(broker.listening[0], lies) as liar,
            connect(str(broker.listening[0]), name="feed", sign=sign, recovery=riding.QUICK) as feed,
            connect(liar, verify=signers, recovery=True, order=order) as desk,
        ):
            wanted = desk.subscribe("n >= 0 AND n % 2 = 0")
            await settled(desk, feed)
            for n in range(400):
                await feed.publish({"n": n, "text": "genuine"})
            await feed.flush()
            got = await take(wanted, 200)
            await until(lambda: desk.recovered)
            assert sorted(values(got)) == list(range(0, 400, 2))
            assert {each.event["text"] for each in got} == {"genuine"}
            assert sum(each.via == "repair" for each in got) == 7 == desk.counters.incidents["unverified"]
            assert order == "none" or values(got) == list(range(0, 400, 2))
            assert not desk.losses()


@live
async def test_what_is_changed_again_and_again_is_named_and_never_delivered(keys: Path) -> None:
    sign, signers = at(keys)
    impatient = RecoverySettings(search_us=300_000, retry_us_max=50_000)
    async with lab() as net:
        broker = await net.broker("b1")
        async with (
            lying(broker.listening[0], Lies(b"genuine", b"altered", 10**9)) as liar,
            connect(str(broker.listening[0]), name="feed", sign=sign, recovery=riding.QUICK) as feed,
            connect(liar, verify=signers, recovery=impatient) as desk,
        ):
            wanted = desk.subscribe("n >= 0")
            await settled(desk, feed)
            for n, text in enumerate(["honest", "genuine", "honest"]):
                await feed.publish({"n": n, "text": text})
            await feed.flush()
            assert values(await take(wanted, 2)) == [0, 2]
            async with asyncio.timeout(20):
                loss = await anext(aiter(desk.losses()))
            assert (loss.source, loss.first, loss.last) == ("feed", feed._machine.last_seq - 1, loss.first)
            assert desk.counters.incidents["unverified"] > 1  # the repairs were lies as well


@live
async def test_without_recovery_what_is_refused_is_named(keys: Path) -> None:
    sign, signers = at(keys)
    async with lab() as net:
        broker = await net.broker("b1")
        async with (
            lying(broker.listening[0], Lies(b"genuine", b"altered", 1)) as liar,
            connect(str(broker.listening[0]), name="feed", sign=sign) as feed,
            connect(str(broker.listening[0]), name="mallory") as mallory,
            connect(liar, verify=signers) as desk,
        ):
            wanted = desk.subscribe("n >= 0")
            await settled(desk, feed)
            await feed.publish_many([{"n": n, "text": "genuine"} for n in range(3)])
            await feed.publish({"n": 3}, payload=b"bytes", lifetime=60)
            await feed.flush()
            assert values(await take(wanted, 3)) == [1, 2, 3]
            await mallory.publish({"n": 4})  # nobody has a key of it
            await mallory.flush()
            named = [await anext(aiter(desk.losses())) for _ in range(2)]
            assert [each.source for each in named] == ["feed", "mallory"]
            assert {each.reason for each in named} == {"its signature is missing or wrong"}
            assert len(wanted._inbox) == 0


@live
async def test_who_does_not_know_signatures_gets_the_events_as_they_were_published(keys: Path) -> None:
    sign, _ = at(keys)
    async with (
        holdfast.Broker(["tcp://127.0.0.1:0", "mqtt://127.0.0.1:0"]) as broker,
        connect(broker.address, name="feed", sign=sign) as feed,
        connect(broker.address) as desk,
        MqttClient(mqtt_port(broker), "m") as other,
    ):
        wanted = desk.subscribe("n >= 0")
        await other.subscribe("#")
        await settled(desk, feed)
        await feed.publish({"n": 1, "home": {"team": "Yankees"}, "topic": "games"})
        got = await wanted.next(timeout=20)
        assert got.event == {"n": 1, "home": {"team": "Yankees"}, "topic": "games"}
        assert b"sig" not in (await other.event()).payload


@live
async def test_what_a_broker_has_stored_or_kept_is_checked_as_what_is_new(keys: Path, tmp_path: Path) -> None:
    sign, signers = at(keys)
    options: dict[str, Any] = {"hops": "retransmission", "store": str(tmp_path / "b1.db"), "history": tmp_path / "past"}
    async with holdfast.Broker(**options) as broker:
        async with connect(broker.address, name="desk", verify=signers, durable=True) as desk:
            desk.subscribe("n >= 0")
            await desk.flush()
        async with (
            connect(broker.address, name="feed", sign=sign, durable=True) as feed,
            connect(broker.address, name="mallory", durable=True) as mallory,
        ):
            await feed.publish_many([{"n": n} for n in range(5)])
            await mallory.publish({"n": 7})
            await asyncio.gather(feed.flush(), mallory.flush())
        async with connect(broker.address, name="desk", verify=signers, durable=True) as desk:
            assert values(await take(desk.subscribe("n >= 0"), 5)) == list(range(5))
        async with connect(broker.address, verify=signers) as late:
            assert values(await take(late.subscribe("n >= 0", since=3_600), 5)) == list(range(5))
            loss = await anext(aiter(late.losses()))
            assert (loss.source, loss.reason) == ("mallory", "its signature is missing or wrong")


@live
async def test_over_a_bus_signatures_hold_as_well(keys: Path) -> None:
    sign, signers = at(keys)
    bus = MemoryBus(seed=3, loss_ratio=0.1)
    async with (
        riding.client(bus, "feed", signing=Signing(sign)) as feed,
        riding.client(bus, "desk", signing=Signing(None, signers)) as desk,
    ):
        wanted = desk.subscribe("n >= 0")
        await settled(desk, feed)
        for n in range(60):
            await feed.publish({"n": n})
        await feed.flush()
        assert sorted(values(await take(wanted, 60))) == list(range(60))


def test_what_signatures_do_not_go_with_is_said(keys: Path) -> None:
    sign, signers = at(keys)
    with pytest.raises(MisuseError, match="srm"), holdfast.SyncBroker() as broker:
        holdfast.connect_sync(broker.address, name="feed", sign=sign, recovery=SrmSettings())
    with (
        holdfast.SyncBroker() as broker,
        holdfast.connect_sync(broker.address, verify=signers) as desk,
        pytest.raises(InputError, match="groups"),
    ):
        desk.subscribe("TRUE", group="workers")


def test_an_event_without_room_for_a_proof_is_refused_where_it_is_published(keys: Path) -> None:
    with (
        holdfast.SyncBroker() as broker,
        holdfast.connect_sync(broker.address, name="feed", sign=at(keys)[0]) as feed,
        pytest.raises(InputError, match="too large to be signed"),
    ):
        feed.publish({f"a{each}": each for each in range(256)})

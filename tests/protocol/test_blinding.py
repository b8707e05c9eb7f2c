"""Digests that only those who share a key can read, change or make up."""

from random import Random

import msgspec
import pytest

from holdfast.language.parser import parse
from holdfast.model.errors import PeerError
from holdfast.model.messages import Publication
from holdfast.protocol.records import RecordReader, RecordWriter, Relevance
from holdfast.protocol.records.settings import RecordSettings
from holdfast.protocol.recovery.blinding import Blinding
from holdfast.protocol.recovery.control import Digest, decode_untrusted, encoded
from holdfast.protocol.settings import Order
from tests.protocol.recovering_pair import Pair

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 5_000])
def test_a_record_comes_back_by_any_of_the_keys_and_about_what_it_was(size: int) -> None:
    record = Random(size).randbytes(size)
    blinded = Blinding([KEY]).blinded(record, "feed", 1, 2)
    assert len(blinded) == size + 16
    assert Blinding([KEY]).opened_untrusted(blinded, "feed", 1, 2) == record
    assert Blinding([OTHER, KEY]).opened_untrusted(blinded, "feed", 1, 2) == record
    for keys, about in (([OTHER], ("feed", 1, 2)), ([KEY], ("mallory", 1, 2)), ([KEY], ("feed", 1, 3))):
        with pytest.raises(PeerError):
            Blinding(keys).opened_untrusted(blinded, *about)  # type: ignore[arg-type]


def test_whatever_is_changed_in_a_record_is_noticed() -> None:
    dice, blinding = Random("records"), Blinding([KEY])
    for _ in range(2_000):
        blinded = bytearray(blinding.blinded(dice.randbytes(dice.randrange(200)), "feed", 7))
        if dice.random() < 0.3:
            del blinded[dice.randrange(len(blinded)) :]
        else:
            blinded[dice.randrange(len(blinded))] ^= 1 << dice.randrange(8)
        with pytest.raises(PeerError):
            blinding.opened_untrusted(bytes(blinded), "feed", 7)


def test_two_records_share_no_bytes_by_which_their_contents_could_be_compared() -> None:
    one, other = (Blinding([KEY]).blinded(bytes(400) + bytes([n]), "feed", 1) for n in (1, 2))
    assert sum(a == b for a, b in zip(one, other, strict=True)) < 20  # of 417; by chance every 256th


def told() -> bytes:
    """What a digest tells of forty events."""
    writer = RecordWriter(RecordSettings(), 1, 100)
    for n in range(40):
        writer.add({"symbol": "IBM", "price": 100 + n}, n)
    return writer.digest(1, 40, 50, with_book=True)


def may_have(record: bytes, condition: str) -> bool:
    """Whether somebody who reads a record, and guesses at a value, finds that the guess may be right."""
    read = RecordReader(RecordSettings()).read_untrusted("feed", record, 40, 50)
    assert read.book is not None
    relevance = Relevance([parse(condition)])
    return any(relevance.covers(read.book, code) for _, _, code in read if code is not None)


def test_guesses_at_values_can_be_tested_in_a_plain_record_and_not_in_a_blinded_one() -> None:
    assert may_have(told(), "symbol = 'IBM'") and not may_have(told(), "price < 50")
    with pytest.raises(PeerError):
        may_have(Blinding([KEY]).blinded(told(), "feed", 1, 40, 1, 50), "symbol = 'IBM'")


@pytest.mark.parametrize("order", ["none", "strict"])
def test_clients_who_share_a_key_recover_as_others_do(order: Order) -> None:
    pair = Pair(order, feed_keys=[KEY], desk_keys=[OTHER, KEY])
    for n in range(40):
        pair.publish({"n": n}, is_lost=n % 3 == 1)
        pair.go_on(0.1)
    pair.go_on(20)
    assert sorted(pair.delivered) == list(range(40)) and not pair.lost  # type: ignore[type-var]
    assert "bad_recovery_message" not in pair.incidents and "bad_record" not in pair.incidents


def test_who_has_no_key_gets_the_events_and_learns_nothing_from_digests() -> None:
    pair = Pair(feed_keys=[KEY])
    for n in range(20):
        pair.publish({"n": n}, is_lost=n == 7)
    pair.go_on(10)
    assert pair.delivered == [n for n in range(20) if n != 7]
    assert "bad_recovery_message" in pair.incidents
    seen = [decode_untrusted(each) for each in pair.digests]
    assert {each.last_seq for each in seen if isinstance(each, Digest)} == {20}  # that there are events


def forged(pair: Pair) -> Publication:
    """A digest "of feed" that tells of 50 events which there never were."""
    writer = RecordWriter(RecordSettings(time_unit_us=1_024), 21, 100)
    for n in range(50):
        writer.add({"n": n}, pair.now_us)
    digest = Digest(1, 70, 1, writer.digest(21, 70, pair.now_us, with_book=True))
    last = pair.digests[-1]
    return msgspec.structs.replace(last, time_us=pair.now_us, payload=encoded(digest))


@pytest.mark.parametrize("keys", [[], [KEY]], ids=["plain", "blinded"])
def test_a_forged_digest_makes_nobody_with_the_key_name_losses(keys: list[bytes]) -> None:
    """Without a key it does: the forger succeeds there."""
    pair = Pair(feed_keys=keys, desk_keys=keys)
    for n in range(20):
        pair.publish({"n": n})
    pair.go_on(10)
    assert pair.delivered == list(range(20)) and not pair.lost
    pair.is_dead = True  # nobody answers for what never was
    pair.bring(forged(pair), "original")
    pair.go_on(100)
    assert bool(pair.lost) == (not keys)

"""What subscribers keep for each other: Algorithm 1 with its open ends settled, and limits that hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.messages import Publication
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.event_cache import Ring, Rings, next_length
from holdfast.protocol.recovery.srm.settings import SrmSettings
from tests.protocol.srm_network import D, Room
from tests.protocol.test_srm_requests import EXACT, FOREVER, hear, request

PAPER = SrmSettings()
SECOND = 1_000_000


def event(seq: int, payload: int = 0, source: str = "Z") -> Publication:
    return Publication(source, seq, 0, None, {"x": 1}, bytes(payload), None)


@pytest.mark.parametrize(
    ("length", "closest", "hit_ratio", "while_holding", "expected"),
    [
        (100, False, 0.0, 500, 90),  # who does not repair shrinks, whatever is asked of it
        (100, True, 1.0, 150, 151),  # the formula, at once when it asks for more,
        (100, True, 1.0, 20, 90),  # a tenth at a time when it asks for less
        (100, True, 0.5, 20, 110),  # misses make it grow by a tenth
        (100, True, 0.5, 200, 201),
        (5, False, 1.0, 0, 5),  # K_min
        (200, True, 1.0, 5_000, 300),  # K_max: clamped, where the paper's text would leave it at 200
        (290, True, 0.0, 0, 300),
    ],
)
def test_algorithm_1(length: float, closest: bool, hit_ratio: float, while_holding: float, expected: float) -> None:
    assert next_length(length, closest, hit_ratio, while_holding, PAPER) == pytest.approx(expected)


def test_a_provider_keeps_what_comes_while_requests_are_on_their_way() -> None:
    """20 events a second, a request comes 0.9 s after the event's departure: 0.9 * 20 + 1."""
    ring = Ring(SrmSettings(hit_ratio=0.5))
    ring.adjust(0)
    for _ in range(20):
        ring.on_came()
    ring.on_request(wait_us=600_000, requester_us=200_000, to_requester_us=100_000)
    ring.on_provider(SECOND // 2)
    ring.adjust(SECOND)
    assert ring.length == pytest.approx(19)


def test_the_length_is_looked_at_once_a_second() -> None:
    ring = Ring(SrmSettings(kept_first=100))
    ring.adjust(0)
    for now_us in range(0, 3 * SECOND + 1, SECOND // 10):
        ring.adjust(now_us)
    assert ring.length == pytest.approx(100 * 0.9**3)


def test_an_old_provider_is_none_and_a_nearer_one_takes_over() -> None:
    for forget in (lambda ring: None, lambda ring: ring.on_nearer_provider()):
        ring = Ring(SrmSettings(kept_first=100, hit_ratio=0.5, provider_us=SECOND))
        ring.adjust(0)
        ring.on_provider(0)
        forget(ring)
        ring.adjust(3 * SECOND)
        assert ring.length == pytest.approx(90)


@given(st.lists(st.tuples(st.sampled_from("XYZ"), st.integers(0, 3_000), st.integers(0, 900_000)), max_size=80))
def test_neither_count_nor_bytes_are_ever_exceeded(facts: list[tuple[str, int, int]]) -> None:
    settings = SrmSettings(kept_min=2, kept_first=4, kept_max=9)
    own = {name: Ring(settings) for name in "XYZ"}
    rings = Rings(bytes_max=10_000)
    now_us = 0
    for seq, (source, payload, pause_us) in enumerate(facts):
        now_us += pause_us
        if payload % 3 == 0:
            own[source].on_provider(now_us)
            own[source].on_hit(False)
        rings.add(own[source], event(seq, payload, source), now_us)
        assert rings.bytes <= rings.bytes_max
        assert all(len(ring.kept) == len(ring.order) <= ring.length <= 9 for ring in own.values())
        assert len(rings) == sum(len(ring.kept) for ring in own.values())
    for ring in own.values():
        rings.forget(ring)
    assert (len(rings), rings.bytes) == (0, 0)


def test_the_newest_are_kept() -> None:
    ring, rings = Ring(PAPER), Rings(10**6)
    for seq in range(1, 20):
        rings.add(ring, event(seq), 0)
    assert list(ring.kept) == list(range(15, 20))


def test_a_miss_is_what_we_had_and_keep_no_longer() -> None:
    room = Room("h", settings=SrmSettings(adaptive=False, kept_first=5))
    for seq in range(1, 12):
        room.publish(seq, to=("h",) if seq != 3 else ())
    room.run(D)
    for seq in (1, 2, 10, 11, 3):  # two were evicted, two are there, one was lost by us as well
        hear(room, "h", request(room, seq, "a"))
    assert (room.count(c.MISSES), room.count(c.HITS)) == (2, 2)


def test_who_had_it_and_heard_no_repair_becomes_a_provider_if_so_set() -> None:
    for by_miss, longer in ((True, True), (False, False)):
        room = Room("h", settings=SrmSettings(adaptive=False, provider_by_miss=by_miss))
        for seq in range(1, 12):
            room.publish(seq, to=("h",))
        room.run(D)
        hear(room, "h", request(room, 1, "a"))
        room.run(3 * SECOND)
        room.publish(12, to=("h",))
        room.run(4 * SECOND)
        known = room.nodes["h"].machine._sources.get("Z")
        assert known is not None
        assert (known.ring.length > PAPER.kept_first) == longer
        assert room.times("repair") == []


def test_the_publisher_keeps_nothing_unless_told_to() -> None:
    for settings, kept in ((EXACT, 0), (SrmSettings(publisher_cache=True, published_max=3), 3)):
        room = Room("a", settings=settings)
        for seq in range(1, 9):
            room.publish(seq)
        room.run(FOREVER)
        assert room.publisher.machine.gauges()["own publications kept"][0] == kept

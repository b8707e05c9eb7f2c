"""Who repairs, and for whom: volunteers, designated caches, and repairs that only those get who asked."""

from dataclasses import replace

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.messages import Publication
from holdfast.protocol.recovery.control import KIND, OF, Repair, encoded
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.messages import from_addressed_untrusted
from tests.protocol.srm_network import D, Room
from tests.protocol.test_srm_repairs import one_loss
from tests.protocol.test_srm_requests import EXACT, FOREVER, hear, request

ADDRESSED = replace(EXACT, repairs="addressed")


def test_who_does_not_volunteer_keeps_and_repairs_nothing() -> None:
    room = one_loss("h1", "h2", settings=replace(EXACT, volunteers=0))
    room.run(FOREVER)
    assert room.times("request") and not room.times("repair")
    assert room.nodes["h1"].machine.counts[f"{c.KEPT} at the end"] == 0


def test_about_as_many_volunteer_as_the_share_says() -> None:
    names = [f"h{number}" for number in range(400)]
    room = Room(*names, settings=replace(EXACT, volunteers=0.3))
    room.publish(1, to=tuple(names))
    room.run(2 * D)
    keeping = sum(room.nodes[name].machine.counts[f"{c.KEPT} at the end"] for name in names)
    assert abs(keeping - 120) <= 3 * (400 * 0.3 * 0.7) ** 0.5


def test_a_designated_cache_repairs_what_others_keep_no_longer() -> None:
    settings = replace(EXACT, volunteers=0, caches="store spare", kept_min=1, kept_first=1, kept_max=50)
    room = Room("a", "store", settings=settings)
    for seq in range(1, 31):
        room.publish(seq, to=("store",))
    room.publish(31, to=("a", "store"))
    room.run(FOREVER)
    assert {name for _, name, kind in room.said if kind == "repair"} == {"store"}
    assert sorted(room.nodes["a"].got) == list(range(21, 32))  # as far as the record goes back


def test_an_addressed_repair_reaches_those_who_asked_and_nobody_else() -> None:
    room = Room("a", "b", "h", settings=ADDRESSED)
    room.publish(1, to=("h",))
    room.publish(2, to=("a", "h"))
    room.run(5 * D)
    assert room.times("repair") == [5 * D]
    room.run(6 * D)
    assert room.nodes["a"].got == [2, 1]
    assert room.nodes["b"].got == []


def test_all_who_ask_before_it_is_sent_share_an_addressed_repair() -> None:
    room = Room("a", "b", "h", settings=ADDRESSED)
    room.publish(1, to=("h",))
    room.run(2 * D)
    for name in ("a", "b"):
        hear(room, "h", request(room, 1, name))
    room.run(4 * D)
    assert len(room.times("repair")) == 1


def test_who_asks_after_an_addressed_repair_for_another_gets_its_own() -> None:
    room = Room("a", "b", "h", settings=ADDRESSED)
    room.publish(1, to=("h",))
    room.run(2 * D)
    hear(room, "h", request(room, 1, "a"))
    room.run(4 * D)
    hear(room, "h", request(room, 1, "a"))
    hear(room, "h", request(room, 1, "b"))
    room.run(6 * D)
    assert len(room.times("repair")) == 2


def test_what_is_no_repair_is_refused() -> None:
    attributes = {KIND: "r", OF: "Z"}
    for wrong in (
        Publication("h", 0, 0, None, attributes, b"nonsense"),
        Publication("h", 0, 0, None, attributes, encoded(Repair())),
        Publication("h", 0, 0, None, {KIND: "r"}, encoded(Repair())),
    ):
        with pytest.raises(PeerError):
            from_addressed_untrusted(wrong)

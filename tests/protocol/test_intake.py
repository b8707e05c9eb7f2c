"""Tables that are expensive to take in: cut into slices, charged to who sends them, and taken back when refused."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from holdfast.language.subscription import Filter, Subscription
from holdfast.matching.index import Index
from holdfast.model.large_map import LargeMap
from holdfast.model.messages import Delta, Publication, Publish, Snapshot, TableRefused
from holdfast.protocol import conditions, cover, tree
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.conditions import ConditionBook, Cost
from holdfast.protocol.effects import Effect, Incident, LinkDown, LinkUp, Multicast, Received, Send, Wake
from holdfast.protocol.intake import SLICE_WORK
from holdfast.protocol.interests import Interests
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tree import SLICE
from tests.protocol.wires import bare_broker


def large(number: int) -> str:
    """179 characters that stand for 256 filters of eight tests each."""
    return " AND ".join(f"(a{at} = {number} OR b{at} = {number})" for at in range(8))


class CountingBook(ConditionBook):
    """How many tests were parsed since it was last asked."""

    tests = 0

    def _parse(self, text: str) -> tuple[Subscription, Cost]:
        parsed, cost = super()._parse(text)
        self.tests += sum(1 + len(each) for each in parsed.filters)
        return parsed, cost


class CharactersBook(ConditionBook):
    """How many characters were parsed since it was last asked."""

    characters = 0

    def _parse(self, text: str) -> tuple[Subscription, Cost]:
        self.characters += len(text)
        return super()._parse(text)


def broker(book: ConditionBook, **settings: int) -> CoreBroker:
    made = bare_broker(BrokerParts("b1", "subscriptions", ProtocolSettings(**settings), book, Index, 1, Random(0)))
    made.handle(LinkUp("desk", "client"), 0)
    return made


def wakes(server: CoreBroker, now_us: int) -> list[list[Effect]]:
    """Until it has nothing left to do before its next heartbeat."""
    found = []
    while server.next_due_us() <= now_us:
        now_us += 1
        found.append(server.handle(Wake(), now_us))
    return found


def delivered(server: CoreBroker, now_us: int, **attributes: int) -> bool:
    event = Publish(Publication("desk", now_us, now_us, None, attributes))
    return any(isinstance(each, Multicast) for each in server.handle(Received("desk", event), now_us))


def refusals(effects: list[Effect]) -> list[str]:
    sent = [each.message for each in effects if isinstance(each, Send)]
    return [each.reason for each in sent if isinstance(each, TableRefused)]


@pytest.mark.parametrize("later_us", [0, 1])  # in a simulation, no time passes between two slices
def test_a_table_of_large_conditions_is_taken_in_slices(later_us: int) -> None:
    book = CountingBook()
    server = broker(book)
    server.handle(LinkUp("b2", "broker"), 0)
    most = SLICE_WORK + 256 * 9  # one condition more than a slice
    server.handle(Received("desk", Delta("subscriptions", 2, tuple(map(large, range(40))), ())), 10)
    assert 0 < book.tests <= most
    assert server.heard_summary("desk", "subscriptions") == (0, 0)
    slices, now_us = 0, 10
    while server.next_due_us() <= now_us and slices < 40:
        now_us, book.tests, slices = now_us + later_us, 0, slices + 1
        server.handle(Wake(), now_us)
        assert book.tests <= most
    assert slices >= 40 * 256 * 9 // most - 1
    assert server.heard_summary("desk", "subscriptions")[0] == 2
    assert server.gauges()["filters of a neighbour"][0] == 40 * 256
    assert delivered(server, 100, **{f"b{at}": 39 for at in range(8)})


@pytest.mark.parametrize("start", ["a IN (", "a NOT IN ("])
def test_long_lists_are_charged_by_their_characters_and_not_as_one_test_each(start: str) -> None:
    book = CharactersBook()
    server = broker(book)
    lists = tuple(f"{start}{', '.join(str(10_000 * each + at) for at in range(8_000))})" for each in range(1, 21))
    longest = max(map(len, lists))
    most = 128 * SLICE_WORK + longest  # 128 characters take as long as a test; one condition more than a slice
    server.handle(Received("desk", Delta("subscriptions", 2, lists, ())), 10)
    slices, now_us = 1, 10
    assert longest <= book.characters <= most
    while server.next_due_us() <= now_us:
        now_us, book.characters, slices = now_us + 1, 0, slices + 1
        server.handle(Wake(), now_us)
        assert book.characters <= most
    assert slices >= sum(map(len, lists)) // most
    assert server.heard_summary("desk", "subscriptions")[0] == 2
    assert delivered(server, 100, a=200_007) is True


def test_expressions_are_charged_by_their_parts() -> None:
    book = ConditionBook()
    one, ten = (" OR ".join(f"a + {at} > b * {at}" for at in range(2, 2 + count)) for count in (1, 10))
    assert book.cost(ten).tests >= 10 * 4 * 6  # tests; each comparison has seven parts, and a test takes a fourth
    assert book.cost(one).tests < book.cost(ten).tests / 8


def test_many_messages_in_one_frame_share_a_slice() -> None:
    book = CountingBook()
    server = broker(book)
    changes = [Delta("subscriptions", 2 + number, (large(number),), ()) for number in range(10)]
    server.receive("desk", changes, 10)
    assert book.tests <= SLICE_WORK + 256 * 9
    wakes(server, 10)
    assert server.heard_summary("desk", "subscriptions")[0] == 11


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"filters_max": 1_000}, "1,000 filters of a neighbour's subscriptions (filters_max)"),
        ({"condition_bytes_max": 2**20}, "1,048,576 bytes of a neighbour's subscriptions (condition_bytes_max)"),
    ],
)
def test_what_is_past_a_budget_is_refused_whole_and_the_budget_named(budget: dict[str, int], reason: str) -> None:
    server = broker(ConditionBook(), **budget)
    server.handle(Received("desk", Delta("subscriptions", 2, ("kept = 1",), ())), 5)
    effects = server.handle(Received("desk", Delta("subscriptions", 3, tuple(map(large, range(40))), ())), 10)
    effects += [each for some in wakes(server, 10) for each in some]
    assert refusals(effects) == [f"b1 accepts at most {reason}"]
    assert [each.kind for each in effects if isinstance(each, Incident)] == ["too_many_conditions"]
    assert not delivered(server, 20, **{f"a{at}": 0 for at in range(8)})
    assert delivered(server, 21, kept=1)


def test_a_budget_is_free_again_when_conditions_are_dropped() -> None:
    server = broker(ConditionBook(), filters_max=256)
    server.handle(Received("desk", Delta("subscriptions", 2, (large(1),), ())), 5)
    effects = server.handle(Received("desk", Delta("subscriptions", 3, (large(2),), (large(1),))), 6)
    assert refusals(effects) == []
    assert server.gauges()["filters of a neighbour"] == (256, 256)
    server.handle(Received("desk", Snapshot("subscriptions", 4, ())), 7)
    assert server.gauges()["condition bytes of a neighbour"][0] == 0


def test_a_change_with_a_bad_condition_is_taken_back_even_when_a_part_was_in() -> None:
    server = broker(ConditionBook())
    change = Delta("subscriptions", 2, (*map(large, range(20)), "a ="), ())
    effects = server.handle(Received("desk", change), 10)
    effects += [each for some in wakes(server, 10) for each in some]
    assert [each.kind for each in effects if isinstance(each, Incident)] == ["bad_condition"]
    assert not delivered(server, 20, **{f"a{at}": 0 for at in range(8)})


def test_a_neighbour_that_goes_in_the_middle_of_its_table_leaves_nothing() -> None:
    server = broker(ConditionBook())
    server.handle(Received("desk", Delta("subscriptions", 2, tuple(map(large, range(20))), ())), 10)
    assert delivered(server, 11, **{f"a{at}": 0 for at in range(8)})
    server.handle(LinkDown("desk"), 12)
    server.handle(LinkUp("desk", "client"), 13)
    assert not delivered(server, 14, **{f"a{at}": 0 for at in range(8)})
    assert wakes(server, 14) == []


def test_a_table_of_a_neighbour_that_is_gone_is_dropped_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    server = broker(ConditionBook())
    server.handle(LinkUp("b2", "broker"), 0)
    given, before_us = 20_000, 10
    server.handle(Received("desk", Delta("subscriptions", 2, tuple([f"x = {n}" for n in range(given)]), ())), before_us)
    before_us += len(wakes(server, before_us))
    for version in range(3, 100):  # and some that wait
        server.handle(Received("desk", Delta("subscriptions", version, tuple(map(large, range(20))), ())), before_us)
    looked_at: list[int] = []
    drop = Interests.drop

    def counted(self: Interests, neighbour: str, conditions: list[str]) -> None:
        looked_at[-1] += len(conditions)
        drop(self, neighbour, conditions)

    monkeypatch.setattr(Interests, "drop", counted)
    with monkeypatch.context() as patched:
        listed: list[int] = []
        patched.setattr(LargeMap, "__iter__", lambda self: listed.append(len(self)) or iter(()))
        looked_at.append(0)
        server.handle(LinkDown("desk"), before_us)
        assert max(listed, default=0) == 0
    now_us = before_us
    while server.next_due_us() <= now_us:
        now_us += 1
        looked_at.append(0)
        server.handle(Wake(), now_us)
    assert max(looked_at) <= SLICE
    assert given <= sum(looked_at) <= given + 20
    server.handle(LinkUp("desk", "client"), now_us)
    assert not delivered(server, now_us + 1, x=3)


def test_a_large_table_is_told_and_forgotten_in_slices_when_a_broker_comes_and_goes() -> None:
    server, given, now_us = broker(ConditionBook()), 20_000, 10
    server.handle(Received("desk", Delta("subscriptions", 2, tuple([f"x = {n}" for n in range(given)]), ())), now_us)
    now_us += len(wakes(server, now_us))
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patched:
            walked, freed = [0], [0]

            def counted(keys: Iterator[str], walked: list[int] = walked) -> Iterator[str]:
                for key in keys:
                    walked[-1] += 1
                    yield key

            def popped(self: LargeMap[Any, Any], freed: list[int] = freed, pop: Any = LargeMap.pop_part) -> Any:
                part = pop(self)
                freed[-1] += len(part)
                return part

            patched.setattr(LargeMap, "walked", lambda self, walk=LargeMap.walked: counted(walk(self)))
            patched.setattr(LargeMap, "pop_part", popped)
            effects = server.handle(LinkUp("b3", "broker"), now_us)
            while server.next_due_us() <= now_us:
                now_us += 1
                walked.append(0)
                effects += server.handle(Wake(), now_us)
            messages = [each.message for each in effects if isinstance(each, Send)]
            told = sum(len(each.add) for each in messages if isinstance(each, Delta))
            assert sum(walked) == told == given
            assert max(walked) <= SLICE + 1
            server.handle(LinkDown("b3"), now_us)
            while server.next_due_us() <= now_us:
                now_us += 1
                freed.append(0)
                server.handle(Wake(), now_us)
            assert sum(freed) > 4 * given  # what is told, covered and shelved
            assert max(freed) <= 6_000


def test_what_stood_under_a_condition_is_told_in_slices_before_it_goes() -> None:
    server, narrow = broker(ConditionBook()), tuple([f"x = {n}" for n in range(1_000)])
    server.handle(LinkUp("b2", "broker"), 0)
    server.handle(Received("desk", Delta("subscriptions", 2, ("x >= 0",), ())), 10)
    server.handle(Received("desk", Delta("subscriptions", 3, narrow, ())), 10)
    now_us = 10 + len(wakes(server, 10))
    effects = [server.handle(Received("desk", Delta("subscriptions", 4, (), ("x >= 0",))), now_us)]
    effects += wakes(server, now_us)
    messages = [[each.message for each in some if isinstance(each, Send) and each.to == "b2"] for some in effects]
    told = [[each for each in some if isinstance(each, Delta)] for some in messages]
    assert max(sum(len(each.add) for each in some) for some in told) <= SLICE
    changes = [each for some in told for each in some]
    assert sorted(each for change in changes for each in change.add) == sorted(narrow)
    assert [each for change in changes for each in change.drop] == ["x >= 0"] == list(changes[-1].drop)


class ComparingBook(ConditionBook):
    """How many bytes of conditions were compared since it was last asked."""

    compared = 0

    def covers(self, wide: str, narrow: str) -> bool:
        self.compared += self.cost(wide).filters * self.cost(narrow).bytes
        return super().covers(wide, narrow)


def test_conditions_that_take_long_to_compare_are_compared_in_slices() -> None:
    book = ComparingBook()
    server = broker(book)
    told: list[str] = []
    server.handle(LinkUp("b2", "broker"), 0)
    wanted = tuple([f"a = {n} OR b = {n}" for n in range(600)])
    effects = server.handle(Received("desk", Delta("subscriptions", 2, wanted, ())), 10)
    now_us, slices = 10, 0
    while server.next_due_us() <= now_us:
        assert book.compared <= tree._COMPARED_BYTES + 2 * cover._WORK_MAX
        now_us, slices, book.compared = now_us + 1, slices + 1, 0
        effects += server.handle(Wake(), now_us)
    for each in effects:
        if isinstance(each, Send) and isinstance(each.message, Delta):
            told += each.message.add
    assert sorted(told) == sorted(wanted)
    assert slices > 600 // SLICE


def test_parsed_conditions_are_forgotten_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "_PARSED_BYTES_MAX", 4_000_000)
    book, most = ConditionBook(), 0
    for number in range(30_000):
        before = len(book._parsed)
        book.subscription(f"x = {number}")
        most = max(most, before - len(book._parsed))
    assert 10_000 < len(book._parsed) < 13_000  # 336 bytes each
    assert most < 100


def test_a_neighbour_with_a_long_table_does_not_keep_another_one_waiting() -> None:
    server = broker(ConditionBook())
    server.handle(LinkUp("phone", "client"), 0)
    server.receive("desk", [Delta("subscriptions", 2, tuple(map(large, range(20))), ())], 10)
    server.receive("phone", [Delta("subscriptions", 2, ("kept = 1",), ())], 10)  # in the same slice, which is used up
    server.handle(Wake(), 11)
    server.handle(Wake(), 12)
    assert server.heard_summary("phone", "subscriptions")[0] == 2
    assert server.heard_summary("desk", "subscriptions") == (0, 0)


class CountingIndex(Index[str]):
    """How many conditions were taken out since it was last asked."""

    removed = 0

    def remove(self, key: str, filters: Sequence[Filter]) -> None:
        self.removed += 1
        super().remove(key, filters)


def with_long_table() -> tuple[CoreBroker, CountingIndex]:
    index = CountingIndex()
    parts = BrokerParts("b1", "subscriptions", ProtocolSettings(), ConditionBook(), lambda: index, 1, Random(0))
    made = bare_broker(parts)
    made.handle(LinkUp("desk", "client"), 0)
    made.handle(LinkUp("b2", "broker"), 0)
    made.handle(LinkUp("phone", "client"), 0)
    made.handle(Received("phone", Delta("subscriptions", 2, ("x = 1",), ())), 1)
    made.handle(Received("b2", Delta("subscriptions", 2, tuple(f"x = {n}" for n in range(1_000)), ())), 2)
    wakes(made, 2)
    return made, index


def receivers(server: CoreBroker, now_us: int, **attributes: int) -> list[str]:
    event = Publish(Publication("desk", now_us, now_us, None, attributes))
    found = server.handle(Received("desk", event), now_us)
    return [name for each in found if isinstance(each, Multicast) for name in each.to]


def test_a_neighbour_that_goes_with_a_long_table_is_forgotten_in_slices() -> None:
    server, index = with_long_table()
    assert receivers(server, 10, x=1) == ["b2", "phone"]
    server.handle(LinkDown("b2"), 20)
    now_us, slices = 20, 0
    while server.next_due_us() <= now_us:
        assert receivers(server, now_us, x=1) == ["phone"]
        assert receivers(server, now_us, x=7) == []
        now_us, slices, before = now_us + 1, slices + 1, index.removed
        server.handle(Wake(), now_us)
        assert index.removed - before <= SLICE
    assert slices >= 1_000 // SLICE
    assert index.removed == 999  # all but what the phone wants
    assert receivers(server, now_us, x=1) == ["phone"]


def test_a_neighbour_that_comes_back_meanwhile_has_what_it_wants_then() -> None:
    server, index = with_long_table()
    server.handle(LinkDown("b2"), 20)
    server.handle(Wake(), 21)
    server.handle(LinkUp("b2", "broker"), 22)
    server.handle(Received("b2", Delta("subscriptions", 2, ("x = 3", "x = 999"), ())), 23)
    wakes(server, 23)
    assert [receivers(server, 3_000 + x, x=x) for x in (3, 999, 4)] == [["b2"], ["b2"], []]
    assert index.removed >= 997

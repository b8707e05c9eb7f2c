"""The index of compiled levels answers like the scan, whatever is compiled, on its way, added or removed."""

import random
from datetime import UTC, datetime
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from holdfast import parse
from holdfast.matching import levels
from holdfast.matching.levels import Levels
from holdfast.matching.scan import Scan
from holdfast.model.event import attributes_of
from tests.language.generators import condition, conditions, event, events
from tests.matching.test_agreement import Event, Pair


@settings(max_examples=60)
@given(st.lists(conditions(), min_size=2, max_size=40), st.lists(events(), min_size=1, max_size=12))
def test_compiled_levels_answer_single_events_like_the_scan(texts: list[str], asked: list[Event]) -> None:
    with mock.patch.object(levels, "RECENT_MAX", 1):
        pair = Pair()
        for text in texts:
            pair.add(text)
        pair.agree_live(asked)


class Watched:
    def __init__(self, threaded: bool) -> None:
        self.index: Levels[str] = Levels(threaded)
        self.scan = Scan()
        self.texts: dict[str, str] = {}

    def add(self, key: str, text: str) -> None:
        self.texts[key] = text
        self.index.add(key, parse(text).filters)
        self.index.mark(key, parse(text).filters, 1 << len(self.texts) % 60)
        self.scan.add(key, parse(text))

    def remove(self, key: str) -> None:
        self.index.remove(key, parse(self.texts.pop(key)).filters)
        self.scan.remove(key)

    def agree(self, asked: list[Event]) -> None:
        flat = [attributes_of(each) for each in asked]
        expected = [sorted(self.scan.match(each)) for each in asked]
        assert [sorted(each) for each in self.index.match_each(flat)] == expected
        assert sorted(self.index.match(flat[0])) == expected[0]


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_levels_merge_and_lose_keys_and_still_answer_like_the_scan(seed: int, threaded: bool) -> None:
    dice = random.Random(seed)
    watched = Watched(threaded)
    with (
        mock.patch.object(levels, "RECENT_MAX", 4),
        mock.patch.object(levels, "_TIER", 3),
        mock.patch.object(levels, "_THREADED_MAX", 20),
    ):
        for step in range(60):
            for number in range(dice.randrange(6)):
                watched.add(f"{step}.{number}", condition(dice))
            for key in dice.sample(list(watched.texts), min(len(watched.texts), dice.randrange(4))):
                watched.remove(key)
            watched.agree([event(dice) for _ in range(3)])
        for key in list(watched.texts):
            watched.remove(key)
            if dice.random() < 0.1:
                watched.agree([event(dice)])
    watched.agree([event(dice)])


@pytest.mark.parametrize("text", ["a >= {0}", "a >= {0} AND b = 1 OR a >= {1} AND c = 1"])
def test_many_matches_of_a_run_are_told_apart_by_event(text: str) -> None:
    watched = Watched(threaded=False)
    for number in range(levels.RECENT_MAX + 1):
        watched.add(str(number), text.format(number, number + 1))
    asked: list[Event] = [{"a": number, "b": number % 2, "c": number % 3} for number in range(0, 300, 7)]
    watched.agree(asked)
    for number in range(0, 200, 3):
        watched.remove(str(number))
    watched.agree(asked)
    assert watched.index.levels


def test_a_run_longer_than_a_call_is_answered_event_by_event() -> None:
    watched = Watched(threaded=False)
    for number in range(levels.RECENT_MAX + 1):
        watched.add(str(number), f"a >= {number} AND a < {number + 3}")
    watched.agree([{"a": number} for number in range(200)])
    assert watched.index.levels


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a >= 9007199254740993", 9007199254740993),  # not a double
        ("a >= 9007199254740993", 9007199254740992.0),
        ("a < 9007199254740993", 9007199254740992),
        ("a > 9007199254740992", 9007199254740993),
        ("a <= 18446744073709551615", 18446744073709551615),
        ("a > 9223372036854775807", 18446744073709551615),
        ("a <> 1", float("nan")),
        ("a = 1", True),
        ("a = TRUE", True),
        ("a = TRUE", 1),
        ("a < 2.5", 2),
        ("a >= TIMESTAMP '9998-01-01 00:00:00Z'", datetime(9999, 1, 1, tzinfo=UTC)),
        ("a < TIMESTAMP '2026-01-01 00:00:00Z'", datetime(2025, 12, 31, 23, 59, 59, 999_999)),
        ("a IS NULL", None),
        ("a IS NOT NULL", "x"),
        ("a > 'é'", "\ud800"),
        ("a LIKE '%x_'", "axé"),
    ],
)
def test_values_at_the_edge_of_their_type_are_placed_exactly(text: str, value: object) -> None:
    watched = Watched(threaded=False)
    watched.add("asked", text)
    watched.add("other", "b = 1")
    with mock.patch.object(levels, "RECENT_MAX", 1):
        watched.agree([{"a": value}])
        assert watched.index.levels

"""The index of compiled levels answers like the scan, whatever is compiled, on its way, added or removed."""

import gc
import random
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from holdfast import parse
from holdfast.matching import collector, few, levels
from holdfast.matching.levels import Levels
from holdfast.matching.recent import Recent
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
        self.bits: dict[str, int] = {}

    def add(self, key: str, text: str) -> None:
        self.texts[key] = text
        self.index.add(key, parse(text).filters)
        self.mark(key, 1 << len(self.texts) % 60)
        self.scan.add(key, parse(text))

    def mark(self, key: str, bits: int) -> None:
        self.bits[key] = bits
        self.index.mark(key, parse(self.texts[key]).filters, bits)

    def remove(self, key: str) -> None:
        self.index.remove(key, parse(self.texts.pop(key)).filters)
        self.scan.remove(key)

    def agree(self, asked: list[Event]) -> None:
        flat = [attributes_of(each) for each in asked]
        expected = [sorted(self.scan.match(each)) for each in asked]
        assert [sorted(each) for each in self.index.match_each(flat)] == expected
        assert sorted(self.index.match(flat[0])) == expected[0]
        marks = [reduce(or_, [self.bits[key] for key in keys], 0) for keys in expected]
        assert self.index.marks_each(flat) == marks
        assert self.index.marks(flat[0]) == marks[0]


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
            for key in dice.sample(list(watched.texts), min(len(watched.texts), dice.randrange(4))):
                watched.mark(key, dice.getrandbits(80) if seed else 1 << dice.randrange(3))  # many that differ, and few
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


def test_a_level_that_was_compiled_before_anything_was_marked_has_the_bits_then() -> None:
    index: Levels[str] = Levels()
    filters = {str(number): parse(f"a = {number}").filters for number in range(levels.RECENT_MAX + 1)}
    for key, each in filters.items():
        index.add(key, each)
    index.match({"a": 3})
    assert index.levels
    for number, (key, each) in enumerate(filters.items()):
        index.mark(key, each, 1 << number)
    assert index.marks_each([{"a": 3}, {"a": 9}, {"a": -1}]) == [1 << 3, 1 << 9, 0]


def test_bits_that_nobody_has_any_more_are_forgotten() -> None:
    watched = Watched(threaded=False)
    for number in range(levels.RECENT_MAX + 1):
        watched.add(str(number), f"a >= {number}")
    watched.agree([{"a": 7}])
    for bits in range(1, 3_000):
        watched.mark(str(bits % 5), bits << 40)
    watched.agree([{"a": number} for number in range(8)])


@pytest.mark.parametrize("large", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 10.0**17, 2**53])
def test_numbers_that_are_taken_at_once_stay_exact(large: float) -> None:
    watched = Watched(threaded=False)
    for number in range(levels.RECENT_MAX + 1):
        watched.add(str(number), f"a >= {number} AND b < {2**53} AND c > {-(2**53)} AND d <> {number}")
        watched.add(f"exactly {number}", f"a >= {number} AND b <= {2**53} AND c >= {-(2**53)} AND d <> {2**53}")
    watched.agree([{"a": 9, "b": 1, "c": 2, "d": 3}, {"a": 9, "b": large, "c": large, "d": large}, {"a": 2, "b": 1}])
    watched.agree([{"a": 9, "b": True, "c": 2, "d": 3}, {"a": "9", "b": 1, "c": 2, "d": 3}, {"a": 1, "b": 1, "c": 2}])
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
        watched.agree([{"a": value}, {}] * 10)  # values of one kind are taken together,
        watched.agree(
            [{"a": value}, {"a": "x"}, {"a": 1}, {"a": False}, {"b": 1}, {"a": [1]}] * 4
        )  # and those of several


def test_a_broker_has_used_every_kernel_before_its_first_event_needs_one() -> None:
    """Else that event would wait for numba, seconds with a cold cache, and the whole broker with it."""
    from holdfast.matching import kernels, placing
    from holdfast.matching.few import use_every_kernel

    def variants() -> dict[str, int]:
        kernel = (kernels.match_few, placing.place_numbers, placing.place_texts)
        return {each.__name__: len(each.signatures) for each in kernel}

    use_every_kernel()
    ready = variants()
    assert all(ready.values())
    texts = [f"n < {at} AND t = 'S{at % 3}' AND m > {at}" for at in range(600)]
    texts += [f"p LIKE 'a%{at}%'" for at in range(40)] + ["n = 9007199254740993", "b = TRUE", "x IS NOT NULL"]
    level = levels.compiled({text: parse(text).filters for text in texts})
    asked = [{"n": 1, "t": "S1", "m": 2.5}, {"n": 2**63 + 1}, {"n": -(2**60), "p": "ax1"}, {"b": True, "x": "é"}]
    for one in asked:
        level.few().match([attributes_of(one)])
    assert variants() == ready


def test_what_changed_while_a_level_was_made_is_caught_up_with_in_slices() -> None:
    """It may be a whole table, of a neighbour that is gone."""
    keys = [f"a = {number}" for number in range(300)]
    marks = dict.fromkeys(keys, 1)
    filters: dict[str, levels.Filters] = {key: parse(key).filters for key in keys}
    job: levels._Job[str] = levels._Job(Recent(at_once=True), [], iter([filters]), marks)
    job.run()
    job.removed.extend(keys[:100])
    marks[keys[200]] = 6
    job.marked.append(keys[200])
    assert not job.catch_up(60)
    assert job.levels[0].size == 240
    assert not job.catch_up(40)
    assert job.catch_up(40)
    out = [0, 0, 0]
    job.levels[0].collect_marks([{"a": 5}, {"a": 150}, {"a": 200}], out, marks)
    assert out == [0, 1, 6]


@pytest.mark.parametrize("is_ours", [False, True])
def test_only_a_process_of_its_own_keeps_the_garbage_collector_from_conditions(
    is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_is_ours", is_ours)
    monkeypatch.setattr(levels, "_YOUNG_MAX", 4)
    index: Levels[int] = Levels(threaded=True)
    gc.unfreeze()
    try:
        for number in range(5):
            index.add(number, parse(f"a = {number}").filters)
        assert (gc.get_freeze_count() > 0) == is_ours
        gc.unfreeze()
        for number in range(2):  # one filter each, and as many objects as several
            index.add(-number, parse(f"a + {number} > b").filters)
        assert (gc.get_freeze_count() > 0) == is_ours
        gc.unfreeze()
        for _ in range(9):  # that may make garbage, and no more than before is kept
            index.remove(1)
            index.add(1, parse("a = 1").filters)
        assert gc.get_freeze_count() == 0
        for number in range(5):  # of many that go, others are made in between
            index.remove(number)
        assert (gc.get_freeze_count() > 0) == is_ours
    finally:
        gc.unfreeze()


def test_runs_are_asked_in_parts_where_conditions_name_many_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_CELLS_MAX", 1_000)
    watched = Watched(threaded=False)
    for number in range(levels.RECENT_MAX + 1):
        watched.add(str(number), f"a{number} >= {number}")
    watched.agree([{f"a{at}": number for at in range(number, 300)} for number in range(20)])
    assert watched.index.levels[0].rows_max == 1_000 // (levels.RECENT_MAX + 1)


@pytest.mark.parametrize("marked", [1, 70])
def test_events_that_match_nearly_everything_take_no_more_memory_together_than_one_by_one(
    monkeypatch: pytest.MonkeyPatch, marked: int
) -> None:
    monkeypatch.setattr(few, "_PAIRS_MAX", few._ROOM)
    watched = Watched(threaded=False)
    for number in range(levels.RECENT_MAX + 44):
        watched.add(str(number), f"a >= {number}")
        watched.mark(str(number), 1 << number % marked)
    watched.agree([{"a": 250 + number} for number in range(90)])
    (level,) = watched.index.levels
    assert level.few()._found.size == few._ROOM

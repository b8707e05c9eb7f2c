"""Three matchers, one semantics: whatever the conditions and events, index and columns answer like the scan."""

import random
from collections.abc import Mapping
from datetime import datetime

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from holdfast import Matcher, parse
from holdfast.matching.index import Index
from holdfast.matching.scan import Scan
from holdfast.model.event import attributes_of
from tests.language.generators import condition, conditions, event, events

Event = Mapping[str, object]


class Pair:
    """A matcher and the scan that judges it, always given the same subscriptions."""

    def __init__(self) -> None:
        self.matcher = Matcher()
        self.scan = Scan()
        self.ids: list[int] = []
        self.next_id = 0

    def add(self, condition: str) -> None:
        subscription = parse(condition)
        self.matcher.add(self.next_id, subscription)
        self.scan.add(self.next_id, subscription)
        self.ids.append(self.next_id)
        self.next_id += 1

    def remove(self, position: int) -> None:
        id_ = self.ids.pop(position % len(self.ids))
        self.matcher.remove(id_)
        self.scan.remove(id_)

    def agree_live(self, asked: list[Event]) -> None:
        for each in asked:
            found = self.matcher.match(each)
            assert len(found) == len(set(found))
            assert sorted(found) == self.scan.match(each), each

    def agree_batch(self, asked: list[Event]) -> None:
        for table in tables_of(asked):
            pairs = self.matcher.match_batch(table)
            found = sorted(zip(pairs["event"].to_pylist(), pairs["subscription"].to_pylist(), strict=True))
            expected = [(row, id_) for row, each in enumerate(table.to_pylist()) for id_ in self.scan.match(each)]
            assert found == expected, table.to_pylist()


def tables_of(asked: list[Event]) -> list[pa.Table]:
    """Typed tables that hold the events' values: a column has one type, so each event goes with those of its kind."""
    by_types: dict[tuple[tuple[str, pa.DataType], ...], list[Event]] = {}
    for each in asked:
        key = tuple((name, _arrow_type(value)) for name, value in each.items() if value is not None)
        by_types.setdefault(key, []).append(each)
    return [
        pa.table({name: pa.array([each[name] for each in alike], kind) for name, kind in key})
        for key, alike in by_types.items()
    ]


def _arrow_type(value: object) -> pa.DataType:
    if isinstance(value, list):
        kinds = [_arrow_type(each) for each in value if each is not None]
        return pa.list_(pa.float64() if pa.float64() in kinds else kinds[0] if kinds else pa.string())
    if isinstance(value, datetime):
        return pa.timestamp("us", "UTC")
    if isinstance(value, int) and value >= 2**63:
        return pa.uint64()
    return pa.scalar(value).type


@settings(max_examples=150)
@given(st.lists(conditions(), max_size=40), st.lists(events(), min_size=1, max_size=12))
def test_the_live_index_answers_like_the_scan(texts: list[str], asked: list[Event]) -> None:
    pair = Pair()
    for text in texts:
        pair.add(text)
    pair.agree_live(asked)


@given(st.lists(conditions(), max_size=5), st.lists(events(), min_size=1, max_size=12))
def test_many_events_at_once_are_answered_like_each_of_them(texts: list[str], asked: list[Event]) -> None:
    index: Index[int] = Index()
    for id_, text in enumerate(texts):
        index.add(id_, parse(text).filters)
    flat = [attributes_of(each) for each in asked]
    assert index.match_each(flat) == [index.match(each) for each in flat]


@settings(max_examples=100)
@given(st.lists(conditions(), max_size=60), st.lists(events(), min_size=1, max_size=12))
def test_the_columns_answer_like_the_scan(texts: list[str], asked: list[Event]) -> None:
    pair = Pair()
    for text in texts:
        pair.add(text)
    pair.agree_batch(asked)


@settings(max_examples=60)
@given(st.data(), st.lists(conditions(), min_size=1, max_size=30), st.lists(events(), min_size=1, max_size=6))
def test_changes_between_questions_are_seen_by_both(data: st.DataObject, texts: list[str], asked: list[Event]) -> None:
    pair = Pair()
    for text in texts:
        pair.add(text)
    for _ in range(3):
        pair.agree_live(asked)
        pair.agree_batch(asked)
        for position in data.draw(st.lists(st.integers(0, 1_000), max_size=6)):
            if pair.ids:
                pair.remove(position)
        for text in data.draw(st.lists(conditions(), max_size=6)):
            pair.add(text)
    for _ in range(len(pair.ids)):
        pair.remove(0)
    assert pair.matcher.match(asked[0]) == []


@pytest.mark.parametrize("seed", range(12))
def test_hundreds_of_conditions_answer_like_the_scan_through_changes(seed: int) -> None:
    dice = random.Random(seed)
    pair = Pair()
    for _ in range(dice.choice([20, 200, 600])):
        pair.add(condition(dice))
    for _ in range(3):
        asked = [event(dice) for _ in range(40)]
        pair.agree_live(asked)
        pair.agree_batch(asked)
        for _ in range(min(dice.randrange(15), len(pair.ids))):
            pair.remove(dice.randrange(1_000))
        for _ in range(dice.randrange(15)):
            pair.add(condition(dice))


@pytest.mark.parametrize("seed", range(4))
def test_large_buckets_answer_like_the_scan(seed: int) -> None:
    """Hundreds of filters in one bucket take the ways that few do not: runs and bitmaps."""
    dice = random.Random(seed)
    pair = Pair()
    for _ in range(400):
        low, wide, word = dice.randrange(10), dice.randrange(10), chr(97 + dice.randrange(10))
        shapes = [
            f"a > {low}",
            f"a > {low} AND b < {wide}",
            f"a BETWEEN {low} AND {low + wide} AND flag",
            f"x > {low} AND x <= {low + 3.5} OR a = {low}",
            f"a <> {low} AND b > {low} AND x < {dice.random() * 10}",
            f"s >= '{word}' AND a < {low + 2}",
            f"s LIKE '%{word}%' AND a < {low}",
        ]
        pair.add(dice.choice(shapes))
    asked = [
        {"a": dice.randrange(12), "b": dice.randrange(12), "x": dice.random() * 12, "flag": True, "s": "abc"[: n % 4]}
        for n in range(40)
    ]
    pair.agree_live(asked)
    pair.agree_batch(asked)

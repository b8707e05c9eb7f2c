"""Expressions are asked last: only of events that pass the constraints, and of nobody who has none."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import Matcher, parse
from holdfast.matching.index import Index
from holdfast.matching.residuals import to_index


class Watched(Mapping[str, object]):
    """An event that counts who looks at an attribute."""

    def __init__(self, **attributes: object) -> None:
        self.attributes = attributes
        self.looks: list[str] = []

    def __getitem__(self, name: str) -> object:
        self.looks.append(name)
        return self.attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)


def test_an_event_that_fails_a_constraint_is_not_worked_out() -> None:
    index: Index[int] = Index()
    for number in range(50):
        index.add(number, parse(f"symbol = 's{number}' AND cost / amount > 3").filters)
    event = Watched(symbol="s7", cost=20, amount=5)
    assert index.match(event) == [7]  # type: ignore[arg-type]
    assert event.looks.count("cost") <= 3  # once to see that it is there, once to divide; not fifty times


def test_conditions_without_expressions_are_indexed_as_they_are() -> None:
    filters = parse("a = 1 AND b > 2 OR c").filters
    assert to_index(filters) is filters


def test_filters_that_differ_in_expressions_alone_come_and_go() -> None:
    index: Index[str] = Index()
    texts = {"x": "a = 1 AND b > c OR a = 1 AND b < d", "y": "a = 1 AND b > c", "z": "a = 1", "w": "b > c OR a = 1"}
    for key, text in texts.items():
        index.add(key, parse(text).filters)
    assert sorted(index.match({"a": 1, "b": 5, "c": 3})) == ["w", "x", "y", "z"]
    assert sorted(index.match({"a": 1, "b": 5, "d": 9})) == ["w", "x", "z"]
    assert sorted(index.match({"b": 5, "c": 3})) == ["w"]
    for key, text in texts.items():
        index.remove(key, parse(text).filters)
    assert index.match({"a": 1, "b": 5, "c": 3, "d": 9}) == []


@pytest.fixture
def matcher() -> Matcher:
    made = Matcher()
    made.add("cost", "price * amount > 1000 AND symbol = 'IBM'")
    made.add("never there", "nowhere > price")
    made.add("late", "TIMESTAMPDIFF(SECOND, sent, home.got) > 5")
    made.add("plain", "price > 5")
    made.add("default", "COALESCE(nowhere, price) = 1")
    return made


TABLE = pa.table(
    {
        "symbol": pa.array(["IBM", "IBM", None]).dictionary_encode(),
        "price": [500, 1, 1000],
        "amount": pa.array([3.5, None, 4.0]),
        "sent": pa.array([0, 0, None], pa.timestamp("ns")),
        "home": [{"got": 6_000_000}, {"got": 5_999_999}, {"got": 9}],
    }
)
HOME = pa.array([{"got": each["got"]} for each in TABLE["home"].to_pylist()], pa.struct([("got", pa.int64())]))
TABLE = TABLE.set_column(4, "home", pa.StructArray.from_arrays([HOME.field(0).cast(pa.timestamp("us"))], ["got"]))
PAIRS = [(0, "cost"), (0, "late"), (0, "plain"), (1, "default"), (2, "plain")]


def pairs(found: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))


def test_a_table_is_asked_for_what_expressions_look_at(matcher: Matcher) -> None:
    assert pairs(matcher.match_batch(TABLE)) == PAIRS
    assert pairs(matcher.match_batch(TABLE, threads=2)) == PAIRS


def test_a_saved_matcher_has_its_expressions(matcher: Matcher, tmp_path: Path) -> None:
    matcher.save(tmp_path / "m")
    again = Matcher.open(tmp_path / "m")
    assert pairs(again.match_batch(TABLE)) == PAIRS
    again.remove("cost")
    again.add("more", "amount < price")
    assert pairs(again.match_batch(TABLE)) == sorted([*PAIRS[1:], (0, "more"), (2, "more")])
    assert sorted(again.match({"price": 10, "amount": 2})) == ["more", "plain"]

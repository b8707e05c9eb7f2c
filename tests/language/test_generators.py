"""The generators are worth using: conditions and events meet often enough, and not always."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import parse
from holdfast.model.values import kind_of
from tests.language.generators import SQL_ATTRIBUTES, Event, condition, conditions, event, events, row

LOW, HIGH = 0.1, 0.6


def match_rate(texts: Sequence[str], seen: Sequence[Event]) -> float:
    subscriptions = [parse(text) for text in texts]
    matches = sum(each.matches(one) for each in subscriptions for one in seen)
    return matches / (len(texts) * len(seen))


def test_conditions_and_events_meet() -> None:
    dice = Random("meet")
    seen = [event(dice) for _ in range(100)]
    assert LOW < match_rate([condition(dice) for _ in range(500)], seen) < HIGH


def test_sql_conditions_and_rows_meet() -> None:
    dice = Random("meet in SQL")
    rows = [row(dice) for _ in range(100)]
    assert LOW < match_rate([condition(dice, SQL_ATTRIBUTES, sql=True) for _ in range(500)], rows) < HIGH


def test_drawn_conditions_and_events_meet() -> None:
    pairs: Counter[bool] = Counter()

    @settings(max_examples=200)
    @given(conditions(), st.lists(events(), min_size=5, max_size=5))
    def count(text: str, seen: list[Event]) -> None:
        pairs.update(map(parse(text).matches, seen))

    count()
    assert LOW < pairs[True] / pairs.total() < HIGH


def test_few_conditions_never_match_and_few_always_do() -> None:
    dice = Random("extremes")
    seen = [event(dice) for _ in range(200)]
    rates = [match_rate([condition(dice)], seen) for _ in range(300)]
    assert rates.count(0) < 75
    assert rates.count(1) < 15


def test_every_way_to_write_a_test_comes_up() -> None:
    dice = Random("every way")
    written = "\n".join(condition(dice) for _ in range(1_000)).upper()
    for word in ("AND", "OR", "NOT (", "BETWEEN", "NOT BETWEEN", "IN (", "NOT IN", "LIKE", "NOT LIKE", "ESCAPE"):
        assert word in written
    for word in ("IS NULL", "IS NOT NULL", "TRUE", "FALSE", "TIMESTAMP", '"ODD ""NAME"""', "HOME.RATIO", "!=", "<>"):
        assert word in written


def test_events_hold_what_is_hard_to_get_right() -> None:
    dice = Random("hard")
    seen = [event(dice) for _ in range(2_000)]
    values = [value for each in seen for value in each.values()]
    shown = set(map(repr, values))
    assert {"None", "nan", "inf", "-inf", "-0.0", "''", "True", str(2**53 + 1), str(2**63), str(2**64 - 1)} <= shown
    assert any(isinstance(value, str) and max(value, default="") > "\uffff" for value in values)
    assert any("price" not in each for each in seen)
    assert any(isinstance(each.get("price"), str) for each in seen)


def test_rows_are_typed() -> None:
    dice = Random("typed")
    for each in [row(dice) for _ in range(200)]:
        for attribute in SQL_ATTRIBUTES:
            value = each[attribute.name]
            assert value is None or kind_of(value) is attribute.kind

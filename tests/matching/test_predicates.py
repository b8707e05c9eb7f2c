"""A filter as a function says what the filter says."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from holdfast.language.parser import parse
from holdfast.language.subscription import holds
from holdfast.matching.predicates import predicate, predicate_of_each

MOMENT = datetime(2020, 1, 1, tzinfo=UTC)
VALUES: list[Any] = [
    None, 0, 1, 5, 5.0, -0.0, 4.999, 2**53 + 1, 2.0**53, float("nan"), float("inf"),
    "5", "", "IBM", "é", True, False, MOMENT,
]  # fmt: skip
CONDITIONS = [
    *[
        f"a {op} {operand}"
        for op, operand in product(["=", "<>", "<", "<=", ">", ">="], ["5", "9007199254740993", "'IBM'"])
    ],
    "a = TRUE",
    "a < TIMESTAMP '2021-01-01 00:00:00'",
    "a IN (1, 5)",
    "a NOT IN ('5', 'IBM')",
    "a LIKE 'I%'",
    "a NOT LIKE '%M'",
    "a IS NULL",
    "a IS NOT NULL",
    "a > 0 AND a < 5.5 AND b = 1",
    "a <> 4 AND b <> 2",
    "a <> 0 AND a <> 2 AND a > -9 AND a < 99 AND b = 1 AND b <> 7",
    "a LIKE '_%' AND a <> 'IBM' AND b <= 1",
    "TRUE",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_predicate_agrees_with_the_filter(condition: str) -> None:
    for filter_ in parse(condition).filters:
        test = predicate(filter_)
        events = [event for value in VALUES for event in ({"a": value}, {"a": value, "b": 1}, {})]
        for event in events:
            assert test(event) == holds(filter_, event), event
        assert predicate_of_each(filter_)(events, "yes", "no") == ["yes" if test(each) else "no" for each in events]

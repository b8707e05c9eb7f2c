"""Comparisons of arithmetic written as one function say what their parts say, and no range misses a match."""

import math
from random import Random

import pytest

from holdfast import covers, parse
from holdfast.language import numbers
from holdfast.language.constraint import IS_TRUE
from holdfast.language.subscription import Subscription, holds, necessary

CONSTANTS = ("2", "-3", "0.5", "1e-3", "1000", "7", "-0.25", "1e-160", "9007199254740991", "0", "1e15", "-1")
VALUES = (0, 1, -1, 2.5, 1e300, 2**53 + 1, -(2**63), 2**64 - 1, math.inf, math.nan, True, "x", None, 1e-320, [1])


def chain(dice: Random, steps: int) -> str:
    if steps == 0:
        return "x"
    inner, constant = chain(dice, steps - 1), dice.choice(CONSTANTS)
    shapes = (
        "({0}) + {1}",
        "({0}) - {1}",
        "{1} - ({0})",
        "({0}) * {1}",
        "({0}) / {1}",
        "-({0})",
        "ABS({0})",
        "{1} / ({0})",
    )
    return dice.choice(shapes).format(inner, constant)


def drawn(seed: str) -> list[str]:
    dice = Random(seed)
    signs = ("<", "<=", ">", ">=", "=", "<>")
    return [f"{chain(dice, dice.randint(1, 4))} {dice.choice(signs)} {dice.choice(CONSTANTS)}" for _ in range(1_500)]


def asked(condition: Subscription, dice: Random) -> list[dict[str, object]]:
    """Events with nasty values, and with those just beside the edges of the range that is implied."""
    found: list[object] = [*VALUES, dice.uniform(-10, 10), dice.randint(-2_000, 2_000), 10.0 ** dice.randint(-15, 18)]
    for filter_ in condition.filters:
        for each in necessary(filter_):
            if type(each.operand) in (int, float):
                edge = float(each.operand)
                found += [
                    edge,
                    math.nextafter(edge, math.inf),
                    math.nextafter(edge, -math.inf),
                    edge + 1e-9,
                    edge - 1e-9,
                ]
    return [{"x": value} for value in found]


def test_what_passes_a_test_passes_the_range_that_it_implies() -> None:
    dice, ranged = Random("edges"), 0
    for text in drawn("ranges"):
        condition = parse(text)
        for filter_ in condition.filters:
            ranged += any(each.op in ("<=", ">=") for each in necessary(filter_))
            for event in asked(condition, dice):
                assert not condition.matches(event) or holds(necessary(filter_), event), (text, event)  # type: ignore[arg-type]
    assert ranged > 300


def test_a_written_comparison_says_what_its_parts_say(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = drawn("written")
    quick = [parse(text) for text in texts]
    monkeypatch.setattr(numbers, "_PARTS_MAX", 0)
    dice = Random("values")
    for text, condition in zip(texts, quick, strict=True):
        slow = parse(text)
        for event in asked(condition, dice):
            assert condition.matches(event) == slow.matches(event), (text, event)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("price * 2 < 10", None, 5),
        ("10 > 2 * price", None, 5),
        ("7 - price / 4 <= 5", 8, None),
        ("ABS(price - 1) < 3", -2, 4),
        ("-(price + 1) = 4", -5, -5),
        ("price * price < 10", None, None),
        ("ABS(price) > 3", None, None),
        ("10 / price < 5", None, None),
    ],
)
def test_the_range_is_the_one_that_arithmetic_gives(text: str, low: float | None, high: float | None) -> None:
    (filter_,) = parse(text).filters
    assert filter_[-1].op == IS_TRUE
    edges = {each.op: each.operand for each in necessary(filter_) if each.op in ("<=", ">=")}
    assert edges.get(">=") == (None if low is None else pytest.approx(low, abs=1e-6))
    assert edges.get("<=") == (None if high is None else pytest.approx(high, abs=1e-6))


def test_covering_knows_the_range() -> None:
    assert covers("price < 6", "price * 2 < 10")
    assert not covers("price < 5", "price * 2 < 10")  # the range is a little wider than the test

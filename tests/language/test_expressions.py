"""Arithmetic against exact fractions, limits, explanations, and what becomes of a condition with expressions."""

import pickle
import time
from fractions import Fraction
from random import Random

import pytest

from holdfast import ConditionError, parse
from holdfast.language.arithmetic import OPERATIONS, number
from holdfast.language.limits import EXPRESSION_DEPTH_MAX, EXPRESSION_SIZE_MAX
from holdfast.model.values import INTEGER_MAX, INTEGER_MIN

EDGES = (0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), -(2**53) - 1)


def exactly(sign: str, left: int, right: int) -> int | float | None:
    """What two integers give, by fractions; a quotient is rounded to a double by dividing once."""
    if sign in "/%" and right == 0:
        return None
    a, b = Fraction(left), Fraction(right)
    match sign:
        case "+":
            result = a + b
        case "-":
            result = a - b
        case "*":
            result = a * b
        case "/":
            result = a / b
        case _:
            quotient = abs(a / b).__floor__() * (1 if (a < 0) == (b < 0) else -1)
            result = a - b * quotient
    if result.denominator != 1:
        return float(result)
    return int(result) if INTEGER_MIN <= result <= INTEGER_MAX else None


@pytest.mark.parametrize("sign", OPERATIONS)
def test_integers_are_exact_or_unknown(sign: str) -> None:
    dice = Random(sign)
    drawn = [dice.randint(INTEGER_MIN, INTEGER_MAX) >> dice.randrange(60) for _ in range(40)]
    for left in (*EDGES, *drawn):
        for right in (*EDGES, *drawn):
            found = OPERATIONS[sign](left, right)
            assert found == exactly(sign, left, right), (left, sign, right)
            assert found is None or type(found) is type(exactly(sign, left, right))


@pytest.mark.parametrize("sign", OPERATIONS)
def test_how_a_number_is_stored_makes_no_difference(sign: str) -> None:
    for left in (0, 5, -7, 2**53, 2**63):
        for right in (0, 2, -3, 2**53):
            as_doubles = OPERATIONS[sign](number(float(left)), number(float(right)))  # type: ignore[arg-type]
            assert as_doubles == OPERATIONS[sign](left, right)


def test_an_expression_is_explained_by_its_values() -> None:
    text = "price * amount > 1000 AND symbol = 'IBM'"
    assert str(parse(text).explain({"symbol": "IBM", "price": 90, "amount": 10})).splitlines() == [
        "does not match; closest: symbol = 'IBM' AND price * amount > 1000",
        "  price * amount > 1000: price * amount is 900, price is 90, amount is 10",
    ]
    assert str(parse(text).explain({"symbol": "IBM", "price": 90})).splitlines()[1] == (
        "  price * amount > 1000: unknown, as price * amount is unknown, price is 90, amount is missing"
    )
    assert str(parse(text).explain({"symbol": "IBM", "price": 150.0, "amount": 10})).splitlines() == [
        "matches: symbol = 'IBM' AND price * amount > 1000",
        "  price * amount > 1000: price * amount is 1500, price is 150, amount is 10",
    ]


def test_a_condition_names_the_attributes_of_its_expressions() -> None:
    assert parse("a.b * 2 > LENGTH(c) AND d = 5").attributes == ("a.b", "c", "d")


def test_an_expression_crosses_a_process_boundary() -> None:
    subscription = parse("a > b AND x = 1 OR (a OR b) = c")
    again = pickle.loads(pickle.dumps(subscription))
    assert again == subscription
    assert again.matches({"a": 2, "b": 1, "x": 1})


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (" + ".join(["a"] * (EXPRESSION_DEPTH_MAX + 1)) + " > 5", "nested more than 64 deep"),
        ("(" * 70 + "a + 1" + ") * 2" * 70 + " > 5", "nested more than 64 deep"),
        ("ABS(" * 70 + "a" + ")" * 70 + " > 5", "nested more than 64 deep"),
        ("- " * 70 + "a > 5", "nested more than 64 deep"),
        ("a = " + "- " * 30_000 + "a", "nested more than 64 deep"),
        (f"a + 1 IN ({', '.join(map(str, range(EXPRESSION_SIZE_MAX)))})", "more than 1,024 parts"),
        (" AND ".join(f"a{n} < b{n}" for n in range(1_000)), "at most 2,048 parts"),
        (" AND ".join(f"(a{i} > b OR a{i} * 2 > c)" for i in range(11)), "the limit is 16,384"),
        (
            " AND ".join(f"(a{i} + {' + '.join(['b'] * 60)} > 1 OR c = {i})" for i in range(8)),
            "the limit is 16,384",
        ),
    ],
    ids=lambda given: given[:24],
)
def test_an_expression_past_a_limit_is_refused_soon(text: str, limit: str) -> None:
    began = time.process_time()
    with pytest.raises(ConditionError, match=limit):
        parse(text)
    assert time.process_time() - began < 5


def test_an_expression_at_its_limits_is_read_and_printed_back() -> None:
    for text in (
        " + ".join(["a"] * (EXPRESSION_DEPTH_MAX - 1)) + " > 5",
        "(" * 60 + "a + 1" + ")" * 60 + " > 5",
        f"a + 1 IN ({', '.join(map(str, range(1_000)))})",
    ):
        assert parse(str(parse(text))) == parse(text)


def test_a_function_is_a_word_only_before_a_parenthesis() -> None:
    assert parse("length > abs AND lower = 'x'").matches({"length": 2, "abs": 1, "lower": "x"})

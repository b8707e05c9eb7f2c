"""Printing and reading back changes nothing, and the fast lane reads what the parser reads."""

import pickle
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ConditionError, Subscription, parse
from holdfast.language.parser import _Parser, _read_anew
from holdfast.language.plain import plain_conjunction
from holdfast.language.subscription import subscription_of
from tests.language.generators import Event, atom, condition, conditions, event, events

MANY = 3_000


@settings(max_examples=300)
@given(conditions(), st.lists(events(), max_size=5))
def test_printed_text_reads_back_as_the_same_subscription(text: str, seen: list[Event]) -> None:
    assert_round_trip(text, seen)


def test_many_conditions_read_back_as_the_same_subscription() -> None:
    dice = Random("round trip")
    seen = [event(dice) for _ in range(20)]
    for _ in range(MANY):
        assert_round_trip(condition(dice), seen)


def assert_round_trip(text: str, seen: list[Event]) -> None:
    subscription = parse(text)
    printed = str(subscription)
    again, _ = _read_anew((printed, False))  # `parse` may remember what it was printed from
    assert (again, str(again)) == (subscription, printed), text
    assert parse(printed) == again and parse(printed).warnings == again.warnings
    assert again.warnings == (() if again.filters else ("this subscription can never match",))
    assert hash(again) == hash(subscription)
    for each in seen:
        assert again.matches(each) == subscription.matches(each), (text, each)


def test_a_subscription_crosses_a_process_boundary_whole() -> None:
    dice = Random("pickle")
    for _ in range(100):
        subscription = parse(condition(dice))
        again = pickle.loads(pickle.dumps(subscription))
        assert (again, again.warnings, str(again)) == (subscription, subscription.warnings, str(subscription))


def test_repr_evaluates_to_the_subscription() -> None:
    subscription = parse("symbol = 'O''Hara' AND \"odd name\" < 5")
    assert eval(repr(subscription), {"parse": parse}) == subscription


def test_the_order_of_parts_makes_no_difference() -> None:
    dice = Random("order")
    for _ in range(300):
        parts = [f"({condition(dice)})" for _ in range(3)]
        shuffled = dice.sample(parts, 3)
        for connective in (" AND ", " OR "):
            assert parse(connective.join(parts)) == parse(connective.join(shuffled))


def test_repetition_makes_no_difference() -> None:
    dice = Random("repetition")
    for _ in range(300):
        text, test = condition(dice), atom(dice)
        assert parse(f"{text} OR {text}") == parse(text)
        if len(parse(test).filters) == 1:  # an OR squared has more filters
            assert parse(f"({test}) AND ({test})") == parse(test)


def test_a_double_negation_makes_no_difference() -> None:
    dice = Random("negation")
    for _ in range(300):
        text = condition(dice)
        assert parse(f"NOT (NOT ({text}))") == parse(text)


# What the fast lane might take for a plain comparison, and what it might stumble over.
NAMES = "x x x price price a.b symbol team xLIKE likex and x$ _ timestamp İn élan".split()
VALUES = (
    *"1 2 3 7 8 9 5 -5 5. 5.0 .5 1e5 1.5e 1_0 ٣ -٣ TRUE 0.10 -0 -0.0 007 NULL y 123456789012345678".split(),
    *"1234567890123456789 18446744073709551616 99999999999999999.9 -.5 +5 --5 1.0000000000000000000001".split(),
    *(
        "'a'",
        "'b'",
        "'c'",
        "'d'",
        "'e'",
        "'f'",
        "''",
        "'a''b'",
        "'%'",
        "'a\nb'",
        "'é'",
        "'",
        '"a"',
        "- 5",
        "TIMESTAMP '2026-01-31'",
    ),
)
PATTERNS = ("'a%'", "'%'", "'a'", "'a%%'", "'a!%'", "'a_%'", "'a%b'", "'a%' ESCAPE '!'", "'a%'escape'x'", "'é%'", "''")


def almost_plain(dice: Random) -> str:
    parts = []
    for _ in range(dice.randint(1, 3)):
        sign = dice.choice(("=", "<", "<=", ">=", ">", "<>", "!=", "==", " LIKE ", " like ", " Like ", "LIKE"))
        if dice.random() < 0.3:
            sign, operand = dice.choice((" IN ", " in", " NOT IN", " not  in ", " NOT in", "IN", " In ")), listed(dice)
        else:
            operand = dice.choice(PATTERNS if "LIKE" in sign.upper() else VALUES)
        parts.append(f"{dice.choice(NAMES)}{dice.choice(('', ' ', '  '))}{sign}{dice.choice(('', ' '))}{operand}")
    connective = dice.choice((" AND ", " and ", "\nAND ", " And ", " AND", "AND "))
    return connective.join(parts) + dice.choice(("", "", "", "", " ", "\n", " AND", ")", " OR y"))


def listed(dice: Random) -> str:
    some = [dice.choice((VALUES, ("1", "-2", "2.5", "1.0"), ("'x'", "'y'", "''"))) for _ in range(2)]
    values = [dice.choice(some[0] if dice.random() < 0.9 else some[1]) for _ in range(dice.randint(0, 4))]
    inside = dice.choice((",", ", ", " , ", ",\n")).join(values) + dice.choice(("", "", "", " ", ","))
    return f"({dice.choice(('', ' '))}{inside})"


def read_by_the_parser(text: str) -> Subscription | None:
    try:
        return subscription_of(_Parser(text).condition())
    except ConditionError:
        return None


def test_the_fast_lane_reads_what_the_parser_reads() -> None:
    dice = Random("fast lane")
    answered = 0
    for _ in range(20_000):
        text = almost_plain(dice)
        plain = plain_conjunction(text)
        if plain is not None:
            answered += 1
            by_the_parser = read_by_the_parser(text)
            fast = subscription_of([plain])
            assert by_the_parser is not None, text
            assert (fast, str(fast)) == (by_the_parser, str(by_the_parser)), text
            assert fast.warnings == by_the_parser.warnings
    assert answered > 1_000  # or the test says nothing


def test_the_fast_lane_takes_plain_conjunctions() -> None:
    assert plain_conjunction("class = 'stock' AND price < 120.5 AND team LIKE 'Yan%'") is not None
    assert plain_conjunction("price < 120 OR price > 130") is None
    assert plain_conjunction("class IN ('stock', 'bond') AND n NOT IN (1, -2, 2.5)") is not None
    assert plain_conjunction(f"n IN ({', '.join(map(str, range(10_000)))})") is not None  # 30 ms token by token

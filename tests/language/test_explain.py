"""An explanation says which filter matched, or which came closest and what stopped it."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random

import pytest

from holdfast import parse
from holdfast.model.errors import InputError
from tests.language.generators import condition, event


def explained(text: str, seen: Mapping[str, object]) -> list[str]:
    return str(parse(text).explain(seen)).splitlines()


def test_a_match_names_the_filter_that_holds() -> None:
    text = "price > 120 OR symbol LIKE 'IB%' AND live"
    assert explained(text, {"symbol": "IBM", "live": True}) == ["matches: live = TRUE AND symbol LIKE 'IB%'"]


def test_a_miss_names_the_closest_filter_and_each_obstacle() -> None:
    assert explained("price > 120 AND size > 5 AND live OR team = 'a' AND size > 9", {"price": 100, "size": 7}) == [
        "does not match; closest: live = TRUE AND price > 120 AND size > 5",
        "  live = TRUE: live is missing",
        "  price > 120: price is 100",
    ]


@pytest.mark.parametrize(
    ("text", "found", "why"),
    [
        ("x > 5", 5, "x is 5"),
        ("x > 5", None, "x is missing"),
        ("x > 5", "6", "x is the string '6', not a number"),
        ("x > 5", True, "x is the boolean TRUE, not a number"),
        ("x = '5'", 5, "x is the number 5, not a string"),
        ("x <> 5", math.nan, "x is NaN, and a comparison with NaN is never true"),
        ("x = 'a'", math.nan, "x is NaN, and a comparison with NaN is never true"),
        ("x IS NULL", math.nan, "x is nan"),
        ("x IS NULL", 0, "x is 0"),
        ("x < 5", math.inf, "x is inf"),
        ("x IS NOT NULL", None, "x is missing"),
        ("x LIKE 'a%'", "O'Hara", "x is 'O''Hara'"),
        ("x LIKE 'a%'", 5, "x is the number 5, not a string"),
        (
            "x > TIMESTAMP '2026-01-31'",
            "2026-02-01",
            "x is the string '2026-02-01', not a timestamp (send a timestamp, or compare with a string)",
        ),
        (
            "x > '2026-01-31'",
            datetime(2026, 2, 1, tzinfo=UTC),
            "x is the timestamp TIMESTAMP '2026-02-01 00:00:00', not a string"
            " (compare with TIMESTAMP '2026-02-01 00:00:00')",
        ),
    ],
)
def test_an_obstacle_is_told_in_words(text: str, found: object, why: str) -> None:
    (obstacle,) = parse(text).explain({"x": found}).obstacles
    assert obstacle.why == why


def test_a_name_that_needs_quotes_has_them() -> None:
    assert explained('"odd name" = 5', {}) == [
        'does not match; closest: "odd name" = 5',
        '  "odd name" = 5: "odd name" is missing',
    ]


def test_a_condition_that_is_never_true_says_so() -> None:
    explanation = parse("x = 1 AND x = 2").explain({"x": 1})
    assert (explanation.matches, explanation.filter, explanation.obstacles) == (False, None, ())
    assert str(explanation) == "does not match: the condition can never be true"


def test_a_condition_that_is_always_true_says_so() -> None:
    assert explained("TRUE", {}) == ["matches: TRUE"]


def test_nested_events_are_explained_by_their_dotted_names() -> None:
    assert explained("home.score > 3", {"home": {"score": 2}})[1] == "  home.score > 3: home.score is 2"


def test_an_event_that_is_no_event_is_refused() -> None:
    with pytest.raises(InputError, match="event attribute x"):
        parse("x = 1").explain({"x": [[1]]})


def test_explanations_agree_with_matching() -> None:
    dice = Random("explain")
    for _ in range(2_000):
        subscription, seen = parse(condition(dice)), event(dice)
        explanation = subscription.explain(seen)
        assert explanation.matches == subscription.matches(seen)
        assert explanation.matches == (explanation.filter is not None and not explanation.obstacles)
        assert str(explanation).startswith("matches" if explanation.matches else "does not match")


def test_an_integer_of_thousands_of_digits_is_refused_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.cli import main

    with pytest.raises(SystemExit) as left:
        main(["explain", "a = 1", '{"a": ' + "9" * 5_000 + "}"])
    assert left.value.code == 2
    assert "the event cannot be read" in capsys.readouterr().err


def test_a_long_value_is_cut_however_often_it_is_shown() -> None:
    """Sixty-four patterns on a text of 256 KiB made 16 MB, in seconds."""
    text = " AND ".join(f"s LIKE '%{number}%'" for number in range(64))
    told = explained(text, {"s": "x" * 262_144})
    assert len(told) == 65
    assert told[1].endswith("xx'… (262,144 characters)")
    assert max(map(len, told[1:])) < 300
    assert "(256 elements)" in explained("5 = ANY(l)", {"l": list(range(100, 356))})[1]

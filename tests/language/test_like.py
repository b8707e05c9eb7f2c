"""LIKE agrees with a regular expression built here, never tries anything twice, and implies only what it may."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ConditionError, parse
from holdfast.language.like import implies, like_test, pattern_from, pattern_text

SHORT_PATTERNS = ["".join(each) for size in range(5) for each in product("ab%_", repeat=size)]
SHORT_TEXTS = ["".join(each) for size in range(6) for each in product("ab", repeat=size)]


def judge(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """The pattern as a regular expression, character by character."""
    out, characters = "", iter(pattern)
    for c in characters:
        if c == escape:
            out += re.escape(next(characters))
        elif c in "%_":
            out += ".*" if c == "%" else "."
        else:
            out += re.escape(c)
    return re.compile(out, re.DOTALL)


def test_every_short_pattern_agrees_with_a_regular_expression_on_every_short_text() -> None:
    for pattern in SHORT_PATTERNS:
        test, expected = like_test(pattern_from(pattern, None)), judge(pattern)
        for text in SHORT_TEXTS:
            assert test(text) == bool(expected.fullmatch(text)), (pattern, text)


@settings(max_examples=500)
@given(st.text("ab%_!\\é𝄞\n", max_size=8), st.text("ab%_!\\é𝄞\n", max_size=10), st.sampled_from((None, *"!\\a%_")))
def test_patterns_with_escapes_agree_with_a_regular_expression(pattern: str, text: str, escape: str | None) -> None:
    try:
        canonical = pattern_from(pattern, escape)
    except ValueError:
        assert escape is not None
        return
    assert like_test(canonical)(text) == bool(judge(pattern, escape).fullmatch(text))
    printed, escaped = pattern_text(canonical)
    assert pattern_from(printed, "!" if escaped else None) == canonical


@pytest.mark.parametrize("escape", ["!", "\\", "%", "_", "'", "é"])
def test_any_character_can_be_the_escape_character(escape: str) -> None:
    wildcard = "%" if escape != "%" else "_"
    quoted = escape.replace("'", "''")
    subscription = parse(f"s LIKE '{quoted}{wildcard}x{quoted}{quoted}{wildcard}' ESCAPE '{quoted}'")
    assert subscription.matches({"s": f"{wildcard}x{escape}y"})
    assert not subscription.matches({"s": f"ax{escape}y"})
    assert parse(str(subscription)) == subscription


class Watched(str):
    """A text that counts how often a character of it is looked at."""

    looks = 0

    def __getitem__(self, at: object) -> str:
        Watched.looks += 1
        return super().__getitem__(at)  # type: ignore[index]


def looks(pattern: str, text: str) -> int:
    Watched.looks = 0
    like_test(pattern)(Watched(text))
    return Watched.looks


@pytest.mark.parametrize("pattern", ["%a_b%a_b%a_b%a_c", "%a_%a_%a_%a_c%", "_%_%_%_%b_b", "a_%_b_%_c_"])
@pytest.mark.parametrize("unit", ["a", "ab", "aab", "abb"])
def test_twice_the_text_is_at_most_twice_the_work(pattern: str, unit: str) -> None:
    once, twice = looks(pattern, unit * 1_000), looks(pattern, unit * 2_000)
    assert twice <= 2 * once + len(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("%a" * 500 + "%b", "a" * 200_000, False),
        ("%a" * 500 + "%", "a" * 200_000, True),
        ("%ab%" * 200 + "c", "ab" * 100_000, False),
        ("%_a" * 20 + "_%b", "a" * 100_000, False),
        ("_" * 1_000 + "%", "a" * 999, False),
        ("%" + "a" * 10_000 + "_b%", "a" * 40_000, False),
        ("%" + "a" * 10_000 + "_b%", "a" * 40_000 + "cb", True),
    ],
)
def test_patterns_that_make_backtracking_explode_are_decided(pattern: str, text: str, expected: bool) -> None:
    assert like_test(pattern_from(pattern, None))(text) is expected


def test_a_pattern_implies_another_only_if_no_text_says_otherwise() -> None:
    patterns = ["".join(each) for size in range(4) for each in product("ab%_", repeat=size)]
    texts = ["".join(each) for size in range(6) for each in product("abc", repeat=size)]
    accepted = {p: frozenset(filter(judge(p).fullmatch, texts)) for p in patterns}
    found = 0
    for narrow, wide in product(patterns, repeat=2):
        if implies(pattern_from(narrow, None), pattern_from(wide, None)):
            found += 1
            assert accepted[narrow] <= accepted[wide], (narrow, wide)
    assert found > 500  # or it is sound only because it never answers


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [("abc", "a%"), ("abc", "a_c"), ("a_c", "a%"), ("a_c", "a__"), ("a%b%c", "a%c"), ("%ab", "%b"), ("xaby", "%ab%")],
)
def test_a_pattern_implies_a_wider_one(narrow: str, wide: str) -> None:
    assert implies(narrow, wide)
    assert not implies(wide, narrow)


def test_private_use_characters_in_a_pattern_do_not_confuse_implication() -> None:
    assert not implies("\U000f0000", "%_%_%")
    assert not implies("a%", "a\U000f0000")
    assert not implies("a_", "a\U000f0001")


def test_many_characters_with_gaps_between_two_percents_are_refused() -> None:
    fits, too_many = "a_" * 256, "a_" * 256 + "a"
    assert parse(f"s LIKE '%{fits}%'").matches({"s": "b" + "ab" * 256})
    assert parse(f"s LIKE '%{too_many[:300]}%{too_many[:300]}%'").matches({"s": "ab" * 400})
    assert parse(f"s LIKE '{too_many}%'").matches({"s": "ab" * 257})  # it is not looked for
    with pytest.raises(ConditionError, match="513 characters with _ between two %; the limit is 512"):
        parse(f"s LIKE '%{too_many}%'")

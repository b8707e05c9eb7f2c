"""A condition that is refused says where, what was expected and what to write; nothing else ever comes out."""

import inspect
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import ConditionError, parse
from holdfast.language.limits import PROBLEMS_MAX, TEXT_CHARACTERS_MAX
from holdfast.model.errors import InputError, MisuseError

T = TypeVar("T")
VALUE = "expected a value: a number, a string in single quotes, TRUE, FALSE, TIMESTAMP '…' or an attribute"
PATTERN = "expected a pattern such as 'abc%' after LIKE"
NULL = "expected NULL or NOT NULL after IS"
CURLY = "write straight quotes: 'abc' for a string, \"abc\" for a name"
CLOSE = "close it with the same straight '; a typographic quote is a character like any other"
COMMENT = "there are no comments; write - -5, or - (-5), for two signs"
QUOTED = "expected a value or an attribute that needs no quotes"
APART = "TIMESTAMPDIFF(SECOND, a, b) says how far two timestamps are apart"
MOMENT = "expected a number, found the timestamp TIMESTAMP '2026-01-31 00:00:00'"
FUNCTIONS = "there are LOWER, UPPER, LENGTH, ABS, CARDINALITY, COALESCE, EXISTS, TIMESTAMPDIFF, CONTAINS, REGEXP_LIKE"
NAMED = "double quotes name an attribute; write 'y' for the string, or y for the attribute"
UNIT = "expected a unit: MICROSECOND, MILLISECOND, SECOND, MINUTE, HOUR, DAY"


def refusal(text: str) -> ConditionError:
    with pytest.raises(ConditionError) as caught:
        parse(text)
    return caught.value


def test_an_error_shows_the_line_a_caret_and_a_suggestion() -> None:
    text = "symbol = 'IBM'\n  AND price => 100"
    assert str(refusal(text)) == (
        f"line 2, column 14: {VALUE}\n"
        "    AND price => 100\n"
        "               ^\n"
        "  there is no operator =>; write =, <>, <=, >= or LIKE"
    )


def test_the_caret_line_is_as_long_as_what_is_wrong() -> None:
    assert str(refusal("price ABOVE 100")).splitlines()[1:] == ["  price ABOVE 100", "        ^^^^^"]


def test_a_tab_before_the_place_is_a_tab_before_the_caret() -> None:
    assert str(refusal("\t\tprice ABOVE 1")).splitlines()[2] == "  \t\t      ^^^^^"


def test_a_long_line_is_cut_around_the_place() -> None:
    text = " AND ".join(["price > 100"] * 50) + " AND price ABOVE 1"
    _, shown, caret = str(refusal(text)).splitlines()
    assert len(shown) <= 102
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "ABOVE"


def test_all_problems_are_reported_at_once_in_their_order() -> None:
    error = refusal("a == 1 AND (b = NULL OR c LIKE 5) AND d BETWEEN 1 AND 'x' AND e = 6")
    assert [(each.start, each.length) for each in error.problems] == [(2, 2), (16, 4), (31, 1), (54, 3)]
    assert [each.suggestion for each in error.problems] == [
        "write = for equality",
        "no value equals NULL; write IS NULL or IS NOT NULL",
        "",
        "",
    ]


def test_a_place_after_an_earlier_problem_is_still_right() -> None:
    assert [each.start for each in refusal("a = 1 AND (x = AND y = 3").problems] == [10, 15]


def test_problems_past_the_twentieth_are_left_out() -> None:
    assert len(refusal(" AND ".join(["x = ,"] * 100)).problems) == PROBLEMS_MAX


@pytest.mark.parametrize(
    ("text", "start", "length", "expected", "suggestion"),
    [
        ("", 0, 0, "expected an attribute's name", "write TRUE to match every event"),
        (" \n ", 0, 0, "expected an attribute's name", "write TRUE to match every event"),
        ("x =", 3, 0, VALUE, ""),
        ("x = ", 3, 0, VALUE, ""),
        ("x = AND y = 1", 4, 3, VALUE, ""),
        ('x = "y"', 4, 3, QUOTED, NAMED),
        ('x IN (1, "y")', 9, 3, QUOTED, NAMED),
        ("NOT", 3, 0, "expected an attribute's name", ""),
        ("x = 1 OR", 8, 0, "expected an attribute's name", ""),
        ("x = 1 AND", 9, 0, "expected an attribute's name", ""),
        ("(x = 1 OR)", 9, 1, "expected an attribute's name", ""),
        ("()", 1, 1, "expected an attribute's name", ""),
        ("x 5", 2, 1, "expected a comparison after x", ""),
        ("x = 5 y = 6", 6, 1, "expected AND, OR or the end of the condition", ""),
        ("(x = 5 y = 6)", 7, 1, "expected AND, OR or )", ""),
        ("x BETWEEN 5", 11, 0, "expected AND between the two ends of BETWEEN", ""),
        ("x IN (1", 7, 0, "expected , or ) in the IN list", ""),
        ("x IN", 4, 0, "expected ( and a list of values after IN", ""),
        ('x LIKE "a%"', 7, 4, PATTERN, "double quotes name an attribute; write 'a%' for the string"),
        ("x LIKE 'a' ESCAPE", 17, 0, "expected a character in quotes after ESCAPE", ""),
        ("x IS NOT", 8, 0, "expected NULL or NOT NULL after IS", ""),
        ("x NOT", 5, 0, "expected BETWEEN, IN or LIKE after NOT", ""),
        ("x = -", 5, 0, VALUE, ""),
        ("x = -'5'", 5, 3, "expected a number, found the string '5'", ""),
        ("x + 'a' > 5", 4, 3, "expected a number, found the string 'a'", ""),
        ("x - TIMESTAMP '2026-01-31' > 5", 4, 22, MOMENT, APART),
        ("x + 1", 5, 0, "expected a comparison after x + 1", ""),
        ("x + > 5", 4, 1, VALUE, ""),
        ("x > 5 +", 7, 0, VALUE, ""),
        ("(x + 1) * 2", 11, 0, "expected a comparison after (x + 1) * 2", ""),
        ("(x + 1 > 5", 0, 1, "this parenthesis is never closed", ""),
        ("((x + 1 > 5) = y", 0, 1, "this parenthesis is never closed", ""),
        ("NOT x + 1", 9, 0, "expected a comparison after x + 1", ""),
        ("(a + b AND c) = d", 7, 3, "expected a comparison after a + b", ""),
        ("a < TRUE", 4, 4, "TRUE and FALSE have no order; compare them with = or <>", ""),
        ("x = 1.2.3", 4, 5, "expected a number", ""),
        ("lowr(x) = 'a'", 0, 4, "there is no function lowr", "did you mean LOWER?"),
        ("substr(x, 1) = 'a'", 0, 6, "there is no function substr", FUNCTIONS),
        ("lower(5) = 'a'", 6, 1, "expected a string, found the number 5", ""),
        ("lower(x, y) = 'a'", 0, 5, "LOWER takes 1 arguments, not 2", ""),
        ("lower() = 'a'", 0, 5, "LOWER takes 1 arguments, not 0", ""),
        ("lower(x = 'a'", 8, 1, "expected , or ) in the arguments of LOWER", ""),
        ("timestampdiff(YEAR, a, b) > 1", 14, 4, UNIT, ""),
        ("x IN (1, 2", 10, 0, "expected , or ) in the IN list", ""),
        ("x = 1 -- why", 6, 2, "expected AND, OR or the end of the condition", COMMENT),
        ("x = --1", 4, 2, VALUE, COMMENT),
        ("x = \u200b1", 4, 1, VALUE, "this character is invisible; leave it out"),
        ("x IS TRUE", 5, 4, NULL, "write x = TRUE"),
        ("x is not false AND y = 1", 9, 5, NULL, "write x <> FALSE"),
        ('"a b" IS FALSE', 9, 5, NULL, 'write "a b" = FALSE'),
        ("x IS 5", 5, 1, NULL, "IS asks for NULL only; compare a value with = or <>"),
        ("x IS odd", 5, 3, NULL, ""),
        ("x = ‘IBM’", 4, 1, VALUE, "write straight quotes: 'abc' for a string"),
        ("x = “IBM”", 4, 1, VALUE, CURLY),
        ("“x” = 5", 0, 1, "expected an attribute's name", CURLY),
        ("x = 'IBM’", 4, 5, "this single quote is never closed", CLOSE),
        ("x = 1_000", 4, 5, "expected a number", "digits are not grouped; write 1000"),
        ("x < -1_000.5", 5, 7, "expected a number", "digits are not grouped; write 1000.5"),
        ("x = 1,000", 5, 1, "expected AND, OR or the end of the condition", "digits are not grouped; write 1000"),
        ("x = 1, y", 5, 1, "expected AND, OR or the end of the condition", ""),
    ],
)
def test_each_error_has_its_place_and_advice(
    text: str, start: int, length: int, expected: str, suggestion: str
) -> None:
    problem = refusal(text).problems[0]
    assert (problem.start, problem.length) == (start, length)
    assert (problem.expected, problem.suggestion) == (expected, suggestion)


@pytest.mark.parametrize("text", ["x = '\ud800'", "\ud800 = 1", "x LIKE '\udfff%' AND y = 1", "é = 1 AND y = '\udc80'"])
def test_half_a_character_is_refused_and_can_be_shown(text: str) -> None:
    error = refusal(text)
    (problem,) = error.problems
    assert "\ud800" <= text[problem.start] <= "\udfff"
    assert problem.expected == "a lone surrogate, which is not valid text"
    assert "^" in str(error)
    str(error).encode()


def test_a_suggestion_does_not_repeat_a_page_of_text() -> None:
    assert len(str(refusal("x = " + "y" * 60_000))) < 500
    assert len(str(refusal('x = "' + "y" * 60_000 + '"'))) < 500


def test_an_integer_past_64_bits_is_offered_as_a_double() -> None:
    (problem,) = refusal("x = 99999999999999999999").problems
    assert problem.suggestion == "write it as a double: 1e+20"
    assert str(parse("x = 1e+20")) == "x = 1e+20"


@pytest.mark.parametrize("digits", [400, 5_000, 60_000])
def test_an_integer_of_any_length_is_refused_in_words(digits: int) -> None:
    assert "too large for a double" in str(refusal("x = " + "9" * digits))


def test_leading_zeros_are_no_problem_in_any_number() -> None:
    assert str(parse("x = " + "0" * 60_000 + "7")) == "x = 7"


def test_an_error_crosses_a_process_boundary_whole() -> None:
    error = refusal("a == 1 AND b = NULL")
    again = pickle.loads(pickle.dumps(error))
    assert (again.text, again.problems, str(again)) == (error.text, error.problems, str(error))


def test_an_error_is_an_input_error_and_a_wrong_type_is_misuse() -> None:
    assert issubclass(ConditionError, InputError)
    with pytest.raises(MisuseError):
        parse(b"x = 1")  # type: ignore[arg-type]


def test_a_text_past_the_limit_is_refused_with_its_size() -> None:
    at_the_limit = "x = 1".ljust(TEXT_CHARACTERS_MAX)
    assert str(parse(at_the_limit)) == "x = 1"
    assert "65,537 characters; the limit is 65,536" in str(refusal(at_the_limit + " "))


def near_the_end_of_the_stack(call: Callable[[], T]) -> T:
    """What the call returns when its caller has used up all but forty frames."""

    def descend(frames: int) -> T:
        return call() if frames == 0 else descend(frames - 1)

    return descend(sys.getrecursionlimit() - len(inspect.stack(0)) - 40)


def plainly(call: Callable[[], T]) -> T:
    return call()


@pytest.mark.parametrize("caller", [plainly, near_the_end_of_the_stack])
def test_ten_thousand_parentheses_are_an_error_and_not_a_crash(caller: Callable[..., Any]) -> None:
    text = "(" * 10_000 + "x = 1" + ")" * 10_000
    assert "nested more than 100 deep" in str(caller(lambda: refusal(text)))


@pytest.mark.parametrize("caller", [plainly, near_the_end_of_the_stack])
def test_ten_thousand_nots_are_read(caller: Callable[..., Any]) -> None:
    assert str(caller(lambda: parse("NOT " * 10_000 + "x = 1"))) == "x = 1"
    assert str(caller(lambda: parse("NOT " * 10_001 + "x = 1"))) == "x <> 1"


@pytest.mark.parametrize("caller", [plainly, near_the_end_of_the_stack])
def test_a_hundred_parentheses_around_negations_are_read(caller: Callable[..., Any]) -> None:
    text = "NOT (" * 99 + "x = 1 AND y = 2" + ")" * 99
    assert str(caller(lambda: parse(text))) == "x <> 1 OR y <> 2"


@pytest.mark.parametrize(
    "text",
    [
        " " * 65_000,
        "timestamp" + " " * 65_000,
        "x = 1" + " " * 65_000 + "y",
        "x LIKE 'a%'" + " " * 65_000 + "ESCAP",
        "'" * 65_535,
        "\"'" * 32_000,
        "'\"\n" * 20_000,
        "a." * 32_000,
        "x = " + "1" * 65_000 + "a",
        "x = " + "1e" * 32_000,
        "a AND " * 10_900 + "a",
        "NOT (" * 13_000,
        "x IN (" + ",".join(map(str, range(6_500))) + ") AND (" + " OR ".join(["x <> 1"] * 1_000) + ")",
        " AND ".join(f"s LIKE '%{'a' * i}%'" for i in range(64))
        + f" AND s IN ({','.join(repr('a' * 64 + str(i)) for i in range(900))})",
        "s = '" + "a" * 30_000 + "' AND (" + " OR ".join(f"x = {i}" for i in range(1_000)) + ")",
    ],
    ids=lambda text: f"{text[:12]!r}…{len(text)}",
)
def test_no_text_within_the_limit_takes_long(text: str) -> None:
    """Five seconds are twenty times what the slowest takes; quadratic time would be minutes."""
    began = time.process_time()
    try:
        parse(text)
    except ConditionError as error:
        assert len(str(error)) < 10_000
    assert time.process_time() - began < 5


def test_what_is_accepted_is_accepted_as_it_is_printed() -> None:
    """The canonical text is what brokers pass on, so it has to fit as well."""
    wide = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(9))
    printed = str(parse(wide))
    assert parse(printed) == parse(wide)
    assert "characters; the limit is 65,536" in str(refusal(f"{wide} AND (a9 = 1 OR b9 = 2)"))
    lone = " AND ".join(f"a{i}" for i in range(6_000))  # a is printed as a = TRUE
    assert "characters; the limit is 65,536" in str(refusal(lone))
    rounded = f"x IN ({','.join(f'{i}e14' for i in range(1, 5_000))})"  # 1e14 as 100000000000000
    assert "characters; the limit is 65,536" in str(refusal(rounded))


SOUP = (
    *"* / % LOWER( COALESCE( EXISTS( TIMESTAMPDIFF( SECOND [x]".split(),
    *"x price a.b = <> != < <= > >= ( ( ) ) , + - 5 -1 2.5 1e9 .5 1_0 'a' 'b%' '' ' \" ; ! & | . *".split(),
    *"AND OR NOT and or not BETWEEN IN LIKE ESCAPE IS NULL TRUE FALSE TIMESTAMP".split(),
    *('"odd name"', "TIMESTAMP '2026-01-31'", "TIMESTAMP 'x'", "18446744073709551616", "--"),
    *("\n", "\t", "\0", "٣", "ſ", "İ"),
)


@settings(max_examples=1_500)
@given(st.lists(st.sampled_from(SOUP), max_size=16), st.sampled_from(("", " ")))
@example(["x", "BETWEEN", "5"], " ")
@example(["x", "=", "5", "OR"], " ")
def test_token_soup_is_read_or_refused(tokens: list[str], space: str) -> None:
    read_or_refused(space.join(tokens))


@settings(max_examples=500)
@given(st.text())
@example("\ud800 = '\ud800'")
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refused(text)


def read_or_refused(text: str) -> None:
    try:
        subscription = parse(text)
    except ConditionError as error:
        assert error.problems
        assert all(0 <= each.start <= len(text) for each in error.problems)
        assert all(each.start + each.length <= len(text) for each in error.problems)
        assert "^" in str(error)
    else:
        assert parse(str(subscription)) == subscription


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("SELECT * FROM trades", "a condition is what stands behind WHERE, without that word"),
        ("WHERE price > 1", "a condition is what stands behind WHERE, without that word"),
        ("day = DATE '2026-01-01'", "write TIMESTAMP '2026-01-01'"),
        ("ts - INTERVAL '1' > 5", "there are no intervals; compare with TIMESTAMPDIFF(unit, from, to)"),
        ("path REGEXP '^/img'", "write REGEXP_LIKE(name, 'pattern')"),
        ("price ≥ 5", "write >="),
    ],
)
def test_what_other_dialects_write_is_answered_with_what_is_written_here(text: str, suggestion: str) -> None:
    assert str(refusal(text)).splitlines()[-1].strip() == suggestion

"""REGEXP_LIKE: what it costs at worst, what is refused, and what a node without RE2 makes of it."""

import pickle
import time
from random import Random

import pytest

from holdfast import ConditionError, Matcher, covers, overlaps, parse
from holdfast.language import regexp
from holdfast.language.limits import REGEXP_TEXT_BYTES_MAX
from holdfast.protocol.conditions import ConditionBook

pytest.importorskip("re2", reason="the extra `regex` is not installed")

CATASTROPHES = (
    r"(a+)+$",
    r"(a|a)*b",
    r"(a|b)*a(a|b){30}c",
    r"(x+x+)+y",
    r"(.*a){20}z",
    r"(a?){60}a{60}b",
    r"a[ab]{100}c",
    r"((a{0,5}){0,5}){0,5}z",
    r"^(\w+\s?)*$",
)


@pytest.mark.parametrize("pattern", CATASTROPHES)
def test_no_pattern_takes_long_on_any_text(pattern: str) -> None:
    dice = Random(pattern)
    condition = parse(f"REGEXP_LIKE(s, '{pattern}')")
    for letters in ("a", "ab", "x", "a ", "ä"):
        text = "".join(dice.choice(letters) for _ in range(REGEXP_TEXT_BYTES_MAX))
        text = text[: REGEXP_TEXT_BYTES_MAX // 2] if not text.isascii() else text
        began = time.process_time()
        condition.matches({"s": text})
        assert time.process_time() - began < 0.5  # 50 ms, with room for a machine that is ten times slower


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        (r"(a)\1", "RE2 does not read this pattern"),
        ("(?=a)", "RE2 does not read this pattern"),
        ("a{1001}", "repetition size"),
        ("(", r"missing \)"),
        ("((a{0,10}){0,10}){0,10}", "instructions; the limit is 512"),
        ("(((((a{30}){30}){30}){30}){30})", "RE2 does not read this pattern"),
        ("a" * 1_001, "1,001 characters; the limit is 1,000"),
    ],
)
def test_a_pattern_past_the_limits_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(ConditionError, match=complaint):
        parse(f"REGEXP_LIKE(s, '{pattern}')")


def test_many_patterns_have_a_limit_together() -> None:
    parts = [f"REGEXP_LIKE(s, '[ab]{{{200 + n}}}c')" for n in range(5)]
    with pytest.raises(ConditionError, match="the regular expressions of this condition compile to 1,"):
        parse(" OR ".join(parts))
    same = " OR ".join(f"REGEXP_LIKE(s{n}, '[ab]{{200}}c')" for n in range(50))
    assert len(parse(same).filters) == 50


def test_a_text_past_its_limit_is_unknown() -> None:
    text = "a" * REGEXP_TEXT_BYTES_MAX
    assert parse("REGEXP_LIKE(s, 'a$')").matches({"s": text})
    assert not parse("REGEXP_LIKE(s, 'a$') OR NOT REGEXP_LIKE(s, 'a$')").matches({"s": text + "a"})
    assert not parse("REGEXP_LIKE(s, 'ä')").matches({"s": "ä" * (REGEXP_TEXT_BYTES_MAX // 2 + 1)})


def test_it_is_asked_last_and_matched_like_other_expressions() -> None:
    matcher = Matcher()
    for number in range(400):
        matcher.add(number, f"symbol = 's{number % 40}' AND REGEXP_LIKE(path, '^/{number}/[0-9]+$')")
    assert matcher.match({"symbol": "s7", "path": "/47/123"}) == [47]
    assert matcher.match({"symbol": "s7", "path": "/48/123"}) == []


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexp, "available", lambda: False)


@pytest.mark.usefixtures("without_re2")
def test_without_the_package_the_error_says_how_to_get_it() -> None:
    with pytest.raises(
        ConditionError, match=r"needs re2, which is not installed(?s:.*)pip install 'holdfast\[regex\]'"
    ):
        parse("x = 1 AND REGEXP_LIKE(s, 'a')")


@pytest.mark.usefixtures("without_re2")
def test_a_broker_without_the_package_passes_on_whatever_may_match() -> None:
    book = ConditionBook()
    for text in (
        "symbol = 'IBM' AND REGEXP_LIKE(s, '^a+$') = TRUE",
        "symbol = 'IBM' AND REGEXP_LIKE(s, '^a+$') = FALSE",
        "symbol = 'IBM' AND (REGEXP_LIKE(s, 'b') AND n > 5) = TRUE",
    ):
        found = book.subscription(text)
        assert str(found) == text
        assert book.untested(text)
        assert found.matches({"symbol": "IBM", "s": "x", "n": 1})
        assert not found.matches({"symbol": "MSFT", "s": "aaa", "n": 9})
        assert pickle.loads(pickle.dumps(found)) == found
        assert covers(found, found) and overlaps(found, parse("s = 'x'"))
        assert not covers(found, parse("symbol = 'IBM' AND s = 'aaa'"))
    assert not book.untested("symbol = 'REGEXP_LIKE'")

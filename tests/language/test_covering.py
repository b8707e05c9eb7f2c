"""Covering and overlap, judged by trying out values.

On one attribute the judge is exact: a range, a list or a prefix can change its answer only at a constant, just
above one, or where the texts that begin with one end. One value from each piece in between decides everything,
so the judge needs no idea of what a range is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import eq, ge, gt, le, lt
from random import Random
from typing import Any

import pytest

from holdfast import Subscription, covers, overlaps, parse
from tests.language.generators import condition, event, row

Scalar = Any  # a number or a text, never both in one test
COMPARE: dict[str, Callable[[Scalar, Scalar], bool]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True)
class Judged:
    """A condition on one attribute, and which values of the grid satisfy it, found without our code."""

    text: str
    accepted: frozenset[Scalar]


NUMBERS: tuple[Scalar, ...] = (0, 1, 1.5, 2, 2.5, 3, 4)  # below, at, between and above the constants 1, 2 and 3
WORDS = ("a", "ab", "abc", "b")
TEXTS: tuple[Scalar, ...] = (
    *("", "\0"),
    *(found for word in WORDS for found in (word, word + "\0", word[:-1] + chr(ord(word[-1]) + 1))),
)


def comparisons(constants: Sequence[Scalar], grid: Sequence[Scalar]) -> list[Judged]:
    return [
        Judged(f"x {sign} {constant!r}", frozenset(each for each in grid if compare(each, constant)))
        for sign, compare in COMPARE.items()
        for constant in constants
    ]


def lists(chosen: Sequence[tuple[Scalar, ...]]) -> list[Judged]:
    return [Judged(f"x IN {values!r}", frozenset(values)) for values in chosen]


def number_tests() -> list[Judged]:
    ends = ((1, 2), (2, 3), (1, 3), (2, 2), (3, 1))
    ranges = [
        Judged(f"x BETWEEN {low} AND {high}", frozenset(each for each in NUMBERS if low <= each <= high))
        for low, high in ends
    ]
    return [*comparisons((1, 2, 3), NUMBERS), *lists([(1, 2), (2, 3), (1, 3), (1, 2, 3)]), *ranges]


def text_tests() -> list[Judged]:
    prefixes = [
        Judged(f"x LIKE '{word}%'", frozenset(each for each in TEXTS if each.startswith(word))) for word in ("", *WORDS)
    ]
    chosen = [("a", "ab"), ("ab", "b"), ("a", "abc", "b"), ("", "b")]
    extremes = [Judged("x >= ''", frozenset(TEXTS)), Judged("x <= ''", frozenset([""]))]
    return [*comparisons(WORDS, TEXTS), *lists(chosen), *prefixes, *extremes]


def pairs_of(tests: list[Judged]) -> list[Judged]:
    return [Judged(f"{a.text} AND {b.text}", a.accepted & b.accepted) for a, b in product(tests, repeat=2)]


@pytest.mark.parametrize("tests", [number_tests(), text_tests()], ids=["numbers", "texts"])
def test_covering_is_exact_on_lists_ranges_and_prefixes(tests: list[Judged]) -> None:
    narrow = [(each, parse(each.text)) for each in pairs_of(tests)]
    wide = [(each, parse(each.text)) for each in tests]
    for (outer, by), (inner, what) in product(wide, narrow):
        assert covers(by, what) == (inner.accepted <= outer.accepted), f"{outer.text} / {inner.text}"


@pytest.mark.parametrize("tests", [number_tests(), text_tests()], ids=["numbers", "texts"])
def test_overlap_is_exact_on_lists_ranges_and_prefixes(tests: list[Judged]) -> None:
    pairs = [(each, parse(each.text)) for each in pairs_of(tests)]
    singles = [(each, parse(each.text)) for each in tests]
    for (one, left), (other, right) in product(pairs, singles):
        expected = bool(one.accepted & other.accepted)
        assert overlaps(left, right) == overlaps(right, left) == expected, f"{one.text} / {other.text}"


@pytest.mark.parametrize("tests", [number_tests(), text_tests()], ids=["numbers", "texts"])
def test_covering_is_exact_against_what_excludes_values_too(tests: list[Judged]) -> None:
    everything = frozenset().union(*(each.accepted for each in tests))
    negated = [Judged(f"NOT ({each.text})", everything - each.accepted) for each in tests]
    single = [each for each in negated if len(parse(each.text).filters) == 1]
    assert len(single) >= len(tests) - 6  # all but NOT BETWEEN
    for outer, inner in product(single, tests):
        by, what = parse(outer.text), parse(inner.text)
        assert covers(by, what) == (inner.accepted <= outer.accepted), f"{outer.text} / {inner.text}"


def test_covering_is_exact_on_several_attributes() -> None:
    """A conjunction covers another when it does on each attribute, as long as the other can match at all."""
    dice = Random("several attributes")
    numbers, texts = number_tests(), text_tests()
    seen = 0
    for _ in range(5_000):
        narrow = dice.choice(numbers), dice.choice(texts)
        wide = dice.choice(numbers), dice.choice(texts)
        covered = all(n.accepted <= w.accepted for n, w in zip(narrow, wide, strict=True))
        covered = covered or not all(each.accepted for each in narrow)
        assert covers(joined(wide), joined(narrow)) == covered, (wide, narrow)
        seen += covered
    assert 300 < seen < 4_700


def joined(parts: tuple[Judged, ...]) -> Subscription:
    return parse(" AND ".join(each.text.replace("x ", f"x{i} ") for i, each in enumerate(parts)))


@pytest.mark.parametrize("draws", [250, pytest.param(1_000, marks=pytest.mark.slow)])
def test_what_is_covered_matches_nothing_that_the_cover_does_not(draws: int) -> None:
    dice = Random("sound")
    events = [*(event(dice) for _ in range(200)), *(row(dice) for _ in range(100))]
    found = 0
    for _ in range(draws):
        narrow, wide = condition(dice), condition(dice)
        for text in (wide, f"{narrow} OR {wide}", f"NOT ({wide})"):
            outer, inner = parse(text), parse(narrow)
            if covers(outer, inner):
                found += 1
                wrong = [each for each in events if inner.matches(each) and not outer.matches(each)]
                assert not wrong, f"{text} does not cover {narrow}: {wrong[0]}"
    assert found > draws  # each is covered by itself OR anything


def test_what_one_event_satisfies_overlaps() -> None:
    dice = Random("overlap")
    events = [event(dice) for _ in range(200)]
    apart = 0
    for _ in range(2_000):
        one, other = parse(condition(dice)), parse(condition(dice))
        if not overlaps(one, other):
            apart += 1
            both = [each for each in events if one.matches(each) and other.matches(each)]
            assert not both, f"{one} overlaps {other}: {both[0]}"
    assert apart > 200


def test_covering_is_reflexive_and_transitive_and_goes_with_overlap() -> None:
    dice = Random("order")
    chain = [parse(condition(dice)) for _ in range(150)]
    covered = {(i, k) for i, k in product(range(150), repeat=2) if covers(chain[i], chain[k])}
    assert all((i, i) in covered for i in range(150))
    for i, k in covered:
        if chain[k].filters:
            assert overlaps(chain[i], chain[k])
        assert all((i, m) in covered for j, m in covered if j == k), f"{chain[i]} / {chain[k]}"


def test_a_subscription_that_never_matches_is_covered_by_all_and_overlaps_none() -> None:
    never = parse("x = 1 AND x = 2")
    for text in ("FALSE", "TRUE", "x = 1"):
        assert covers(parse(text), never)
        assert not overlaps(parse(text), never)
    assert not covers(never, parse("x = 1"))


def test_long_disjunctions_get_the_safe_answer_at_once() -> None:
    long = parse(" OR ".join(f"a > {n} AND s LIKE 'x{n}%'" for n in range(1_000)))
    other = parse(" OR ".join(f"a > {n} AND s LIKE 'y{n}%'" for n in range(1_000)))
    assert covers(long, long)
    assert not covers(long, other)
    assert overlaps(long, other)
    assert covers(parse("TRUE"), long)
    assert not overlaps(parse("s LIKE 'z%'"), long)


def test_texts_are_taken_for_the_subscriptions_they_spell() -> None:
    assert covers("price < 200", parse("price < 120"))
    assert overlaps("price < 200", "price > 150")
    assert not overlaps("price < 200", "price > 250")

"""How much work the LIKE patterns of conditions are, before it is done.

Where a filter has patterns and a list of texts on one attribute, each pattern is tried on each text; where it has
patterns with LIKE and with NOT LIKE, each of these is compared with each of those. So is one condition with another. A
condition of a page may so ask for seconds, in which a broker would do nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.language.constraint import Constraint

_VALUE = 10  # to try a pattern on a text takes as long as so many of its characters


@dataclass(slots=True)
class _Sizes:
    """Of what is said of one attribute."""

    likes: int = 0
    like_characters: int = 0
    unlikes: int = 0
    unlike_characters: int = 0
    text_characters: int = 0


def _sizes(tests: Iterable[Constraint]) -> dict[str, _Sizes]:
    found: dict[str, _Sizes] = {}
    for attribute, op, operand in tests:
        if op == "LIKE":
            each = found.setdefault(attribute, _Sizes())
            each.likes, each.like_characters = each.likes + 1, each.like_characters + len(operand)
        elif op == "NOT LIKE":
            each = found.setdefault(attribute, _Sizes())
            each.unlikes, each.unlike_characters = each.unlikes + 1, each.unlike_characters + len(operand)
        elif type(operand) is str:
            found.setdefault(attribute, _Sizes()).text_characters += _VALUE + len(operand)
        elif type(operand) is tuple and type(operand[0]) is str:
            found.setdefault(attribute, _Sizes()).text_characters += _VALUE * len(operand) + sum(map(len, operand))
    return found


def work_within(tests: Iterable[Constraint]) -> int:
    """What merging the tests of a filter takes, in characters that are looked at."""
    return sum(map(_work, *[_sizes(tests).values()] * 2))


def work_between(one: Iterable[Constraint], other: Iterable[Constraint]) -> int:
    """What comparing these tests with those takes."""
    ours, theirs = _sizes(one), _sizes(other)
    shared = ours.keys() & theirs.keys()
    return sum(_work(ours[name], theirs[name]) + _work(theirs[name], ours[name]) for name in shared)


def _work(patterns: _Sizes, others: _Sizes) -> int:
    tried = (patterns.likes + patterns.unlikes) * others.text_characters
    compared = patterns.unlikes * others.like_characters + others.likes * patterns.unlike_characters
    return tried + 2 * compared

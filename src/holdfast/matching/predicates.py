"""A filter as one function of an event: what `holds` says, in a fifth of the time.

Comparisons with numbers and strings, which most constraints are, are spelled out for their operator and kind; the
others ask the constraint. The comparisons of a filter become one expression, because a call for each would cost more
than the comparison itself. An expression is written once per shape, from the fixed texts below; names and operands,
which come from outside, are only ever handed to it. `holds` remains the definition, and tests compare the two.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from holdfast.language.subscription import Filter
from holdfast.model.event import Attributes

Predicate = Callable[[Attributes], bool]
PredicateOfEach = Callable[[Sequence[Attributes], Any, Any], list[Any]]
_Part = tuple[str, type]  # a constraint's operator and the type of its operand

_AT_ONCE_MAX = 4  # constraints in one expression: with more, there are too many shapes to meet one again
_SHAPES_MAX = 4_096  # a condition's author decides on shapes, so there may be any number; one takes a kilobyte

_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NUMBER = "((kind := type(value := event.get(name{at}))) is float or kind is int) and value {op} operand{at}"
_TEXT = "type(value := event.get(name{at})) is str and value {op} operand{at}"
_FORMS: dict[type, str] = {int: _NUMBER, float: _NUMBER, str: _TEXT}


def predicate(filter_: Filter) -> Predicate:
    if len(filter_) <= _AT_ONCE_MAX:
        return _all_at_once(filter_)
    tests = [_all_at_once(filter_[at : at + _AT_ONCE_MAX]) for at in range(0, len(filter_), _AT_ONCE_MAX)]

    def all_hold(event: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - all() of a generator takes twice as long
            if not test(event):
                return False
        return True

    return all_hold


def predicate_of_each(filter_: Filter) -> PredicateOfEach:
    """The same for several events: for each the first of two answers if the filter holds, else the second."""
    if len(filter_) <= _AT_ONCE_MAX:
        parts, given = _parts_of(filter_)
        return _maker_of_each(parts)(*given)
    test = predicate(filter_)
    return lambda events, yes, no: [yes if test(event) else no for event in events]


def _all_at_once(filter_: Filter) -> Predicate:
    parts, given = _parts_of(filter_)
    return _maker(parts)(*given)


def _parts_of(filter_: Filter) -> tuple[tuple[_Part, ...], list[Any]]:
    """The shape of a filter, and its names and operands."""
    given: list[Any] = []
    parts = []
    for each in filter_:
        name, operator, operand = each
        kind = type(operand)
        if kind in _FORMS and operator in _OPERATORS:
            parts.append((operator, kind))
            given += (name, operand)
        else:
            parts.append(_ASKED)
            given += (name, each.holds)
    return tuple(parts), given


_ASKED: _Part = "asked", object


@lru_cache(_SHAPES_MAX)
def _maker(parts: tuple[_Part, ...]) -> Callable[..., Predicate]:
    """A function that takes names and operands, two for each part, and returns the test."""
    given, tests = _texts(parts)
    made: Callable[..., Predicate] = eval(f"lambda {given}: lambda event: {tests}")
    return made


@lru_cache(_SHAPES_MAX)
def _maker_of_each(parts: tuple[_Part, ...]) -> Callable[..., PredicateOfEach]:
    given, tests = _texts(parts)
    each = f"lambda events, yes, no: [yes if {tests} else no for event in events]"
    made: Callable[..., PredicateOfEach] = eval(f"lambda {given}: {each}")
    return made


def _texts(parts: tuple[_Part, ...]) -> tuple[str, str]:
    """The names of what is handed to an expression, and the expression."""
    given = ", ".join(f"name{at}, operand{at}" for at in range(len(parts)))
    return given, " and ".join(_expression(at, *part) for at, part in enumerate(parts)) or "True"


def _expression(at: int, operator: str, kind: type) -> str:
    if (operator, kind) == _ASKED:
        return f"operand{at}(event.get(name{at}))"
    text = _FORMS[kind].format(at=at, op=_OPERATORS[operator])
    # A NaN is neither less than, greater than nor equal to anything; only for <> it has to be asked for.
    return f"{text} and value == value" if operator == "<>" and kind is not str else text

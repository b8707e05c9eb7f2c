"""A filter as one function of an event: what `holds` says, in a fifth of the time.

Comparisons with numbers and strings, which most constraints are, get a function made for their operator and kind; the
others ask the constraint. `holds` remains the definition, and tests compare the two.
"""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Filter
from holdfast.model.event import Attributes

Predicate = Callable[[Attributes], bool]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def predicate(filter_: Filter) -> Predicate:
    tests = [_test(each) for each in filter_]
    if not tests:
        return lambda attributes: True
    if len(tests) == 1:
        return tests[0]

    def all_hold(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - all() of a generator takes twice as long
            if not test(attributes):
                return False
        return True

    return all_hold


def _test(constraint: Constraint) -> Predicate:
    name, op, operand = constraint
    compare = _COMPARE.get(op)
    if compare is not None and type(operand) in (int, float):

        def test_number(attributes: Attributes) -> bool:
            value = attributes.get(name)
            kind = type(value)
            # A NaN differs from everything, but says nothing.
            return (kind is float or kind is int) and compare(value, operand) and value == value

        return test_number
    if compare is not None and type(operand) is str:

        def test_text(attributes: Attributes) -> bool:
            value = attributes.get(name)
            return type(value) is str and compare(value, operand)

        return test_text
    holds = constraint.holds
    return lambda attributes: holds(attributes.get(name))

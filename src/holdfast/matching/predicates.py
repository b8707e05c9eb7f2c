"""A filter as one function of an event: what `holds` says, in a fifth of the time.

Comparisons with numbers and strings, which most constraints are, get a function made for their operator and kind; the
others ask the constraint. `holds` remains the definition, and tests compare the two.
"""

from collections.abc import Callable
from typing import Any

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Filter
from holdfast.model.event import Attributes

Predicate = Callable[[Attributes], bool]
_Maker = Callable[[str, Any], Predicate]

# Each operator is spelled out, because a call of operator.lt would cost as much as the rest of the test. A NaN is
# neither less than, greater than nor equal to anything, and for <> it is asked for.
_NUMBERS: dict[str, _Maker] = {
    "=": lambda name, operand: (
        lambda event: ((kind := type(v := event.get(name))) is float or kind is int) and v == operand
    ),
    "<>": lambda name, operand: (
        lambda event: ((kind := type(v := event.get(name))) is float or kind is int) and v != operand and v == v
    ),
    "<": lambda name, operand: (
        lambda event: ((kind := type(v := event.get(name))) is float or kind is int) and v < operand
    ),
    "<=": lambda name, operand: (
        lambda event: ((kind := type(v := event.get(name))) is float or kind is int) and v <= operand
    ),
    ">": lambda name, operand: (
        lambda event: ((kind := type(v := event.get(name))) is float or kind is int) and v > operand
    ),
    ">=": lambda name, operand: (
        lambda event: ((kind := type(v := event.get(name))) is float or kind is int) and v >= operand
    ),
}
_TEXTS: dict[str, _Maker] = {
    "=": lambda name, operand: lambda event: type(v := event.get(name)) is str and v == operand,
    "<>": lambda name, operand: lambda event: type(v := event.get(name)) is str and v != operand,
    "<": lambda name, operand: lambda event: type(v := event.get(name)) is str and v < operand,
    "<=": lambda name, operand: lambda event: type(v := event.get(name)) is str and v <= operand,
    ">": lambda name, operand: lambda event: type(v := event.get(name)) is str and v > operand,
    ">=": lambda name, operand: lambda event: type(v := event.get(name)) is str and v >= operand,
}
_MAKERS: dict[type, dict[str, _Maker]] = {int: _NUMBERS, float: _NUMBERS, str: _TEXTS}


def predicate(filter_: Filter) -> Predicate:
    tests = [_test(each) for each in filter_]
    match tests:
        case []:
            return lambda event: True
        case [only]:
            return only
        case [first, second]:
            return lambda event: first(event) and second(event)

    def all_hold(event: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - all() of a generator takes twice as long
            if not test(event):
                return False
        return True

    return all_hold


def _test(constraint: Constraint) -> Predicate:
    name, op, operand = constraint
    make = _MAKERS.get(type(operand), {}).get(op)
    if make is not None:
        return make(name, operand)
    holds = constraint.holds
    return lambda event: holds(event.get(name))

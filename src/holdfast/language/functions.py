"""The functions of conditions: how many arguments each takes, of what kind, and what it makes of them.

A function is a word only where a parenthesis follows, so an attribute may be called `length` as well. All are strict,
that is unknown for an unknown argument, but for COALESCE and EXISTS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.language.arithmetic import UNITS_US, absolute, timestamp_difference
from holdfast.language.expression import SUM, Expression, Run, null_test, settled, strict
from holdfast.model.event import Attributes
from holdfast.model.values import Kind, Value


@dataclass(frozen=True)
class Function:
    arguments: tuple[int, int]  # the fewest and the most
    wants: tuple[Kind | None, ...]  # by position, the last for all behind it; None for any kind
    make: Callable[[Sequence[Expression]], Expression]
    unit: bool = False  # the first argument is a word such as SECOND


def _of_text(name: str, work: Callable[[str], Value], kind: Kind) -> Function:
    def make(given: Sequence[Expression]) -> Expression:
        inner = given[0].run

        def run(event: Attributes) -> Value | None:
            found = inner(event)
            return work(found) if type(found) is str else None

        return strict(_call(name, given), run, kind, given)

    return Function((1, 1), (Kind.STRING,), make)


def _abs(given: Sequence[Expression]) -> Expression:
    inner = given[0].run
    return strict(_call("ABS", given), lambda event: absolute(inner(event)), Kind.NUMBER, given)


def _coalesce(given: Sequence[Expression]) -> Expression:
    runs: list[Run] = [each.run for each in given]

    def run(event: Attributes) -> Value | None:
        for each in runs:
            found = each(event)
            if found is not None:
                return found
        return None

    kinds = {each.kind for each in given}
    needs = frozenset.intersection(*(each.needs for each in given))
    kind = kinds.pop() if len(kinds) == 1 else None
    return settled(Expression(_call("COALESCE", given), run, kind=kind, children=tuple(given), needs=needs))


def _cardinality(given: Sequence[Expression]) -> Expression:
    inner = given[0].run

    def run(event: Attributes) -> Value | None:
        found = inner(event)
        return len(found) if type(found) is list else None

    return strict(_call("CARDINALITY", given), run, Kind.NUMBER, given)


def difference(unit: str, given: Sequence[Expression]) -> Expression:
    start, end = (each.run for each in given)
    text = f"TIMESTAMPDIFF({unit}, {', '.join(each.at(SUM) for each in given)})"
    return strict(text, lambda event: timestamp_difference(unit, start(event), end(event)), Kind.NUMBER, given)


def _call(name: str, given: Sequence[Expression]) -> str:
    return f"{name}({', '.join(each.at(SUM) for each in given)})"


_ARGUMENTS_MAX = 64  # of COALESCE: more are generated, and then a list is not what was meant

FUNCTIONS: dict[str, Function] = {
    "LOWER": _of_text("LOWER", str.lower, Kind.STRING),
    "UPPER": _of_text("UPPER", str.upper, Kind.STRING),
    "LENGTH": _of_text("LENGTH", len, Kind.NUMBER),
    "ABS": Function((1, 1), (Kind.NUMBER,), _abs),
    "CARDINALITY": Function((1, 1), (Kind.LIST,), _cardinality),
    "COALESCE": Function((1, _ARGUMENTS_MAX), (None,), _coalesce),
    "EXISTS": Function((1, 1), (None,), lambda given: null_test(given[0], negated=True)),
    "TIMESTAMPDIFF": Function((2, 2), (Kind.TIMESTAMP,), lambda given: difference("SECOND", given), unit=True),
}
UNITS = tuple(UNITS_US)

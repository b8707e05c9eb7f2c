"""Comparisons of arithmetic as one Python function each, for the numbers that nearly all events hold.

While every operand and every result lies within 2**53 of 0, an integer and the double of the same value behave alike
and nothing is unknown, so Python's own operators give what `arithmetic` defines. The function written here checks just
that as it goes; for any other value it asks the function built from parts. It is written once per shape, from the fixed
texts below; names and constants, which come from outside, are only ever handed to it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

Plan = tuple[Any, ...]
"""How a number is worked out: ("name", n), ("constant", c), ("-", x), ("ABS", x), or a sign and two operands."""

EXACT = 2**53
_PARTS_MAX = 24  # of a comparison: beyond, shapes do not repeat, and the checks cost as much as they save
_SHAPES_MAX = 2_048  # a condition's author decides on shapes, so there may be any number; one takes two kilobytes
_SIGNS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

Run = Callable[[Any], Any]


class _Writer:
    def __init__(self) -> None:
        self.checks: list[str] = []
        self.given: list[Any] = []
        self._read: dict[str, str] = {}
        self._count = 0

    def value(self, plan: Plan) -> str:
        """The name of a variable, or of a parameter, that holds the value once all checks have passed."""
        match plan:
            case ("name", name):
                if name not in self._read:
                    at = self._parameter(name)
                    found = self._read[name] = f"v{at[1:]}"
                    typed = f"((kind := type({found} := event.get({at}))) is float or kind is int)"
                    self.checks += [typed, f"low < {found} < high"]
                return self._read[name]
            case ("constant", value):
                return self._parameter(value)
            case ("-", inner):
                return self._checked(f"-{self.value(inner)}")
            case ("ABS", inner):
                return self._checked(f"abs({self.value(inner)})")
        sign, left, right = plan
        first, second = self.value(left), self.value(right)
        if sign == "/":
            self.checks.append(f"{second} != 0")
        return self._checked(f"{first} {sign} {second}")

    def _parameter(self, value: Any) -> str:
        self.given.append(value)
        return f"p{len(self.given)}"

    def _checked(self, text: str) -> str:
        self._count += 1
        self.checks.append(f"low < (t{self._count} := {text}) < high")
        return f"t{self._count}"


def size_of(plan: Plan | None) -> int:
    """How many parts; more than any limit where there is no plan."""
    if plan is None:
        return _PARTS_MAX + 1
    match plan:
        case ("name", _):
            return 1
        case ("constant", value):
            return 1 if type(value) in (int, float) and -EXACT < value < EXACT else _PARTS_MAX + 1
    return 1 + sum(map(size_of, plan[1:]))


def written(op: str, left: Plan | None, right: Plan | None, slow: Run) -> Run:
    """A comparison that says what `slow` says, sooner; `slow` itself where it cannot be written."""
    if left is None or right is None or size_of(left) + size_of(right) > _PARTS_MAX:
        return slow
    writer = _Writer()
    first, second = writer.value(left), writer.value(right)
    if not writer.checks:
        return slow  # two constants, which are compared once
    text = f"{first} {_SIGNS[op]} {second} if {' and '.join(writer.checks)} else slow(event)"
    made = _maker(text, len(writer.given))
    return made(-EXACT, EXACT, slow, *writer.given)


@lru_cache(_SHAPES_MAX)
def _maker(text: str, count: int) -> Callable[..., Run]:
    parameters = "".join(f", p{at}" for at in range(1, count + 1))
    made: Callable[..., Run] = eval(f"lambda low, high, slow{parameters}: lambda event: {text}")
    return made

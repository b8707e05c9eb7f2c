"""A constraint: one attribute, one test. The atom that filters, matchers and covering work with.

A constraint either holds or does not; there is no third value here because NOT has been pushed inwards when
a constraint is made. A missing attribute, a value of another kind and NaN make every comparison unknown, and
unknown does not hold, nor does its negation.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.language.arithmetic import equal
from holdfast.language.like import exact_text, like_test, pattern_text
from holdfast.language.tokens import KEYWORDS, NAME
from holdfast.model.values import Kind, Value, kind_of, literal, utc

# A value; for IN a sorted tuple of values; for LIKE the canonical pattern; for IS … NULL None; an expression.
Operand = Any

CONTAINS = "CONTAINS"  # an element of the list is the operand; written 'x' = ANY(tags)

IS_TRUE = "IS TRUE"  # of an expression, whose text stands in place of the attribute; `subscription.holds` asks it


class Constraint(NamedTuple):  # noqa: PLW1641  # hashed as the tuple it is
    attribute: str
    op: str  # one of OPERATORS
    operand: Operand

    def holds(self, found: Value | None) -> bool:
        op, operand = self.op, self.operand
        if found is None:
            return op == "IS NULL"
        if op[0] == "I" and op != "IN":  # the two null tests
            return op == "IS NOT NULL"
        if op.endswith("LIKE"):
            return type(found) is str and like_test(operand)(found) == (op == "LIKE")
        if op == CONTAINS:
            return type(found) is list and any([equal(operand, each) for each in found])
        first = operand[0] if isinstance(operand, tuple) else operand
        if kind_of(found) is not kind_of(first):
            return False
        if found != found:  # NaN
            return False
        if type(found) is datetime:
            found = utc(found)
        return _COMPARE[op](found, operand)

    @property
    def kind(self) -> Kind | None:
        """The kind of value this test needs; None for the null tests, which take any, and for expressions."""
        if self.op.startswith("IS"):
            return None
        if self.op == CONTAINS:
            return Kind.LIST
        first = self.operand[0] if isinstance(self.operand, tuple) else self.operand
        return kind_of(first)

    def __eq__(self, other: object) -> bool:
        """As tuples compare, except that to Python 1 is TRUE and to us it is not."""
        if type(other) is not Constraint or not tuple.__eq__(self, other) or self.kind is not other.kind:
            return False
        return self.op != CONTAINS or kind_of(self.operand) is kind_of(other.operand)

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def names(self) -> Iterable[str]:
        """The attributes that it looks at."""
        return self.operand.names if self.op == IS_TRUE else (self.attribute,)

    @property
    def negation(self) -> "Constraint":
        return constraint(self.attribute, NEGATED[self.op], self.operand)

    def __str__(self) -> str:
        if self.op == IS_TRUE:
            return self.attribute
        name, op, operand = name_text(self.attribute), self.op, self.operand
        if operand is None:
            return f"{name} {op}"
        if isinstance(operand, tuple):
            return f"{name} {op} ({', '.join(map(literal, operand))})"
        if op.endswith("LIKE"):
            text, escaped = pattern_text(operand)
            return f"{name} {op} {literal(text)}" + (" ESCAPE '!'" if escaped else "")
        if op == CONTAINS:
            return f"{literal(operand)} = ANY({name})"
        return f"{name} {op} {literal(operand)}"


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda found, operand: found == operand,
    "<>": lambda found, operand: found != operand,
    "<": lambda found, operand: found < operand,
    "<=": lambda found, operand: found <= operand,
    ">": lambda found, operand: found > operand,
    ">=": lambda found, operand: found >= operand,
    "IN": lambda found, operand: found in operand,
    "NOT IN": lambda found, operand: found not in operand,
}

NEGATED = {
    "=": "<>",
    "<": ">=",
    ">": "<=",
    "IN": "NOT IN",
    "LIKE": "NOT LIKE",
    "IS NULL": "IS NOT NULL",
}
NEGATED |= {after: before for before, after in NEGATED.items()}
OPERATORS = frozenset((*NEGATED, CONTAINS))
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # 5 < price is price > 5


def name_text(name: str) -> str:
    """An attribute's name as a condition spells it: quoted where it would not read as a name."""
    if NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def constraint(attribute: str, op: str, operand: Operand) -> Constraint:
    """A constraint in its one spelling: LIKE 'abc' is = 'abc', IN (1) is = 1, b <> TRUE is b = FALSE."""
    if op in ("IN", "NOT IN"):
        values = _distinct(operand)
        op, operand = (op, values) if len(values) > 1 else ("=" if op == "IN" else "<>", values[0])
        if type(values[0]) is bool and len(values) == 2:
            # IN (TRUE, FALSE) takes any boolean and NOT IN none: a kind test that no single value can say.
            return Constraint(attribute, op, (False, True))
    elif op in ("LIKE", "NOT LIKE"):
        text = exact_text(operand)
        if text is not None:
            op, operand = ("=" if op == "LIKE" else "<>"), text
    if op == "<>" and type(operand) is bool:
        op, operand = "=", not operand
    return Constraint(attribute, op, operand)


def _distinct(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(sorted(set(values)))

"""Tests that work something out: arithmetic, functions, attributes against attributes, conditions as operands.

With `sql` they stay where DuckDB and Spark SQL read the same text as we do (rule L22): doubles are written with an
exponent, because 0.5 is a decimal there; nothing is divided by what may be 0; nothing leaves 64 bits or becomes NaN, so
an infinity is added once at most and only multiplied by a constant.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from holdfast.model.values import Kind, literal

if TYPE_CHECKING:
    from tests.language.generators import Attribute

SIGNS = ("=", "<>", "<", "<=", ">", ">=")


def expression_test(dice: Random, attributes: Sequence["Attribute"], sql: bool) -> str:
    by_kind = {kind: [each for each in attributes if each.kind is kind] for kind in Kind if kind is not Kind.LIST}
    draw = _Draw(dice, {kind: found for kind, found in by_kind.items() if found}, sql)
    return draw.test(2)


class _Draw:
    def __init__(self, dice: Random, attributes: dict[Kind, list["Attribute"]], sql: bool) -> None:
        self.dice = dice
        self.attributes = attributes
        self.sql = sql

    def test(self, depth: int) -> str:
        kind = self.dice.choice(list(self.attributes))
        left, right = self.operand(kind, depth), self.operand(kind, depth)
        if not self.sql and self.dice.randrange(12) == 0:
            return (
                f"{left} = {self.operand(self.dice.choice(list(self.attributes)), depth)}"  # of another kind, perhaps
            )
        lot = self.dice.randrange(12)
        no = self.dice.choice(("", "", "NOT "))
        if lot == 0:
            return f"{left} IS {no}NULL"
        if lot == 1:
            return f"{left} {no}IN ({right}, {self.operand(kind, 0)})"
        if kind is Kind.BOOLEAN:
            return left if lot == 2 else f"{left} {self.dice.choice(('=', '<>'))} {right}"
        if lot == 3:
            return f"{left} {no}BETWEEN {self.operand(kind, 0)} AND {right}"
        if lot == 4 and kind is Kind.STRING:
            return f"{left} {no}LIKE '{self.dice.choice(('%a%', 'i%', 'IBM%', '_a_%', '%'))}'"
        return f"{left} {self.dice.choice(SIGNS)} {right}"

    def operand(self, kind: Kind, depth: int) -> str:
        if depth == 0 or self.dice.randrange(3) == 0:
            return self._name(kind) if self.dice.randrange(3) else self._constant(kind)
        match kind:
            case Kind.NUMBER:
                return self._number(depth)
            case Kind.STRING:
                name = self.dice.choice(("LOWER", "upper", "COALESCE"))
                inner = self.operand(kind, depth - 1)
                return f"COALESCE({inner}, {self.operand(kind, 0)})" if name == "COALESCE" else f"{name}({inner})"
            case Kind.BOOLEAN:
                if self.sql and Kind.STRING in self.attributes and self.dice.randrange(4) == 0:
                    pattern = self.dice.choice(("a", "^[A-Z]+$", "(?i)^ibm", "[.]N?$", "^..$", "(a|O).?[Hb]"))
                    return f"REGEXP_LIKE({self.operand(Kind.STRING, depth - 1)}, '{pattern}')"
                if self.dice.randrange(3) == 0:
                    return f"COALESCE({self._name(kind)}, {self._constant(kind)})"
                joined = f" {self.dice.choice(('AND', 'OR'))} "
                parts = [self.dice.choice(("", "NOT ")) + self.test(depth - 1) for _ in range(self.dice.randint(1, 2))]
                return f"({joined.join(parts)})"
        return self._name(kind)

    def _number(self, depth: int) -> str:
        dice, lot = self.dice, self.dice.randrange(9)
        if lot == 0:
            return f"ABS({self.operand(Kind.NUMBER, depth - 1)})"
        if lot == 1 and Kind.STRING in self.attributes:
            return f"LENGTH({self.operand(Kind.STRING, depth - 1)})"
        if lot == 2 and Kind.TIMESTAMP in self.attributes:
            unit = dice.choice(("MICROSECOND", "SECOND", "HOUR", "DAY"))
            return f"TIMESTAMPDIFF({unit}, {self._constant(Kind.TIMESTAMP)}, {self._name(Kind.TIMESTAMP)})"
        if lot == 3:
            return f"-({self.operand(Kind.NUMBER, depth - 1)})"
        if self.sql:
            return self._sql_number(lot)
        return (
            f"({self.operand(Kind.NUMBER, depth - 1)}) {dice.choice('+-*/%')} ({self.operand(Kind.NUMBER, depth - 1)})"
        )

    def _sql_number(self, lot: int) -> str:
        """Small integers in every operation; a double, which may be infinite, only in those that keep it a number."""
        constant = self.dice.choice(("2", "7", "-3", "5e-1", "1e1"))
        if lot < 6:
            small = f"(size {self.dice.choice('+-*')} {self.dice.choice(('2', '7', 'size'))})"
            return self.dice.choice((small, f"{small} / {constant}", f"{small} % {self.dice.choice(('2', '7', '-3'))}"))
        return self.dice.choice((f"price * {constant}", f"price / {constant}", "price + size", "size - price"))

    def _name(self, kind: Kind) -> str:
        found = [each for each in self.attributes[kind] if not (self.sql and each.name == "serial")]
        return self.dice.choice(found).spelt(self.dice, True)  # on the right, needless quotes are refused

    def _constant(self, kind: Kind) -> str:
        each = self.dice.choice([each for each in self.attributes[kind] if each.name != "serial"])
        value = self.dice.choice(each.constants)
        return f"{value!r}e0" if isinstance(value, float) and "e" not in repr(value) else literal(value)

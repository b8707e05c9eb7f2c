"""One test of a condition, as it was read: the parser makes constraints or an expression of it."""

from typing import NamedTuple

from holdfast.language import expression as made
from holdfast.language.constraint import NEGATED
from holdfast.language.expression import Expression
from holdfast.model.values import Value


class Test(NamedTuple):
    """One test, before anybody has asked whether an index can answer it."""

    form: str  # a comparison, BETWEEN, IN, LIKE, IS NULL, or TRUE for an operand that stands alone
    left: Expression
    right: tuple[Expression, ...] = ()
    negated: bool = False
    pattern: str = ""
    values: tuple[Value, ...] = ()  # of IN, where the list is plain: thousands of expressions would take too long
    each: str = ""  # ANY or ALL: the comparison is with the elements of a list


def as_expression(test: Test) -> Expression:
    """A test as an operand: TRUE, FALSE or unknown."""
    left, right, negated = test.left, test.right, test.negated
    match test.form:
        case "TRUE":
            return left
        case "IS NULL":
            return made.null_test(left, negated)
        case "LIKE":
            return made.like(left, test.pattern, negated)
        case "IN":
            return made.member(left, right or tuple(map(made.constant, test.values)), negated)
        case "BETWEEN":
            low, high = (made.comparison(op, left, edge) for op, edge in zip((">=", "<="), right, strict=True))
            return made.inverse(made.joined("AND", (low, high))) if negated else made.joined("AND", (low, high))
    op = NEGATED[test.form] if negated else test.form
    if test.each:
        return made.quantified(op, left, (test.each == "ALL") is not negated, right[0])
    return made.comparison(op, left, right[0])

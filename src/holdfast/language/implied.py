"""The range that a test of arithmetic implies for its one attribute: `price * 2 < 10` says that `price` is below 5.

An index can look such a range up, where it would have to work the test out for every event. Whatever passes the test
must pass the range, and each step rounds, so the range is a little wider than what the test says: each step adds a
billionth of the numbers it meets, ten million times what it may round by. What is not a chain of steps with constants
has no range here.
"""

from holdfast.language.numbers import EXACT, Plan

_MARGIN = 1e-9
_TINY = 1e-290  # the smallest doubles are rounded by an absolute amount
Range = tuple[float | None, float | None]
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def implied_range(op: str, left: Plan | None, right: Plan | None) -> tuple[str, Range] | None:
    """The attribute, and between which numbers it lies if the comparison is true."""
    if left is None or right is None or op not in _FLIPPED:
        return None
    if left[0] == "constant":
        op, left, right = _FLIPPED[op], right, left
    if right[0] != "constant" or left[0] in ("name", "constant") or not _fits(right[1]):
        return None
    bound = float(right[1])
    if left[0] == "ABS":
        if op in (">", ">="):
            return None
        found = _undone("<", left[1], bound), _undone(">", left[1], -bound)
        return None if found[0] is None or found[1] is None else (found[0][0], _both(found[0][1], found[1][1]))
    return _undone(op, left, bound)


def _fits(value: object) -> bool:
    return type(value) in (int, float) and -EXACT < value < EXACT  # type: ignore[operator]


def _undone(op: str, plan: Plan, bound: float) -> tuple[str, Range] | None:
    """Take the steps back from the bound to the attribute; what each may have rounded is taken back with them."""
    room = abs(bound) * _MARGIN + _TINY
    while plan[0] != "name":
        step = _step_back(op, plan, bound)
        if step is None:
            return None
        op, plan, undone, constant, factor = step
        room = room * factor + max(abs(bound), abs(undone), abs(constant)) * _MARGIN + _TINY
        bound = undone
        if not (abs(bound) < EXACT and room < EXACT):
            return None
    low = bound - room if op in (">", ">=", "=") else None
    high = bound + room if op in ("<", "<=", "=") else None
    return plan[1], (low, high)


def _step_back(op: str, plan: Plan, bound: float) -> tuple[str, Plan, float, float, float] | None:
    """The comparison before the last step: its sign, plan and bound, the step's constant, and how much it shrank."""
    if len(plan) == 2:
        return (_FLIPPED[op], plan[1], -bound, 0.0, 1.0) if plan[0] == "-" else None
    sign, left, right = plan
    if sign not in "+-*/" or (left[0] == "constant") == (right[0] == "constant"):
        return None
    backwards = left[0] == "constant"  # 5 - x, 5 / x
    inner, (_, given) = (right, left) if backwards else (left, right)
    if not _fits(given):
        return None
    constant = float(given)
    if sign == "+":
        return op, inner, bound - constant, constant, 1.0
    if sign == "-":
        if backwards:
            return _FLIPPED[op], inner, constant - bound, constant, 1.0
        return op, inner, bound + constant, constant, 1.0
    if constant == 0 or (sign == "/" and backwards):
        return None
    factor = constant if sign == "/" else 1 / constant
    return (op if constant > 0 else _FLIPPED[op]), inner, bound * factor, constant, abs(factor)


def _both(one: Range, other: Range) -> Range:
    return other[0] if one[0] is None else one[0], other[1] if one[1] is None else one[1]

"""The values one attribute may take under a conjunction of constraints.

Folding constraints into a domain merges `price > 5 AND price > 7`, finds _contradictions, and answers the
two questions of content-based routing: does this domain lie inside a constraint (covering), and is there
anything left in it (overlap)? Prefixes are ranges here: s LIKE 'ab%' is 'ab' <= s < 'ac' in code-point order.

Exact for =, IN, ranges and prefixes, taking it that between two numbers or timestamps, and between two texts
that do not differ by characters U+0000 alone, there is always another. Other patterns are assumed satisfiable
together, so a domain may be called non-empty when it is not, never the other way round.
"""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.language.constraint import CONTAINS, Constraint, constraint
from holdfast.language.like import implies as like_implies
from holdfast.language.like import like_test, prefix_text
from holdfast.model.values import Kind, Value, kind_of, literal

# A bound: the value, and +1 when the edge lies just above it, 0 when just below it. So `> 5` starts at
# (5, 1), `>= 5` at (5, 0), `<= 5` ends at (5, 1), `< 5` at (5, 0), and a range is empty unless start < end.
Edge = tuple[Value, int]


class Domain:
    """Starts as "anything, even missing" and only ever shrinks."""

    __slots__ = (
        "_missing_only",
        "_present",
        "contained",
        "end",
        "excluded",
        "kind",
        "likes",
        "points",
        "start",
        "unlikes",
    )

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        self.kind: Kind | None = None
        self.start: Edge | None = None
        self.end: Edge | None = None
        self.points: frozenset[Value] | None = None  # set when only these values are left
        self.excluded: frozenset[Value] = frozenset()
        self.likes: frozenset[str] = frozenset()
        self.unlikes: frozenset[str] = frozenset()
        self.contained: dict[tuple[Kind, Value], Constraint] = {}  # what a list has to hold; 1 and TRUE are two
        self._present = self._missing_only = False
        for each in constraints:
            self.narrow(each)
        self._settle()

    def narrow(self, each: Constraint) -> None:
        op, operand = each.op, each.operand
        if op == "IS NULL":
            self._missing_only = True
            return
        self._present = True
        kind = each.kind
        if kind is None:
            return
        if self.kind not in (None, kind):
            self.points = frozenset()
            return
        self.kind = kind
        if op in ("=", "IN"):
            chosen = frozenset(operand if isinstance(operand, tuple) else (operand,))
            self.points = chosen if self.points is None else self.points & chosen
        elif op in ("<>", "NOT IN"):
            self.excluded |= frozenset(operand if isinstance(operand, tuple) else (operand,))
        elif op == "LIKE":
            self.likes |= {operand}
        elif op == "NOT LIKE":
            self.unlikes |= {operand}
        elif op == CONTAINS:
            self.contained[kind_of(operand), operand] = each
        elif op in (">", ">="):
            self._raise_start((operand, 1 if op == ">" else 0))
        else:
            self._lower_end((operand, 1 if op == "<=" else 0))

    def _raise_start(self, edge: Edge) -> None:
        if self.start is None or self.start < edge:
            self.start = edge

    def _lower_end(self, edge: Edge) -> None:
        if self.end is None or edge < self.end:
            self.end = edge

    def _settle(self) -> None:
        """Bring the parts to one spelling: fewest parts, each of them needed."""
        if self.kind is Kind.BOOLEAN and self.points is None:
            self.points = frozenset((False, True))
        if self.start and self.start[1] == 0 and self.start[0] in self.excluded:
            self.start = (self.start[0], 1)
        if self.end and self.end[1] == 1 and self.end[0] in self.excluded:
            self.end = (self.end[0], 0)
        if self.points is None:
            self.points = _only_point(*self.range())
        if self.points is not None:
            self.points = self._admitted(self.points - self.excluded)
        else:
            self.excluded = self._admitted(self.excluded)

    def _admitted(self, values: frozenset[Value]) -> frozenset[Value]:
        """Those that pass the ranges and patterns."""
        ranges = self._ranges()
        likes: list[Callable[[Any], bool]] = [*map(like_test, self.likes)]  # where there are any, values are texts
        unlikes: list[Callable[[Any], bool]] = [*map(like_test, self.unlikes)]
        if not (ranges or likes or unlikes):
            return values  # lists may be long
        return frozenset(
            value
            for value in values
            if all(each.holds(value) for each in ranges)
            and all(fits(value) for fits in likes)
            and not any(fits(value) for fits in unlikes)
        )

    def range(self) -> tuple[Edge | None, Edge | None]:
        """Start and end with the prefixes taken in; texts start at the empty one."""
        start, end = self.start, self.end
        if start is None and self.kind is Kind.STRING:
            start = ("", 0)
        for prefix in filter(None, map(prefix_text, self.likes)):
            low, high = prefix_range(prefix)
            start = low if start is None or start < low else start
            end = high if end is None or (high is not None and high < end) else end
        return start, end

    @property
    def empty(self) -> bool:
        if self._missing_only:
            return self._present
        if self.points is not None:
            return not self.points
        if any(like_implies(narrow, wide) for narrow in (*self.likes, "%") for wide in self.unlikes):
            return True
        return not _is_possible(*self.range())

    def _ranges(self, attribute: str = "") -> list[Constraint]:
        tests: list[Constraint] = []
        if self.start:
            tests.append(Constraint(attribute, ">" if self.start[1] else ">=", self.start[0]))
        if self.end:
            tests.append(Constraint(attribute, "<=" if self.end[1] else "<", self.end[0]))
        return tests

    def _tests(self, attribute: str) -> list[Constraint]:
        tests = self._ranges(attribute)
        tests += [Constraint(attribute, "LIKE", pattern) for pattern in sorted(self.likes)]
        tests += [Constraint(attribute, "NOT LIKE", pattern) for pattern in sorted(self.unlikes)]
        return tests

    def constraints(self, attribute: str) -> list[Constraint]:
        """The domain as constraints again, in their one spelling."""
        if self._missing_only:
            return [Constraint(attribute, "IS NULL", None)]
        if self.points is not None:
            return [constraint(attribute, "IN", tuple(self.points))]
        tests = self._tests(attribute)
        if self.excluded:
            tests.append(constraint(attribute, "NOT IN", tuple(self.excluded)))
        tests += [self.contained[key] for key in sorted(self.contained, key=_spelt)]
        if not tests and self._present:
            tests.append(Constraint(attribute, "IS NOT NULL", None))
        return tests

    def inside(self, each: Constraint) -> bool:
        """Whether every value left in this (non-empty) domain satisfies the constraint."""
        if self._missing_only or each.op == "IS NULL":
            return self._missing_only and each.op == "IS NULL"
        if each.op == "IS NOT NULL":
            return self._present
        if self.points is not None and each.op in ("IN", "NOT IN"):  # lists may be long: no value is looked for in them
            inside = self.points.issubset if each.op == "IN" else self.points.isdisjoint
            return self.kind is each.kind and inside(each.operand)
        if self.points is not None:
            return all(map(each.holds, self.points))
        if self.kind is not each.kind:
            return False
        if each.op == CONTAINS:
            return (kind_of(each.operand), each.operand) in self.contained
        if each.op == "LIKE":
            if each.operand == "%" or any(like_implies(pattern, each.operand) for pattern in self.likes):
                return True
            if prefix_text(each.operand) is None:
                return False
        if each.op == "NOT LIKE":
            return each.operand in self.unlikes or self._apart(each.negation)
        if each.op in ("<>", "NOT IN"):
            return self._apart(each.negation)
        return self._within(Domain((each,)))

    def _within(self, wider: "Domain") -> bool:
        """Range inclusion; `wider` is the domain of one =, IN, range or prefix constraint."""
        if wider.points is not None:
            return False  # we have no points left to list, so we hold more values than any list
        (start, end), (low, high) = self.range(), wider.range()
        starts = low is None or (start is not None and _order(low) <= _order(start))
        ends = high is None or (end is not None and _order(end) <= _order(high))
        return starts and ends

    def _apart(self, other: Constraint) -> bool:
        """Whether no value of this domain satisfies `other`."""
        together = Domain((*self.constraints(other.attribute), other))
        return together.empty


def _spelt(element: tuple[Kind, Value]) -> str:
    return literal(element[1])


def prefix_range(prefix: str) -> tuple[Edge, Edge | None]:
    """Where the texts that begin with `prefix` lie among all texts."""
    high = successor(prefix)
    return (prefix, 0), (high, 0) if high is not None else None


def successor(prefix: str) -> str | None:
    """The first text after all texts that begin with `prefix`; None when there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates are not characters: the one after U+D7FF is U+E000.
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


def _order(edge: Edge) -> Edge:
    """Edges between texts have two spellings: just above 'a' is just below 'a\\0', the next text."""
    value, above = edge
    return (value + "\0", 0) if above and isinstance(value, str) else edge


def _only_point(start: Edge | None, end: Edge | None) -> frozenset[Value] | None:
    """The one value between the edges, when there is exactly one."""
    if start is None or end is None:
        return None
    low, above = _order(start)
    return frozenset((low,)) if not above and _order((low, 1)) == _order(end) else None


def _is_possible(start: Edge | None, end: Edge | None) -> bool:
    return start is None or end is None or _order(start) < _order(end)

"""How one attribute's value becomes a small code, and which codes a constraint allows.

Code 0 means that the attribute is missing. Code 1 means a value that the scale does not place: one of another kind, a
list, or NaN, which no comparison accepts. Codes from 2 on are values: in bins that keep the order (`OrderedScale`), or
hashed (`HashedScale`). `PresenceScale` has 0 and 1 alone. What a constraint allows is a set of codes, as bits. It holds
the code of every value that passes, and other codes where the scale is too coarse to separate them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Protocol

from holdfast.language.constraint import Constraint
from holdfast.model.values import Kind, Value, kind_of
from holdfast.protocol.records.ordering import Key, Stretch, above, excluded, key_of, stretches
from holdfast.protocol.records.tags import spelling

MISSING = 0
UNPLACED = 1
FIRST_BIN = 2
WIDTH_MAX = 12  # bits of a code: 4,094 bins
_CODES_MAX = 16_384  # hashes remembered per scale, about 2 MB; then all are forgotten

Codes = int  # a set of codes: bit n stands for the code n


class Scale(Protocol):
    @property
    def width(self) -> int: ...
    def code(self, value: Value | None) -> int: ...
    def allowed(self, each: Constraint) -> Codes: ...


@dataclass(frozen=True)
class PresenceScale:
    width: int = 1

    def code(self, value: Value | None) -> int:
        return MISSING if value is None else UNPLACED

    def allowed(self, each: Constraint) -> Codes:
        return 1 << MISSING if each.op == "IS NULL" else 1 << UNPLACED


@dataclass(frozen=True)
class HashedScale:
    """Equality only, of values of any kind."""

    width: int
    _known: dict[bytes, int] = field(default_factory=dict, compare=False, repr=False)

    def code(self, value: Value | None) -> int:
        if value is None:
            return MISSING
        spelt = spelling(value)
        if spelt is None:
            return UNPLACED
        known = self._known.get(spelt)
        if known is None:
            if len(self._known) >= _CODES_MAX:
                self._known.clear()
            hashed = int.from_bytes(blake2b(spelt, digest_size=8).digest(), "big")
            known = self._known[spelt] = FIRST_BIN + hashed % ((1 << self.width) - FIRST_BIN)
        return known

    def allowed(self, each: Constraint) -> Codes:
        codes = (1 << (1 << self.width)) - 1
        if each.op == "IS NULL":
            return 1 << MISSING
        if each.op == "IS NOT NULL":
            return codes ^ 1 << MISSING
        if each.op in ("=", "IN"):
            listed = each.operand if isinstance(each.operand, tuple) else (each.operand,)
            return _union(1 << self.code(value) for value in listed)
        if each.kind is Kind.LIST:
            return 1 << UNPLACED
        return codes ^ 1 << MISSING ^ 1 << UNPLACED


@dataclass(frozen=True)
class OrderedScale:
    """Bins between boundaries, for values of one kind; a boundary belongs to the bin above it.

    `points` are values with a bin of their own. `knots` are quantiles; between two knots lie `parts` bins of equal
    width, because a few knots say nearly as much as hundreds of boundaries and are much shorter to send.
    """

    kind: Kind
    points: tuple[Key, ...] = ()
    knots: tuple[Key, ...] = ()
    parts: int = 1

    @property
    def bins_max(self) -> int:
        """How many bins there may be, told without working them out."""
        return 2 * len(self.points) + max(1, len(self.knots) - 1) * self.parts + 1

    @cached_property
    def boundaries(self) -> list[Key]:
        edges: list[Key] = list(self.points)
        edges += [edge for edge in map(above, self.points) if edge is not None]
        for low, high in zip(self.knots, self.knots[1:], strict=False):
            edges += _between(low, high, self.parts)
        edges += self.knots[-1:]
        # `points` and `knots` hold one kind each, so they compare; equal ones, 5 and 5.0, are one boundary.
        edges.sort()
        return [edge for at, edge in enumerate(edges) if at == 0 or edge != edges[at - 1]]

    @cached_property
    def width(self) -> int:
        return (FIRST_BIN + len(self.boundaries)).bit_length()

    def code(self, value: Value | None) -> int:
        if value is None:
            return MISSING
        if kind_of(value) is not self.kind or value != value:
            return UNPLACED
        key = key_of(value) if self.kind is Kind.TIMESTAMP else value
        return FIRST_BIN + bisect_right(self.boundaries, key)

    def allowed(self, each: Constraint) -> Codes:
        if each.op == "IS NULL":
            return 1 << MISSING
        bins = (1 << len(self.boundaries) + 1) - 1
        if each.op == "IS NOT NULL":
            return bins << FIRST_BIN | 1 << UNPLACED
        if each.kind is not self.kind:
            return 1 << UNPLACED
        wanted = stretches(each)
        if wanted is not None:
            return _union(_run(*self.bins_meeting(stretch)) for stretch in wanted) << FIRST_BIN
        return (bins & ~_union(_run(*self._bins_within(stretch)) for stretch in excluded(each))) << FIRST_BIN

    def bins_meeting(self, stretch: Stretch) -> tuple[int, int]:
        """The first and the last bin that hold a value of the stretch."""
        low, high = stretch
        edges: Sequence[Key] = self.boundaries
        first = 0 if low is None else bisect_right(edges, low)
        return first, len(edges) if high is None else bisect_left(edges, high)

    def _bins_within(self, stretch: Stretch) -> tuple[int, int]:
        """The first and the last bin that hold no other value; the first is larger when there is none."""
        low, high = stretch
        edges: Sequence[Key] = self.boundaries
        first = 0 if low is None else bisect_left(edges, low) + 1
        return first, len(edges) if high is None else bisect_right(edges, high) - 1


BOOLEAN = OrderedScale(Kind.BOOLEAN, points=(True,))


def _between(low: Key, high: Key, parts: int) -> list[Key]:
    """`low` and the inner boundaries up to `high`; both ends of a record work them out alike."""
    if isinstance(low, str) or isinstance(high, str) or parts == 1:
        return [low]
    if type(low) is int and type(high) is int:
        return [low + (high - low) * part // parts for part in range(parts)]
    return [low, *(low * (1 - part / parts) + high * (part / parts) for part in range(1, parts))]


def _run(first: int, last: int) -> Codes:
    return ((1 << last - first + 1) - 1) << first if first <= last else 0


def _union(sets: Iterable[Codes]) -> Codes:
    union = 0
    for each in sets:
        union |= each
    return union

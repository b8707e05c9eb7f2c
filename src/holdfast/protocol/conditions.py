"""Conditions by their canonical text: parsed once, compared once.

Brokers treat a condition's canonical text as its identity, so what they remember about it can be shared: in a
simulation, all brokers share one book.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.language.covering import covers, overlaps
from holdfast.language.parser import parse_to_pass_on
from holdfast.language.subscription import Filter, Subscription, apart
from holdfast.model.event import Attributes
from holdfast.model.large_map import LargeMap

K = TypeVar("K", bound=Hashable)

_REMEMBERED_MAX = 200_000  # answers kept per question; at about 200 bytes each that is 40 MB, then all are forgotten
_PARSED_BYTES_MAX = 128 * 2**20  # of parsed conditions: some 300,000 of two tests, or 600 of the largest
_TEST_BYTES = 160  # a parsed constraint with its operand, and its share of the tuples around it
_PART_TESTS = 4  # a part of an expression takes as long to read as so many tests
_TEST_CHARACTERS = 128  # and so much of a text, which may be one long list, as one


class Cost(NamedTuple):
    """What a condition costs who keeps it; a short text may stand for a thousand filters."""

    filters: int = 0
    tests: int = 0  # what parsing and indexing it takes time by, in tests of one attribute: 10 µs each
    bytes: int = 0  # of the text and what is made of it, roughly


class EventIndex(Protocol[K]):
    """What a node needs of a matcher; `matching.index.Index` is one."""

    def add(self, key: K, filters: Sequence[Filter]) -> None: ...
    def remove(self, key: K, filters: Sequence[Filter]) -> None: ...
    def match(self, attributes: Attributes) -> list[K]: ...
    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]: ...

    def mark(self, key: K, filters: Sequence[Filter], bits: int) -> None:
        """Give a key these bits, in place of those that it had."""
        ...

    def marks(self, attributes: Attributes) -> int:
        """The bits of all keys that match, together."""
        ...

    def marks_each(self, events: Sequence[Attributes]) -> list[int]:
        """What `marks` says of each."""
        ...


class ConditionBook:
    def __init__(self) -> None:
        self._parsed: LargeMap[str, tuple[Subscription, Cost]] = LargeMap()
        self._parsed_bytes = 0
        self._costs: dict[Cost, Cost] = {}
        self._covers: dict[tuple[str, str], bool] = {}
        self._overlaps: dict[tuple[str, str], bool] = {}
        self.marks: dict[str, Iterable[tuple[str, object]]] = {}  # by condition: for all covers (cover.py) once

    def subscription(self, text: str) -> Subscription:
        """The parsed condition; a ConditionError for a text that is none."""
        return (self._parsed.get(text) or self._parse(text))[0]

    def cost(self, text: str) -> Cost:
        """What it costs to keep; a ConditionError for a text that is none."""
        return (self._parsed.get(text) or self._parse(text))[1]

    def untested(self, text: str) -> bool:
        """Whether there are tests in it that this node cannot make, and takes for passed."""
        if "REGEXP_LIKE" not in text:
            return False
        filters = self.subscription(text).filters
        return any(each.operand.untested for filter_ in filters for each in apart(filter_)[1])

    def _parse(self, text: str) -> tuple[Subscription, Cost]:
        """Parsed and kept, by what it takes."""
        parsed = parse_to_pass_on(text)
        cost = _cost(text, parsed)
        evict(self._costs)
        cost = self._costs.setdefault(cost, cost)  # most cost the same, and are then one object
        self._parsed_bytes += cost.bytes
        while self._parsed_bytes > _PARSED_BYTES_MAX and self._parsed:
            self._parsed_bytes -= sum(old.bytes for _, old in self._parsed.pop_part().values())
        self._parsed[text] = parsed, cost
        return parsed, cost

    def covers(self, wide: str, narrow: str) -> bool:
        pair = wide, narrow
        known = self._covers.get(pair)
        if known is None:
            evict(self._covers)
            known = self._covers[pair] = covers(self.subscription(wide), self.subscription(narrow))
        return known

    def overlaps(self, advertisement: str, subscription: str) -> bool:
        pair = advertisement, subscription
        known = self._overlaps.get(pair)
        if known is None:
            evict(self._overlaps)
            known = overlaps(self.subscription(advertisement), self.subscription(subscription))
            self._overlaps[pair] = known
        return known


def _cost(text: str, parsed: Subscription) -> Cost:
    tests = sum([1 + len(each) for each in parsed.filters])
    parts = sum([each.operand.size for filter_ in parsed.filters for each in apart(filter_)[1]])
    work = tests + _PART_TESTS * parts + len(text) // _TEST_CHARACTERS
    return Cost(len(parsed.filters), work, 2 * len(text) + _TEST_BYTES * work)


def evict(memory: dict[Any, Any]) -> None:
    if len(memory) >= _REMEMBERED_MAX:
        memory.clear()

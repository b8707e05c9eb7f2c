"""Who wants what: conditions, and the neighbours that asked for each.

An event is matched once against all conditions; the answer is the neighbours behind those that hold.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from holdfast.model.event import Attributes
from holdfast.model.large_map import LargeMap
from holdfast.protocol.conditions import ConditionBook, EventIndex

_COMBINATIONS_MAX = 4_096  # sets of neighbours remembered; a broker with more neighbours than 12 works some out again


class InterestObserver(Protocol):
    """Who is told which conditions there are."""

    def appeared(self, condition: str) -> None: ...
    def vanished(self, condition: str) -> None: ...


class Interests:
    def __init__(
        self, book: ConditionBook, new_index: Callable[[], EventIndex[str]], watch: InterestObserver | None = None
    ) -> None:
        self._book = book
        self._watch = watch
        self._index = new_index()
        # The neighbours that want an event, one bit each: `asking` says whose, until a table changes.
        self.wanting_bits: Callable[[Attributes], int] = self._index.marks
        self._wanted: LargeMap[str, int] = LargeMap()  # condition -> the neighbours that want it, one bit each
        self._bits: dict[str, int] = {}  # neighbour -> its bit, while it wants anything
        self._counts: dict[str, int] = {}  # neighbour -> how many conditions it wants
        self._names: dict[int, tuple[str, ...]] = {}  # some bits -> the neighbours they stand for, as asked before

    def add(self, neighbour: str, conditions: Iterable[str]) -> None:
        for condition in conditions:
            bit = self._bits.get(neighbour) or self._take_bit(neighbour)
            wanting = self._wanted.get(condition, 0)
            if wanting & bit:
                continue
            filters = self._book.subscription(condition).filters
            if not wanting:
                self._index.add(condition, filters)
                if self._watch is not None:
                    self._watch.appeared(condition)
            self._wanted[condition] = wanting | bit
            self._index.mark(condition, filters, wanting | bit)
            self._counts[neighbour] += 1

    def _take_bit(self, neighbour: str) -> int:
        used = sum(self._bits.values())
        bit = self._bits[neighbour] = ~used & (used + 1)  # the lowest that nobody has
        self._counts[neighbour] = 0
        self._names.clear()
        return bit

    def drop(self, neighbour: str, conditions: Iterable[str]) -> None:
        bit = self._bits.get(neighbour, 0)
        for condition in conditions:
            wanting = self._wanted.get(condition, 0)
            if not wanting & bit:
                continue
            filters = self._book.subscription(condition).filters
            self._wanted[condition] = wanting & ~bit
            self._index.mark(condition, filters, wanting & ~bit)
            self._counts[neighbour] -= 1
            if wanting == bit:
                del self._wanted[condition]
                self._index.remove(condition, filters)
                if self._watch is not None:
                    self._watch.vanished(condition)
        if bit and not self._counts[neighbour]:
            del self._bits[neighbour], self._counts[neighbour]

    def change(self, neighbour: str, before: Sequence[str], now: Sequence[str]) -> None:
        """It wants these now; mostly the same as before, and then little is done. Who tells last is named last."""
        known, wanted = dict.fromkeys(before), dict.fromkeys(now)
        self.drop(neighbour, [each for each in before if each not in wanted])
        self.add(neighbour, [each for each in now if each not in known])
        if before and neighbour in self._bits:
            self._bits[neighbour] = self._bits.pop(neighbour)
            self._names.clear()

    @property
    def count(self) -> int:
        """Of conditions."""
        return len(self._wanted)

    def conditions(self) -> Iterator[str]:
        """Each of them; what comes or goes meanwhile may be among them or not."""
        return self._wanted.walked()

    def table(self) -> tuple[Mapping[str, int], dict[str, int]]:
        """Condition -> the neighbours that want it, one bit each; neighbour -> its bit."""
        return self._wanted, self._bits

    def wants(self, neighbour: str) -> bool:
        """Whether it wants anything."""
        return neighbour in self._bits

    def wanted_apart_from(self, condition: str, neighbours: Iterable[str]) -> bool:
        """Whether anybody but these wants it."""
        wanting = self._wanted.get(condition, 0)
        for each in neighbours:
            wanting &= ~self._bits.get(each, 0)
        return wanting != 0

    def asking_for(self, condition: str) -> tuple[str, ...]:
        """The neighbours that want exactly this condition."""
        return self.asking(self._wanted.get(condition, 0))

    def wanting(self, attributes: Attributes) -> tuple[str, ...]:
        """The neighbours that want this event, each once, in the order in which they first asked for anything."""
        return self.asking(self._index.marks(attributes))

    def asking(self, wanting: int) -> tuple[str, ...]:
        """The neighbours that some bits stand for."""
        names = self._names.get(wanting)
        return self._name(wanting) if names is None else names

    def wanting_bits_each(self, events: Sequence[Attributes]) -> list[int]:
        """What `wanting_bits` says of each."""
        return self._index.marks_each(events)

    def _name(self, wanting: int) -> tuple[str, ...]:
        if len(self._names) >= _COMBINATIONS_MAX:
            self._names.clear()
        names = self._names[wanting] = tuple([name for name, bit in self._bits.items() if wanting & bit])
        return names

"""Who wants what: conditions, and the neighbours that asked for each.

An event is matched once against all conditions; the answer is the neighbours behind those that hold.
"""

from collections.abc import Callable, Iterable

from holdfast.model.event import Attributes
from holdfast.protocol.conditions import ConditionBook, EventIndex


class Interests:
    def __init__(self, book: ConditionBook, new_index: Callable[[], EventIndex[str]]) -> None:
        self._book = book
        self._index = new_index()
        self._wanted: dict[str, dict[str, None]] = {}

    def add(self, neighbour: str, conditions: Iterable[str]) -> None:
        for condition in conditions:
            wanting = self._wanted.get(condition)
            if wanting is None:
                wanting = self._wanted[condition] = {}
                self._index.add(condition, self._book.subscription(condition).filters)
            wanting[neighbour] = None

    def drop(self, neighbour: str, conditions: Iterable[str]) -> None:
        for condition in conditions:
            wanting = self._wanted.get(condition, {})
            if wanting.pop(neighbour, self) is None and not wanting:
                del self._wanted[condition]
                self._index.remove(condition, self._book.subscription(condition).filters)

    def conditions(self) -> list[str]:
        return list(self._wanted)

    def wanted_apart_from(self, condition: str, neighbour: str) -> bool:
        """Whether anybody but this neighbour wants it."""
        wanting = self._wanted.get(condition, {})
        return len(wanting) > 1 or (len(wanting) == 1 and neighbour not in wanting)

    def wanting(self, attributes: Attributes) -> dict[str, None]:
        """The neighbours that want this event, each once, in a stable order."""
        found: dict[str, None] = {}
        for condition in self._index.match(attributes):
            found.update(self._wanted[condition])
        return found

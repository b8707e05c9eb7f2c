"""Who is owed an event that is published now: every client with a matching subscription that is live.

A run asks this at every publication and reads no trace: so nothing here needs Arrow. `owed` asks it of a trace.
"""

from holdfast.matching.shared_index import IndexView, SharedIndex
from holdfast.model.event import Attributes
from holdfast.protocol.conditions import ConditionBook


class LiveSubscriptions:
    """While a run goes on: what is live now is what the next event is owed to."""

    def __init__(self, book: ConditionBook, index: SharedIndex) -> None:
        self.version = 0  # goes up with every subscription that comes or goes
        self._book = book
        self._view: IndexView[tuple[str, str]] = IndexView(index)
        self._conditions: dict[tuple[str, str], str] = {}

    def subscribed(self, client: str, id_: str, condition: str) -> None:
        self.version += 1
        self._conditions[client, id_] = condition
        self._view.add((client, id_), self._book.subscription(condition).filters)

    def unsubscribed(self, client: str, id_: str) -> str:
        self.version += 1
        condition = self._conditions.pop((client, id_))
        self._view.remove((client, id_), self._book.subscription(condition).filters)
        return condition

    def live(self) -> list[tuple[tuple[str, str], str]]:
        """The subscriptions that have not ended: client and id, and the condition."""
        return list(self._conditions.items())

    def matching(self, attributes: Attributes) -> list[tuple[str, str]]:
        """The subscriptions, by client and id, that an event matches that is published now."""
        return self._view.match(attributes)

    def asking(self) -> dict[int, list[str]]:
        """For each condition, by its number in the index, the clients that have a live subscription with it."""
        return {number: [client for client, _ in keys] for number, keys in self._view.keys.items()}

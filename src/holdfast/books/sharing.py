"""Groups in the books of a run: all members of a group are one subscriber, whichever of them gets an event.

So an event is owed to a group once. It was delivered when one member has it, and came twice when two have.
"""

from collections import Counter

from holdfast.protocol.effects import Delivered, GroupDone
from holdfast.protocol.groups.settings import group_subscriber

Subscription = tuple[str, str]  # the subscriber, and the subscription's id


class Sharing:
    def __init__(self) -> None:
        self._groups: dict[Subscription, str] = {}  # by member and id
        self._done: Counter[Subscription] = Counter()

    def begin(self, client: str, id_: str, condition: str, group: str) -> Subscription:
        """Whose subscription it is to the books."""
        if group:
            self._groups[client, id_] = group_subscriber(group, condition)
        return self.of(client, id_)

    def of(self, client: str, id_: str) -> Subscription:
        group = self._groups.get((client, id_))
        return (client, id_) if group is None else (group, f"{client} {id_}")

    def end(self, client: str, id_: str) -> Subscription:
        found = self.of(client, id_)
        self._groups.pop((client, id_), None)
        return found

    def done(self, client: str, delivered: Delivered) -> tuple[str, GroupDone | None]:
        """Who has got it, and what a member that is done with it at once says."""
        id_ = delivered.subscriptions[0] if delivered.subscriptions else ""
        if (client, id_) not in self._groups:
            return client, None
        self._done[client, id_] += 1
        return self._groups[client, id_], GroupDone(id_, self._done[client, id_])

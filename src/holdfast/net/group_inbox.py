"""A client's subscriptions that it shares with a group: what its application is done with is told to the group's home.

An event is done with when the application asks for the next one, and with `flush` and when the subscription or the
client is closed. What it has not taken by then, or a killed process was not done with, another member gets.
"""

import asyncio
from collections.abc import Callable

from holdfast.model.errors import InputError
from holdfast.net.durable import Durable, DurableInbox
from holdfast.net.subscription import QUEUE_MAX, checked_queue_max
from holdfast.protocol.effects import GroupDone, Input, SubscribeCall, UnsubscribeCall
from holdfast.protocol.groups.settings import GROUP_CHARACTERS_MAX, HANDED_MAX


def _check(group: str) -> None:
    if not isinstance(group, str) or not 0 < len(group) <= GROUP_CHARACTERS_MAX or not group.isprintable():
        raise InputError(f"group is {group!r}; it must be a printable name of 1 to {GROUP_CHARACTERS_MAX} characters")


class SharedSubscriptions:
    def __init__(self, give: Callable[[Input], None], durable: Durable | None) -> None:
        self._give = give
        self._durable = durable
        self._loop = asyncio.get_running_loop()
        self._inboxes: dict[str, DurableInbox] = {}
        self._told: dict[str, int] = {}  # how many are known to be done
        self._looks = False

    def __contains__(self, id_: str) -> bool:
        return id_ in self._inboxes

    def subscribe(self, id_: str, condition: str, group: str, queue_max: int) -> DurableInbox:
        """Join a group; where its events arrive."""
        _check(group)
        window = min(checked_queue_max(queue_max), HANDED_MAX)
        inbox = self._inboxes[id_] = DurableInbox(QUEUE_MAX, self._look_soon, lambda inbox: None)
        self._told[id_] = 0
        self._give(SubscribeCall(id_, condition, group, window))
        return inbox

    def unsubscribe(self, id_: str, lasts: bool = False) -> None:
        """Leave it; where the subscription `lasts`, the group waits for us if it has nobody else."""
        self._inboxes[id_].look()
        self.tell()
        del self._inboxes[id_], self._told[id_]
        self._give(UnsubscribeCall(id_, lasts))

    def leave(self, lasts: bool) -> None:
        for id_ in list(self._inboxes):
            self.unsubscribe(id_, lasts)

    def checkpoint(self) -> None:
        """The application is done with all that it has taken."""
        for inbox in self._inboxes.values():
            inbox.look()
        self.tell()

    def _look_soon(self, progressed: bool) -> None:
        """Once for all that happens until the event loop turns."""
        if self._durable is not None:
            self._durable.begin()
        if progressed and not self._looks:
            self._looks = True
            self._loop.call_soon(self.tell)

    def tell(self) -> None:
        self._looks = False
        for id_, inbox in self._inboxes.items():
            if inbox.done > self._told[id_]:
                self._told[id_] = inbox.done
                self._give(GroupDone(id_, inbox.done))

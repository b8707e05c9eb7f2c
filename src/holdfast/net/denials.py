"""What a client's broker has denied it, and what follows: a subscription that is narrower than the one asked for.

The application's subscription stays open and brings what the client has a right to. When that is nothing, `losses`
says so.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.language.subscription import subscription_of
from holdfast.model.event import RESERVED
from holdfast.protocol.effects import Input, SubscribeCall, UnsubscribeCall
from holdfast.wire.signals import Denied

_KEPT_MAX = 1_000


@dataclass(frozen=True)
class Denial:
    """A subscription or events that this client has no right to; or, without either, why it is slowed."""

    reason: str
    condition: str = ""  # that was subscribed to; empty: it is about events
    instead: str = ""  # what the subscription brings instead; empty: nothing
    seq: int = 0  # of the first of these events
    events: int = 0


class Denials:
    def __init__(self, give: Callable[[Input], None], on_nothing: Callable[[str], None]) -> None:
        """`on_nothing` is told why a subscription will bring nothing."""
        self.all: deque[Denial] = deque(maxlen=_KEPT_MAX)
        self._give = give
        self._on_nothing = on_nothing
        self._conditions: dict[str, str] = {}  # of open subscriptions, as the broker knows them, by id

    def on_subscribed(self, id_: str, condition: str) -> None:
        self._conditions[id_] = condition

    def on_unsubscribed(self, id_: str) -> bool:
        """Whether the broker knows of it."""
        return self._conditions.pop(id_, None) is not None

    def on_denied(self, denied: Denied) -> None:
        try:
            condition, instead = _bare(denied.condition), _bare(denied.instead)
        except ConditionError:
            return  # of a broker that speaks another language
        self.all.append(Denial(denied.reason, condition, instead, denied.seq, denied.events))
        if not condition or condition == instead:
            return
        for id_ in [id_ for id_, each in self._conditions.items() if each == condition]:
            self._give(UnsubscribeCall(id_))
            del self._conditions[id_]
            if instead:
                self._conditions[id_] = instead
                self._give(SubscribeCall(id_, instead))
        if not instead:
            self._on_nothing(denied.reason)


def _bare(condition: str) -> str:
    """A condition without what a recovering client adds to it."""
    if not condition:
        return ""
    filters = [tuple([c for c in each if not c.attribute.startswith(RESERVED)]) for each in parse(condition).filters]
    return str(subscription_of(filters))

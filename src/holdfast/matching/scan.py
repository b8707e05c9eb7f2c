"""Ask every subscription in turn: slow, obvious, and the judge of the other matchers."""

from collections.abc import Mapping

from holdfast.language.parser import as_subscription
from holdfast.language.subscription import Subscription, holds
from holdfast.model.event import attributes_of

Id = str | int


class Scan:
    def __init__(self) -> None:
        self._subscriptions: dict[Id, Subscription] = {}

    def add(self, id_: Id, condition: str | Subscription) -> None:
        self._subscriptions[id_] = as_subscription(condition)

    def remove(self, id_: Id) -> None:
        del self._subscriptions[id_]

    def match(self, event: Mapping[str, object]) -> list[Id]:
        attributes = attributes_of(event)
        return [
            id_
            for id_, subscription in self._subscriptions.items()
            if any(holds(each, attributes) for each in subscription.filters)
        ]

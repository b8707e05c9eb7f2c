"""Clocks that do not agree: a node is handed the time of its own clock, and the rest of a run sees the true one.

The layer goes around a node before anything else does. What a node says about times is by clocks, too, its own or that
of the client that published an event: the books get these in true time.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from holdfast.model.messages import Publication
from holdfast.protocol.effects import Delivered, Effect, Input, Lost, Published
from holdfast.protocol.node import Asks, Layer, Node


class OwnClock(Layer[Node]):
    def __init__(self, inner: Node, ahead_us: Mapping[str, int]) -> None:
        """`ahead_us`: by how much the clocks of nodes are ahead; who is not in it has the right time."""
        super().__init__(inner)
        self._ahead_us = ahead_us
        self._own_us = ahead_us.get(inner.name, 0)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        return [self._in_true_time(each) for each in self.inner.handle(given, now_us + self._own_us)]

    def next_due_us(self) -> int | None:
        due_us = self.inner.next_due_us()
        return None if due_us is None else due_us - self._own_us

    def has_settled(self, now_us: int) -> bool:
        return self.inner.has_settled(now_us + self._own_us)

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        return self.inner.phases_us if isinstance(self.inner, Asks) else {}

    def _in_true_time(self, effect: Effect) -> Effect:
        if isinstance(effect, Published | Delivered):
            return replace(effect, publication=self._published(effect.publication))
        if isinstance(effect, Lost) and effect.until_us:
            own_us = self._own_us
            return replace(effect, since_us=effect.since_us - own_us, until_us=effect.until_us - own_us)
        return effect

    def _published(self, publication: Publication) -> Publication:
        return replace(publication, time_us=publication.time_us - self._ahead_us.get(publication.source, 0))

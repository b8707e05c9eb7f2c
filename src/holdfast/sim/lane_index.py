"""An index for the bus of a simulation: events reach whoever follows their lane, whatever its condition says of them.

That is what a bus does: it knows subjects and no conditions. What clients say about recovery has subjects of its own,
for the one whom it concerns, and is matched as it is.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from holdfast.language.lanes import Lane, Pattern, Template, pattern_matches, without_control
from holdfast.language.subscription import Filter, Subscription
from holdfast.model.event import RESERVED, Attributes
from holdfast.network.settings import CarrierSettings
from holdfast.protocol.conditions import EventIndex
from holdfast.protocol.parts import BrokerParts

K = TypeVar("K", bound=Hashable)

_LANES_MAX = 10_000  # lanes of which it is remembered who follows them: a few megabytes


class LaneIndex(Generic[K]):
    def __init__(self, inner: EventIndex[K], template: Template) -> None:
        self._inner = inner  # of control messages
        self._template = template
        self._patterns: dict[K, list[tuple[Pattern, ...]]] = {}  # one entry for each time a key was added
        self._bits: dict[K, int] = {}
        self._followers: dict[Lane, list[K]] = {}

    def _covering(self, filters: Sequence[Filter]) -> tuple[Pattern, ...]:
        return self._template.covering(without_control(Subscription(tuple(filters)))).patterns

    def add(self, key: K, filters: Sequence[Filter]) -> None:
        self._inner.add(key, filters)
        self._patterns.setdefault(key, []).append(self._covering(filters))
        self._followers.clear()

    def remove(self, key: K, filters: Sequence[Filter]) -> None:
        self._inner.remove(key, filters)
        self._patterns[key].remove(self._covering(filters))
        if not self._patterns[key]:
            del self._patterns[key]
            self._bits.pop(key, None)
        self._followers.clear()

    def mark(self, key: K, filters: Sequence[Filter], bits: int) -> None:
        self._inner.mark(key, filters, bits)
        self._bits[key] = bits

    def match(self, attributes: Attributes) -> list[K]:
        if any(name.startswith(RESERVED) for name in attributes):
            return self._inner.match(attributes)
        lane = self._template.lane(attributes)
        known = self._followers.get(lane)
        if known is None:
            if len(self._followers) >= _LANES_MAX:
                self._followers.clear()
            known = self._followers[lane] = [
                key
                for key, added in self._patterns.items()
                if any(pattern_matches(each, lane) for patterns in added for each in patterns)
            ]
        return known

    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]:
        return [self.match(each) for each in events]

    def marks(self, attributes: Attributes) -> int:
        if any(name.startswith(RESERVED) for name in attributes):
            return self._inner.marks(attributes)
        bits = 0
        for key in self.match(attributes):
            bits |= self._bits.get(key, 0)
        return bits

    def marks_each(self, events: Sequence[Attributes]) -> list[int]:
        return [self.marks(each) for each in events]


def for_bus(parts: BrokerParts, carrier: CarrierSettings | None) -> BrokerParts:
    """What a broker is made of that stands for a bus; without one, as it is."""
    if carrier is None:
        return parts
    template, new_index = carrier.template, parts.new_index
    return replace(parts, new_index=lambda: LaneIndex(new_index(), template))

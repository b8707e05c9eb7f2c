"""Publications spelled out in the network file: one at a given time, or the same one every so often."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.model.values import Value
from holdfast.network.workload.publication import EventTraits, ScheduledEvent


@dataclass(frozen=True, slots=True)
class Scheduled(EventTraits):
    at_us: int
    attributes: dict[str, Value]
    every_us: int | None = None  # None publishes once
    until_us: int | None = None

    def mean_per_s(self, duration_us: int) -> float:
        """Over the run: a burst of a second counts as what it adds, not as what it would be if it went on."""
        until_us = self.ends_us(duration_us)
        number = 1.0 if self.every_us is None else max(0, until_us - self.at_us) / self.every_us
        return 1e6 * number / duration_us

    def ends_us(self, duration_us: int) -> int:
        return duration_us if self.until_us is None else min(self.until_us, duration_us)


def scheduled(client: str, each: Scheduled, duration_us: int) -> Iterator[ScheduledEvent]:
    until_us = each.ends_us(duration_us)
    for at_us in range(each.at_us, until_us, each.every_us or max(1, until_us)):
        yield ScheduledEvent(at_us, client, dict(each.attributes), each.payload_bytes, each.lifetime_us)

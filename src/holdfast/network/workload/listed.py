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


def scheduled(client: str, each: Scheduled, duration_us: int) -> Iterator[ScheduledEvent]:
    until_us = duration_us if each.until_us is None else min(each.until_us, duration_us)
    times = range(each.at_us, until_us, each.every_us or max(1, until_us))
    for at_us in times:
        yield ScheduledEvent(at_us, client, dict(each.attributes), each.payload_bytes, each.lifetime_us)

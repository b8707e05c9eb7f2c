"""P6, the promises of replication, checked on deliveries and on nothing else (properties 1 to 4 of paper 003).

Complete: of two subscribers that asked for the same, each gets what the other gets, between any two events of a source
that both got. Ordered: nobody gets events of one source out of order. The weak forms leave out events that were sent to
the faulty broker, which nobody can bring back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

EventId = tuple[str, int]  # source and number
Deliveries = Mapping[str, Sequence[EventId]]  # by subscriber, in the order in which they came


@dataclass(frozen=True)
class Witness:
    """Why a promise does not hold."""

    subscriber: str
    event: EventId
    against: str  # who got it, or what came before it

    def __str__(self) -> str:
        source, seq = self.event
        return f"{self.subscriber} and {source}/{seq}: {self.against}"


def incomplete(
    deliveries: Deliveries, alike: Iterable[tuple[str, str]], left_out: Collection[EventId] = ()
) -> Witness | None:
    """An event that one of two alike subscribers missed between two that both got."""
    for pair in alike:
        one, other = (set(deliveries.get(name, ())).difference(left_out) for name in pair)
        both = one & other
        for source in sorted({source for source, _ in both}):
            seqs = [seq for of, seq in both if of == source]
            for event in sorted(one ^ other):
                if event[0] == source and min(seqs) < event[1] < max(seqs):
                    loser, winner = pair if event in other else reversed(pair)
                    return Witness(loser, event, f"{winner} got it")
    return None


def unordered(deliveries: Deliveries, left_out: Collection[EventId] = ()) -> Witness | None:
    """An event that came after a later one of its source."""
    for subscriber, events in deliveries.items():
        by_source: dict[str, list[int]] = {}
        for source, seq in events:
            if (source, seq) not in left_out:
                by_source.setdefault(source, []).append(seq)
        for source, seqs in by_source.items():
            for before, after in pairwise(seqs):
                if after < before:
                    return Witness(subscriber, (source, after), f"came after {before}")
    return None

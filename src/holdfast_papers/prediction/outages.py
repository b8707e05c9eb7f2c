"""What becomes of single events when the outages are known: the four schemes' rules, one event at a time.

A run's failures come from dice that are named after what fails, so whoever has the network file can draw the same
outages and say of every event what the model expects. That is a far sharper yardstick for a run than the share of the
long run: what is left to differ is how brokers find out and how long they take to find each other again."""

from bisect import bisect_right
from collections.abc import Sequence
from math import inf
from random import Random
from statistics import fmean

from holdfast.network.schema import Network
from holdfast.planner.components import US_PER_S
from holdfast.planner.overlay import Overlay, Path


class Outages:
    """For each component, brokers first, when it goes down, up, down and so on; all begin up."""

    def __init__(self, changes_s: Sequence[Sequence[float]]) -> None:
        self._changes_s = changes_s

    def is_up(self, part: int, at_s: float) -> bool:
        return bisect_right(self._changes_s[part], at_s) % 2 == 0

    def up_from(self, part: int, at_s: float) -> float:
        """The first moment from then on at which it is up."""
        place = bisect_right(self._changes_s[part], at_s)
        if place % 2 == 0:
            return at_s
        return self._changes_s[part][place] if place < len(self._changes_s[part]) else inf


def outages_of(network: Network) -> Outages:
    """Those that a run of the network file has, simulated or live."""
    named = [(broker.id, broker.mtbf_us, broker.mttr_us) for broker in network.brokers]
    named += [(f"{link.a}-{link.b}", link.mtbf_us, link.mttr_us) for link in network.links]
    return Outages([_changes_s(network, *each) for each in named])


def _changes_s(network: Network, name: str, mtbf_us: int | None, mttr_us: int | None) -> list[float]:
    found: list[float] = []
    if not mtbf_us or not mttr_us:
        return found
    dice, at_us = Random(f"{network.seed}/{name}/failures"), 0
    while at_us < 2 * network.duration_us:
        at_us += max(1, round(dice.expovariate(1 / (mttr_us if len(found) % 2 else mtbf_us))))
        found.append(at_us / US_PER_S)
    return found


def arrives(overlay: Overlay, path: Path, outages: Outages, at_s: float, lifetime_s: float) -> dict[str, bool]:
    """By scheme, whether an event that is published then on this path arrives in time; the end brokers are counted."""
    brokers = len(overlay.names)
    parts = [*path.brokers, *(brokers + link for link in path.links)]
    connected = _connected(overlay, path.brokers[0], path.brokers[-1], outages, at_s)
    in_time = _passes(brokers, path, outages, at_s) <= at_s + lifetime_s
    return {
        "basic": all(outages.is_up(part, at_s) for part in parts),
        "multipath": connected,
        "retransmission": in_time,
        "hybrid": in_time or connected,
    }


def share_in_time(
    overlay: Overlay, path: Path, outages: Outages, times_s: Sequence[float], lifetime_s: float, scheme: str
) -> float:
    """Of events that are published at these times on this path, those that arrive in time."""
    return fmean(arrives(overlay, path, outages, at_s, lifetime_s)[scheme] for at_s in times_s)


def _connected(overlay: Overlay, source: int, target: int, outages: Outages, at_s: float) -> bool:
    reached = {source} if outages.is_up(source, at_s) else set[int]()
    waiting = list(reached)
    while waiting:
        for other, link in overlay.neighbours[waiting.pop()]:
            up = outages.is_up(other, at_s) and outages.is_up(len(overlay.names) + link, at_s)
            if up and other not in reached:
                reached.add(other)
                waiting.append(other)
    return target in reached


def _passes(brokers: int, path: Path, outages: Outages, at_s: float) -> float:
    """When it has passed the whole path: each hop as soon as both of its brokers and the link are up."""
    now_s = outages.up_from(path.brokers[0], at_s)
    for hop, link in enumerate(path.links):
        needed = path.brokers[hop], brokers + link, path.brokers[hop + 1]
        while now_s < inf and (later_s := max(outages.up_from(part, now_s) for part in needed)) > now_s:
            now_s = later_s
    return now_s

"""What to expect where links lose messages: approximations in closed form (papers 000 and 001, shared formulas of
both).

Losses on links are taken as independent, and a repair as lost like any other message; latencies, limits of caches and
the end of a run are left out. `holdfast reproduce prediction` puts the numbers beside the simulator's and states the
error of each. Overheads are extra transmissions of events for each one that is needed anyway."""

from dataclasses import dataclass
from math import exp, prod

import numpy as np

from holdfast.network.schema import Network
from holdfast.planner.components import US_PER_S
from holdfast.planner.plan import Case
from holdfast.planner.shared_repairs import Row, noticed
from holdfast.planner.uniformization import Floats

_TRIES = 10  # requests for a lost event, from end to end: who is not answered by then is cut off, which is not loss


@dataclass(frozen=True)
class PushGossip:
    """What of push gossip matters here."""

    interval_s: float
    buffer: int  # events that a broker keeps
    forward: float  # chance that a digest goes one link farther
    patterns: int  # different conditions in the network, about which brokers gossip in turn


@dataclass(frozen=True)
class Forecast:
    mechanism: str
    delivered: float  # share of what is owed
    overhead: float | None  # None where there is no closed form worth giving

    def as_json(self) -> dict[str, object]:
        return {
            "mechanism": self.mechanism,
            "delivered": self.delivered,
            "overhead": self.overhead,
            "method": "approximation",
        }


def unrepaired(loss: float, tries: int) -> float:
    """That none of so many requests brings an answer: each needs to get there and back."""
    return (1 - (1 - loss) ** 2) ** tries


def on_links(losses: list[float], tries: int) -> float:
    """Delivered over links that each repair their own losses (`hops = "nack"`)."""
    return prod(1 - loss * unrepaired(loss, tries) for loss in losses)


def by_digests(loss: float, digests: int, tries: int = _TRIES) -> float:
    """Delivered with end-to-end recovery: noticed from one of `digests`, then asked for and repaired.

    Who misses all digests notices from later ones that some were missed, and asks; so only the tries limit it.
    """
    unnoticed = loss**digests * unrepaired(loss, tries)
    return 1 - loss * (unnoticed + (1 - unnoticed) * unrepaired(loss, tries))


def by_records(noticed: float, loss: float, tries: int = _TRIES) -> float:
    """Delivered when events tell of the ones before them (Eq. 1) and their publisher repairs what is noticed."""
    return 1 - loss * (1 - noticed * (1 - unrepaired(loss, tries)))


def by_push(loss: float, holders: float, persistence_s: float, every_s: float, patterns: int, reach: float) -> float:
    """Delivered with push gossip (paper 001): each holder of an event gossips about one pattern in turn.

    For the shape only: gossips that concern the event come at random while it is in caches, and each reaches one who
    misses it with probability `reach`.
    """
    gossips = holders * persistence_s / (every_s * patterns)
    return 1 - loss * exp(-gossips * reach)


def gossip_of(network: Network) -> PushGossip | None:
    """The network's own gossip as far as it is push."""
    found = network.reliability.gossip
    if found is None or found.style != "push":
        return None
    conditions = {each.condition for client in network.clients for each in client.subscriptions}
    return PushGossip(found.interval_us / US_PER_S, found.buffer, found.forward_ratio, max(1, len(conditions)))


def forecasts(
    case: Case, digests: int, record: int, link_tries: int, gossip: PushGossip | None = None
) -> list[Forecast]:
    """Means over what is owed; empty when no link loses anything."""
    if not any(link.loss for link in case.overlay.links):
        return []
    weights, rows = _owed(case)
    links = [list(row.losses.values()) for row in rows]
    total = weights.sum()
    ends = np.array([1 - prod(1 - loss for loss in each) for each in links])
    mean_loss = float(weights @ ends / total)
    per_link = [loss for each in links for loss in each]
    again = float(np.mean([loss / (1 - loss) for loss in per_link])) if per_link and max(per_link) < 1 else None

    def mean(values: list[float]) -> float:
        return float(weights @ np.array(values) / total)

    found = [] if gossip is None else [Forecast("gossip, push", _pushed(case, gossip, weights, links, ends), None)]
    return [
        *found,
        Forecast("best effort", 1 - mean_loss, 0.0),
        Forecast("nack", mean([on_links(each, link_tries) for each in links]), again),
        Forecast("end-to-end, digests", mean([by_digests(float(each), digests) for each in ends]), mean_loss),
        Forecast(
            "end-to-end, records",
            mean([by_records(each, float(loss)) for each, loss in zip(noticed(rows, record), ends, strict=True)]),
            None,
        ),
    ]


def _pushed(case: Case, gossip: PushGossip, weights: Floats, links: list[list[float]], ends: Floats) -> float:
    """Holders, and how long they hold an event, from the rates; a digest, a request and an answer go the way once
    each."""
    total, published = float(weights.sum()), float(case.demand.published.sum())
    homes = len({each.broker for each in case.demand.subscribers})
    loss = float(weights @ ends / total)
    if loss in (0.0, 1.0):
        return 1 - loss  # nothing is missed, or nobody has anything to gossip about
    holders = max(0.0, total / published * (1 - loss) - 1)
    persistence_s = gossip.buffer / (total * (1 - loss) / homes)
    far = float(weights @ np.array([len(each) for each in links]) / total)
    mean = float(np.mean([each for row in links for each in row]))
    reach = gossip.forward ** max(0.0, far - 1) * (1 - mean) ** (3 * far)
    return by_push(loss, holders, persistence_s, gossip.interval_s, gossip.patterns, reach)


def _owed(case: Case) -> tuple[Floats, list[Row]]:
    """For each pair of an origin and subscribers alike: events a second, and the losses on its way."""
    rates: dict[tuple[int, int, float], float] = {}
    published: dict[int, float] = {}
    number = case.overlay.number
    for origin, rate in zip(case.demand.origins, case.demand.published, strict=True):
        published[number[origin.broker]] = published.get(number[origin.broker], 0.0) + float(rate)
    for at, subscriber in enumerate(case.demand.subscribers):
        for origin_at, rate in enumerate(case.demand.rates(at)):
            if rate > 0:
                own = case.demand.published[origin_at]
                match = round(min(1.0, float(rate / own)), 6) if own else 1.0
                key = number[case.demand.origins[origin_at].broker], number[subscriber.broker], match
                rates[key] = rates.get(key, 0.0) + float(rate)
    ways = {target: case.overlay.ways_to(target) for target in {target for _, target, _ in rates}}
    weights, rows = [], []
    for (source, target, match), rate in rates.items():
        path = ways[target].path(source)
        if path is not None:
            losses = {link: case.overlay.links[link].loss for link in path.links}
            weights.append(rate)
            rows.append(Row(source, match, rate / published[source] if published[source] else 0.0, losses))
    return np.array(weights), rows

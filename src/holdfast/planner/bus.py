"""What to expect over a bus: one hub, and losses on the ways to it and from it.

Events of the workload are drawn as a run would draw them; each goes to whoever follows its lane, and is owed to whoever
has a condition that it matches. Losses are independent. A subscriber that is sent more than it takes gets what it
takes, in the long run, of whatever kind; recovery cannot help it, because repairs wait in the same queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from holdfast.language.lanes import pattern_matches
from holdfast.language.parser import parse
from holdfast.matching.matcher import Matcher
from holdfast.network.schema import ClientSpec, Network
from holdfast.network.settings import CarrierSettings
from holdfast.planner.components import US_PER_S, from_us
from holdfast.planner.loss import by_digests

_DRAWN_MAX = 20_000  # events, in a second or two; rates are then known to 1 %


@dataclass(frozen=True)
class BusPrediction:
    """Of one subscriber: events a second, and which share of what it is owed comes."""

    subscriber: str
    owed_per_s: float
    sent_per_s: float  # on the lanes that it follows
    best_effort: float
    end_to_end: float | None  # None: more is sent than it takes

    def as_json(self) -> dict[str, object]:
        return {
            "subscriber": self.subscriber,
            "owed_per_s": self.owed_per_s,
            "sent_per_s": self.sent_per_s,
            "best_effort": self.best_effort,
            "end_to_end": self.end_to_end,
            "method": "approximation",
        }


def predict_bus(network: Network, digests: int) -> list[BusPrediction]:
    """For every subscriber of a file with `[carrier]`, in its order; an event is told of by so many digests."""
    assert network.carrier is not None
    return [
        BusPrediction(client.id, owed, sent, *_delivered(network, network.carrier, sent, digests))
        for client, owed, sent in _rates(network, network.carrier)
    ]


def delivered_share(up_loss: float, down_loss: float, sent_per_s: float, takes_per_s: float | None) -> float:
    """At best effort: what neither way loses and the bus does not drop for a subscriber that is slow."""
    arrives_per_s = sent_per_s * (1 - up_loss)
    kept = 1.0 if takes_per_s is None or arrives_per_s <= takes_per_s else takes_per_s / arrives_per_s
    return (1 - up_loss) * (1 - down_loss) * kept


def _delivered(
    network: Network, carrier: CarrierSettings, sent_per_s: float, digests: int
) -> tuple[float, float | None]:
    (hub,) = network.brokers
    up = from_us(hub.mtbf_us, hub.mttr_us).availability
    losses = carrier.up_loss_ratio, carrier.down_loss_ratio
    share = delivered_share(*losses, sent_per_s, carrier.takes_per_s)
    if carrier.takes_per_s is not None and sent_per_s * (1 - losses[0]) > carrier.takes_per_s:
        return up * share, None
    return up * share, by_digests(1 - share, digests)


def _rates(network: Network, carrier: CarrierSettings) -> Iterator[tuple[ClientSpec, float, float]]:
    """Each subscriber, with the events a second that it is owed and that travel on its lanes."""
    subscribers = [client for client in network.clients if client.subscriptions]
    template, matcher = carrier.template, Matcher()
    lanes = []
    for at, client in enumerate(subscribers):
        conditions = [parse(each.condition) for each in client.subscriptions]
        lanes.append([pattern for each in conditions for pattern in template.covering(each).patterns])
        for number, each in enumerate(client.subscriptions):
            matcher.add(f"{at}/{number}", each.condition)
    owed, sent = [0] * len(subscribers), [0] * len(subscribers)
    span_us = network.duration_us
    following: dict[tuple[str, ...], list[int]] = {}
    for drawn, event in enumerate(islice(network.publications(), _DRAWN_MAX), 1):
        if event.at_us > network.duration_us:
            break
        lane = template.lane(event.attributes)
        if lane not in following:
            matching = [any(pattern_matches(each, lane) for each in own) for own in lanes]
            following[lane] = [at for at, does in enumerate(matching) if does]
        for at in following[lane]:
            sent[at] += 1
        for at in {int(str(key).partition("/")[0]) for key in matcher.match(event.attributes)}:
            owed[at] += 1
        if drawn == _DRAWN_MAX:
            span_us = max(1, event.at_us)
    for at, client in enumerate(subscribers):
        yield client, owed[at] * US_PER_S / span_us, sent[at] * US_PER_S / span_us

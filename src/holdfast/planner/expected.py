"""What each subscriber gets of what it is owed, with what the network file has chosen: losses on links and failures.

Losses: the closed forms of `loss`, along the way of each pair. Failures: the plan's share for the file's scheme. The
two are taken as independent. It is what `holdfast plan` prints as means over all, for each subscriber by itself.
"""

from dataclasses import dataclass, replace
from math import prod

from holdfast.network.schema import Network
from holdfast.planner.loss import by_digests, on_links
from holdfast.planner.plan import SCHEMES, Case, case_of, plan


@dataclass(frozen=True)
class ExpectedShare:
    direct: float  # by the original way alone
    in_the_end: float  # with what the network does about losses


def expected_shares(network: Network) -> dict[str, ExpectedShare]:
    """By subscriber; empty when nobody publishes, or nobody wants anything."""
    case = case_of(network)
    if not case.demand.origins or not case.demand.subscribers:
        return {}
    up = _up(network, case)
    return {
        each.id: ExpectedShare(*(share * up.get(each.id, 1.0) for share in _despite_losses(network, case, at)))
        for at, each in enumerate(case.demand.subscribers)
    }


def _up(network: Network, case: Case) -> dict[str, float]:
    """The share that failures alone leave; those who are not in it get everything."""
    if min(case.overlay.availabilities) == 1:
        return {}
    hops = network.reliability.hops.hops
    scheme = hops if hops in SCHEMES else "basic"
    lossless = replace(case.overlay, links=tuple(replace(link, loss=0.0) for link in case.overlay.links))
    found = plan(Case(lossless, case.demand), network.plan.samples, network.seed, frozenset({scheme}))
    return {each.subscriber: each.of(scheme, network.plan.endpoints) for each in found}


def _despite_losses(network: Network, case: Case, at: int) -> tuple[float, float]:
    """Of one subscriber: by the original way, and in the end."""
    overlay, subscriber = case.overlay, case.demand.subscribers[at]
    target = overlay.number[subscriber.broker]
    ways = overlay.ways_to(target)
    total = direct = in_the_end = 0.0
    for origin, rate in zip(case.demand.origins, case.demand.rates(at), strict=True):
        path = ways.path(overlay.number[origin.broker])
        if path is not None and rate > 0:
            losses = [overlay.links[link].loss for link in path.links]
            total += float(rate)
            direct += float(rate) * prod(1 - each for each in losses)
            in_the_end += float(rate) * _recovered(network, losses)
    return (direct / total, in_the_end / total) if total else (1.0, 1.0)


def _recovered(network: Network, losses: list[float]) -> float:
    hops = network.reliability.hops
    told = getattr(network.reliability.guarantees.recovery, "told", None)  # `srm` tells nothing apart from events
    if hops.durable:
        return 1.0  # brokers keep an event until the next one has it
    over_links = on_links(losses, hops.nack.tries) if hops.hops == "nack" else prod(1 - each for each in losses)
    return over_links if told is None else by_digests(1 - over_links, told)

"""Which lane carries the events of a network: one of compiled code where it does what machines do, or none.

Lanes are imported where one is taken: numba takes a second and 110 MB.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.books.ledger import Ledger
from holdfast.matching.shared_index import SharedIndex
from holdfast.network.schema import Network
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.settings import BEST_EFFORT
from holdfast.protocol.stack import are_told_apart
from holdfast.sim.carrier import Carrier, Perform
from holdfast.sim.links import REORDERED_MAX
from holdfast.sim.topology import Topology
from holdfast.sim.turns import Turns

if TYPE_CHECKING:
    from holdfast.books.trace import TraceWriter

_TABLE_CELLS_MAX = 8_000_000  # brokers times conditions, at eight bytes: 64 MB for the picture of the tables
_RINGS_MAX = 64_000_000  # events kept by all links at once, at 32 bytes: 2 GB
_CELLS_MAX = 20_000_000  # what brokers that gossip remember of each other, at 72 bytes: 1.4 GB
_WINDOW_MIN = 65_536  # numbers of a source: fewer may be forgotten while an event is looked for
_DEGREE_MAX = 14  # neighbours of a broker that gossips: compiled code has so many random numbers at hand
_CHANGES = ("subscribe", "unsubscribe")  # what may happen besides events where links repair their losses


def lane_for(
    network: Network,
    seed: int,
    turns: Turns,
    topology: Topology,
    book: ConditionBook,
    index: SharedIndex,
    ledger: Ledger,
    trace: "TraceWriter | None",
    perform: Perform,
) -> Carrier:
    parts = seed, network.protocol.hops_max, topology, book, index, ledger, trace, perform
    if suits(network):
        from holdfast.sim.express import Express  # noqa: PLC0415

        return Express(*parts)
    if suits_numbered(network):
        from holdfast.sim.numbered_express import NumberedExpress  # noqa: PLC0415

        return NumberedExpress(network.reliability.hops.nack, network.lossy_control, turns, *parts)
    may_begin_again = trace is None or not _is_narrow(network)
    if suits_gossip(network) and may_begin_again and _have_own_tags(network, book):
        from holdfast.sim.gossip_express import GossipExpress  # noqa: PLC0415

        assert network.reliability.gossip is not None
        wait_max_us = _slack_us(network) // 2  # half, because what is sent before takes its time, too
        return GossipExpress(network.reliability.gossip, (*_class_sizes(network), wait_max_us), turns, *parts)
    return Carrier()


def suits(network: Network) -> bool:
    """Whether all that becomes of an event depends on tables and dice alone, and it arrives at most once."""
    return (
        network.reliability.hops.hops == "basic"
        and network.reliability.gossip is None
        and _carries(network)
        and not _is_narrow(network)
        and not any(fault.kind == "hang" for fault in network.faults)
    )


def _carries(network: Network) -> bool:
    """What any lane needs: tables and dice alone say where an event goes, and what links do to it."""
    conditions = {each.condition for client in network.clients for each in client.subscriptions}
    return (
        network.routing != "destinations"
        and network.reliability.guarantees == BEST_EFFORT
        and network.replication is None
        and not any(broker.service_us for broker in network.brokers)
        and not any(link.burst or link.duplicate_ratio for link in network.links)
        and len(conditions) * len(network.brokers) <= _TABLE_CELLS_MAX
    )


def _is_narrow(network: Network) -> bool:
    """Whether a message may wait for those before it."""
    return any(link.bytes_per_s for link in network.links)


def suits_numbered(network: Network) -> bool:
    """Whether links repair losses, and nothing but events, requests and timers touches what they remember."""
    return (
        network.reliability.hops.hops == "nack"
        and network.reliability.gossip is None
        and _carries(network)
        and not _is_narrow(network)
        and _lasts(network)
        and all(fault.kind in _CHANGES for fault in network.faults)
        and 2 * len(network.links) * network.reliability.hops.nack.ring <= _RINGS_MAX
    )


def suits_gossip(network: Network) -> bool:
    """Whether brokers gossip past the links, nothing of the network changes, and few of their bounds matter."""
    gossip, brokers = network.reliability.gossip, len(network.brokers)
    classes, own = _class_sizes(network)
    return (
        gossip is not None
        and gossip.transfer == "direct"
        and not gossip.transfer_loss_ratio
        and network.reliability.hops.hops == "basic"
        and _carries(network)
        and _lasts(network)
        and _slack_us(network) > 0
        and not network.faults
        and not (network.lossy_control and any(link.loss_ratio for link in network.links))
        and all(not each.from_us and each.until_us is None for c in network.clients for each in c.subscriptions)
        and max((len(each) for each in network.neighbours().values()), default=0) <= _DEGREE_MAX
        and brokers <= gossip.origins_max
        and len(network.clients) <= network.protocol.dedup_sources
        and network.protocol.dedup_window >= _WINDOW_MIN
        and _longest_way(network.neighbours()) < network.protocol.hops_max
        and brokers * own <= gossip.streams_max
        and brokers * brokers * own + brokers * classes + brokers * gossip.buffer <= _CELLS_MAX
    )


def _have_own_tags(network: Network, book: ConditionBook) -> bool:
    """Whether all conditions are numbered: two that share the tag by which brokers know them are not."""
    texts = {each.condition for client in network.clients for each in client.subscriptions}
    return are_told_apart({str(book.subscription(text)) for text in texts})


def _slack_us(network: Network) -> int:
    """How much longer than any broker's silence a lease is, whatever is drawn: else neighbours forget what it wants.

    Heartbeats leave at even intervals, but one may take the longest way possible and the one before it the shortest.
    """
    spread_us = (
        2 * each.jitter_us + (REORDERED_MAX * each.delay_us if each.reorder_ratio else 0) for each in network.links
    )
    return network.protocol.lease_us - network.protocol.heartbeat_us - max(spread_us, default=0)


def _longest_way(neighbours: Mapping[str, Iterable[str]]) -> int:
    """The most links between two brokers of a tree."""
    longest = 0
    left = dict.fromkeys(neighbours)
    while left:
        ends = [next(iter(left))]
        for _ in range(2):  # what is farthest from anywhere is an end of the longest way
            distances = {ends[-1]: 0}
            ends = [ends[-1]]
            for broker in ends:
                for to in neighbours[broker]:
                    if to not in distances:
                        distances[to] = distances[broker] + 1
                        ends.append(to)
        longest = max(longest, distances[ends[-1]])
        for broker in ends:
            del left[broker]
    return longest


def _class_sizes(network: Network) -> tuple[int, int]:
    """Conditions in all, and those of the clients of one broker, at most."""
    own: dict[str, dict[str, None]] = {}
    for client in network.clients:
        own.setdefault(client.broker, {}).update(dict.fromkeys(each.condition for each in client.subscriptions))
    everywhere = {condition for each in own.values() for condition in each}
    return max(1, len(everywhere)), max([1, *map(len, own.values())])


def _lasts(network: Network) -> bool:
    """Whether no event expires, and neither broker nor link fails by chance."""
    return (
        not _expires(network)
        and network.reconfiguration is None
        and not any(each.mtbf_us for each in network.brokers)
        and not any(each.mtbf_us for each in network.links)
    )


def _expires(network: Network) -> bool:
    traffic = getattr(network.workload, "traffic", None)
    listed = (each.lifetime_us for client in network.clients for each in client.schedule)
    return getattr(traffic, "lifetime_us", None) is not None or any(each is not None for each in listed)

"""Which lane carries the events of a network: one of compiled code where it does what machines do, or none.

Lanes are imported where one is taken: numba takes a second and 110 MB.
"""

from typing import TYPE_CHECKING

from holdfast.books.ledger import Ledger
from holdfast.matching.shared_index import SharedIndex
from holdfast.network.schema import Network
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.settings import BEST_EFFORT
from holdfast.sim.carrier import Carrier, Perform
from holdfast.sim.topology import Topology
from holdfast.sim.turns import Turns

if TYPE_CHECKING:
    from holdfast.books.trace import TraceWriter

_TABLE_CELLS_MAX = 8_000_000  # brokers times conditions, at eight bytes: 64 MB for the picture of the tables
_RINGS_MAX = 64_000_000  # events kept by all links at once, at 32 bytes: 2 GB
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
    return Carrier()


def suits(network: Network) -> bool:
    """Whether all that becomes of an event depends on tables and dice alone, and it arrives at most once."""
    return (
        network.reliability.hops.hops == "basic"
        and _carries(network)
        and not any(fault.kind == "hang" for fault in network.faults)
    )


def _carries(network: Network) -> bool:
    """What any lane needs: tables and dice alone say where an event goes, and how long it takes over a link."""
    conditions = {each.condition for client in network.clients for each in client.subscriptions}
    return (
        network.routing != "destinations"
        and network.reliability.guarantees == BEST_EFFORT
        and network.reliability.gossip is None
        and network.replication is None
        and not any(broker.service_us for broker in network.brokers)
        and not any(link.burst or link.bytes_per_s or link.duplicate_ratio for link in network.links)
        and len(conditions) * len(network.brokers) <= _TABLE_CELLS_MAX
    )


def suits_numbered(network: Network) -> bool:
    """Whether links repair losses, and nothing but events, requests and timers touches what they remember."""
    return (
        network.reliability.hops.hops == "nack"
        and network.reliability.guarantees == BEST_EFFORT
        and _carries(network)
        and not _expires(network)
        and all(fault.kind in _CHANGES for fault in network.faults)
        and network.reconfiguration is None
        and not any(each.mtbf_us for each in network.brokers)
        and not any(each.mtbf_us for each in network.links)
        and 2 * len(network.links) * network.reliability.hops.nack.ring <= _RINGS_MAX
    )


def _expires(network: Network) -> bool:
    traffic = getattr(network.workload, "traffic", None)
    listed = (each.lifetime_us for client in network.clients for each in client.schedule)
    return getattr(traffic, "lifetime_us", None) is not None or any(each is not None for each in listed)

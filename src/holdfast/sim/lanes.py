"""Which lane carries the events of a network: one of compiled code where it does what machines do, or none."""

from holdfast.books.ledger import Ledger
from holdfast.books.trace import TraceWriter
from holdfast.matching.shared_index import SharedIndex
from holdfast.network.schema import Network
from holdfast.protocol.conditions import ConditionBook
from holdfast.sim.carrier import Carrier
from holdfast.sim.express import Express, Perform, suits
from holdfast.sim.numbered_express import NumberedExpress, suits_numbered
from holdfast.sim.topology import Topology
from holdfast.sim.turns import Turns


def lane_for(
    network: Network,
    seed: int,
    turns: Turns,
    topology: Topology,
    book: ConditionBook,
    index: SharedIndex,
    ledger: Ledger,
    trace: TraceWriter | None,
    perform: Perform,
) -> Carrier:
    parts = seed, network.protocol.hops_max, topology, book, index, ledger, trace, perform
    if suits(network):
        return Express(*parts)
    if suits_numbered(network):
        return NumberedExpress(network.reliability.hops.nack, network.lossy_control, turns, *parts)
    return Carrier()

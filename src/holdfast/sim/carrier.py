"""How events get from publishers to subscribers: the seam between the simulator and its express lane.

All that the simulator knows of a carrier: it may put a layer around each node, through which it sees what the node
does and takes over the events that it publishes; it is brought up to date before anything but a message or a timer
touches the network, and before the books hear of what a machine delivers; and it is asked for its counts, and whether
anything is on its way. The carrier here takes over nothing: events go one message at a time. `sim/express.py` has one
that carries events in bulk, `sim/numbered_express.py` one for links that repair their own losses, and
`sim/gossip_express.py` one for brokers that gossip.
"""

from collections.abc import Callable

from holdfast.model.messages import NodeKind
from holdfast.protocol.effects import Effect
from holdfast.protocol.node import Node
from holdfast.sim.host import Host

Perform = Callable[[Host, list[Effect], int], None]  # what a node wanted done at that time


class Carrier:
    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way here."""
        return False

    def around(self, node: Node, kind: NodeKind, publishes: bool) -> Node:
        """The node as the simulator is to run it."""
        return node

    def carry(self, until_us: int) -> None:
        """Let everything happen that happens before this time."""

    def lands_before(self, time_us: int) -> bool:
        """The same, but only until nothing is on its way any more; whether that was so before this time."""
        return True

    def count(self) -> None:
        """Add what was sent and received to the tallies of the nodes."""

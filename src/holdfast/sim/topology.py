"""The nodes of a run and the links between them, and every way in which either can change.

Nobody is told of a change here: that is the business of the simulator, where somebody is to be told at all.
"""

from holdfast.model.messages import Message
from holdfast.network.schema import LinkSpec
from holdfast.protocol.effects import Input
from holdfast.protocol.node import Node
from holdfast.sim.host import Channel, Host, Parcel
from holdfast.sim.links import SimLink


class Topology:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.hosts: dict[str, Host] = {}
        self.version = 0  # goes up with every change

    def add(self, host: Host) -> None:
        self.version += 1
        self.hosts[host.name] = host

    def link(self, there: LinkSpec, back: LinkSpec | None = None) -> None:
        """`back`: what the way back does to messages, where that is something else."""
        self.version += 1
        for one, other, spec in ((there.a, there.b, there), (there.b, there.a, back or there)):
            self.hosts[one].channels[other] = Channel(SimLink(spec, self._seed, one, other), self.hosts[other])

    def unlink(self, one: str, other: str) -> bool:
        """One end has no link to the other any more; False if it had none."""
        self.version += 1
        return self.hosts[one].channels.pop(other, None) is not None

    def set_link(self, a: str, b: str, up: bool) -> None:
        self.version += 1
        for one, other in ((a, b), (b, a)):
            channel = self.hosts[one].channels.get(other)
            if channel is not None:
                channel.link.up = up

    def heal_links(self) -> None:
        self.version += 1
        for host in self.hosts.values():
            for channel in host.channels.values():
                channel.link.heal()

    def stop(self, host: Host) -> list[Message]:
        """A node is gone at once; what waited for it is returned."""
        self.version += 1
        dropped = [message for _, message in [*host.served, *host.waiting]]
        dropped += [each.messages[0] for each in host.held or () if isinstance(each, Parcel)]
        host.served.clear()
        host.waiting.clear()
        host.held = None
        host.up, host.busy = False, 0
        host.incarnation += 1
        return dropped

    def hang(self, host: Host) -> None:
        """A node does nothing for a while; what comes for it waits."""
        self.version += 1
        host.up, host.held = False, []

    def resume(self, host: Host) -> list[Input | Parcel]:
        """A node goes on; what has come for it meanwhile is returned."""
        self.version += 1
        held, host.held = host.held or [], None
        host.up = True
        return held

    def start(self, host: Host, machine: Node) -> None:
        self.version += 1
        host.up, host.machine = True, machine

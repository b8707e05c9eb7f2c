"""Starts replicas in the simulator: a new broker with links like those of the broker that it stands for.

However many neighbours ask, a broker gets one replica at a time; while one is alive, or about to start, no other is
wanted, unless the neighbours know of all that work beside it and want one more. A replica is linked with all that the
broker was linked with, also if those who ask do not know of each other; for a neighbour that was replaced as well it
gets a link with that one's replica. Clients of a broker that is down find its replica, as live ones do at the same
address.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from holdfast.books.failovers import MOVED
from holdfast.network.schema import LinkSpec
from holdfast.protocol.effects import Incident, ReplicaReleased, ReplicaWanted
from holdfast.protocol.replication.settings import Role

if TYPE_CHECKING:
    from holdfast.sim.simulator import Simulation


class Provisioner:
    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._specs = {each.id: each for each in simulation.network.brokers}
        self._roles: dict[str, Role] = {}
        self._latest: dict[str, str] = {}  # broker -> the last replica in its place
        self._forgotten: set[str] = set()
        self._count = 0
        self._links: dict[str, dict[str, LinkSpec]] = {}  # broker -> neighbour -> the link between them
        for link in simulation.network.links:
            self._links.setdefault(link.a, {})[link.b] = link
            self._links.setdefault(link.b, {})[link.a] = link

    def role(self, name: str) -> Role | None:
        """Of a replica; None of any other broker."""
        role = self._roles.get(name)
        if role is None:
            return None
        return replace(role, neighbours=tuple(dict.fromkeys(map(self._standing_for, role.neighbours))))

    def is_replaced(self, name: str) -> bool:
        return self._standing_for(name) != name and not self._is_up(name)

    @property
    def is_settled(self) -> bool:
        """Whether no broker holds back events that it is going to send."""
        simulation = self._simulation
        if simulation.network.replication is None:
            return True
        brokers = [host for host in simulation.hosts.values() if host.kind == "broker"]
        return all(host.has_settled(simulation.now_us) for host in brokers)

    def on_effect(self, name: str, wanted: ReplicaWanted | ReplicaReleased) -> None:
        """A broker asks for a replica, but gets none in the place of one that works; or is one that is to end."""
        if isinstance(wanted, ReplicaReleased):
            self._simulation.crash(name, "replica_ended")  # it has nothing more, and nobody is linked with it
        elif wanted.use == "failover" and self._is_up(wanted.faulty):
            self._simulation.note(wanted.faulty, Incident("replica_not_needed", wanted.faulty))
        else:
            self.want(wanted)

    def want(self, wanted: ReplicaWanted) -> None:
        """Start a replica, unless there is one already."""
        plan = self._simulation.network.replication
        beside = wanted.use != "failover"
        alike = [each for each, role in self._roles.items() if role.faulty == wanted.faulty]
        alike = [each for each in alike if (self._roles[each].use != "failover") == beside and not self._is_over(each)]
        relief = self._roles.get(wanted.faulty)
        if plan is None or len(alike) > wanted.beside or (relief is not None and relief.use != "failover"):
            return  # a relief replica that has died is not replaced: the broker beside it is there
        self._count += 1
        name = f"{wanted.faulty}+{self._count}"
        if not beside:
            self._latest[wanted.faulty] = name
        self._roles[name] = Role(wanted.faulty, wanted.neighbours, wanted.copying, wanted.use)
        self._simulation.note(name, Incident("replica_wanted", wanted.faulty))
        self._simulation.at(self._simulation.now_us + plan.provision_us, partial(self._start, name))

    def _standing_for(self, name: str) -> str:
        """Who has taken the place of this broker: the replica of its replica, and so on."""
        latest = self._latest.get(name)
        if latest is None or latest not in self._simulation.hosts:
            return name
        return self._standing_for(latest)

    def forget(self, faulty: str) -> None:
        """Whoever asks next gets another replica, whatever became of the last one."""
        self._forgotten.add(self._latest.pop(faulty, ""))

    def _is_over(self, replica: str) -> bool:
        """Whether it neither runs nor is about to."""
        return replica in self._forgotten or (replica in self._simulation.hosts and not self._is_up(replica))

    def _is_up(self, name: str) -> bool:
        return self._simulation.hosts[name].up

    def _start(self, name: str) -> None:
        simulation, role = self._simulation, self._roles[name]
        channels = simulation.hosts[role.faulty].channels
        linked = [each for each, channel in channels.items() if channel.receiver.kind == "broker"]
        near = [each for each in dict.fromkeys((*role.neighbours, *linked)) if not self._is_relief_down(each)]
        role = self._roles[name] = replace(role, neighbours=tuple(near))
        spec = self._specs[name] = replace(self._specs[role.faulty], id=name, mtbf_us=None, mttr_us=None)
        simulation.add_broker(spec)
        simulation.note(name, Incident("replica_started", role.faulty))
        for neighbour in role.neighbours:
            self._link(name, neighbour)
        if role.use == "failover":
            if self._is_up(role.faulty):
                simulation.crash(role.faulty)  # it may only be cut off; its clients are to find the replica
            self._move_clients(role.faulty, name)

    def _is_relief_down(self, name: str) -> bool:
        """A relief replica that is down does not come back: nobody is to wait for it."""
        return name in self._roles and self._roles[name].use != "failover" and not self._is_up(name)

    def _link(self, name: str, neighbour: str) -> None:
        """Link a replica with a neighbour of its broker, or with who stands there now."""
        faulty, standing = self._roles[name].faulty, self._standing_for(neighbour)
        spec = self._links[faulty].get(neighbour)
        if spec is None or standing in self._links.setdefault(name, {}):
            return
        link = replace(spec, a=standing, b=name)
        self._links[name][standing] = self._links[name][neighbour] = link
        self._links[standing][name] = link
        self._simulation.connect(link, replaces=faulty)

    def _move_clients(self, faulty: str, replica: str) -> None:
        simulation = self._simulation
        for client, channel in list(simulation.hosts[faulty].channels.items()):
            if channel.receiver.kind == "client":
                simulation.note(client, Incident(MOVED, faulty))
                simulation.detach(client)
                simulation.at(simulation.now_us + 2, partial(simulation.attach, client, replica))

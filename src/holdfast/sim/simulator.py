"""Run a network: an agenda of things to happen, the real machines, and modelled links in between.

The loop is: take the next thing, let a machine handle it, perform the effects, re-arm its wake-up. Messages and timers
of nodes are one kind of thing; all else comes from outside the protocol, such as applications and faults, and is an
action. The same network file and seed give the same run, to the byte.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.books.ledger import Ledger
from holdfast.books.outcome import Outcome
from holdfast.books.rows import acknowledged_incident, incident_row, lost_incident
from holdfast.matching.shared_index import SharedIndex
from holdfast.model.messages import Heartbeat, NodeKind, Publish
from holdfast.network.schema import BrokerSpec, ClientSpec, LinkSpec, Network
from holdfast.network.workload.publication import ScheduledEvent
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Acknowledged,
    AdvertiseCall,
    Delivered,
    Effect,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    Multicast,
    Persist,
    Persisted,
    PublishCall,
    Published,
    ReplicaReleased,
    ReplicaWanted,
    Send,
    SubscribeCall,
    Unicast,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.groups.settings import HANDED_MAX
from holdfast.protocol.hops.settings import BASIC
from holdfast.protocol.message_kind import classify
from holdfast.protocol.node import Node
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import BEST_EFFORT
from holdfast.protocol.stack import in_one_process, new_broker, new_client
from holdfast.sim.agenda import Agenda
from holdfast.sim.carrier import Carrier
from holdfast.sim.clocks import OwnClock
from holdfast.sim.faults import Faults
from holdfast.sim.garbage_collection import rare_collections
from holdfast.sim.heartbeats import WAKE, Heartbeats
from holdfast.sim.host import Host, Parcel, all_settled
from holdfast.sim.lane_index import for_bus
from holdfast.sim.lanes import lane_for
from holdfast.sim.links import LineFull, ways_of
from holdfast.sim.provisioner import Provisioner
from holdfast.sim.run_books import RunBooks
from holdfast.sim.sending import Sending
from holdfast.sim.serving import Serving
from holdfast.sim.tallies import add_recovery, add_slice, add_transmissions, take_tallies, write_samples
from holdfast.sim.topology import Topology
from holdfast.sim.turns import Turns
from holdfast.sim.unicast import UnicastNetwork
from holdfast.store.memory import MemoryStore

if TYPE_CHECKING:
    from holdfast.books.trace import TraceWriter  # Arrow, which takes 40 MB: for runs that leave a trace

_DRAIN_US = 30_000_000  # how long after the last publication a run waits for what is still on its way
_SEARCH_US = 120_000_000  # and for what is being recovered: past the last request for it
_HELD_MAX = 100_000  # messages for a node that hangs: what buffers of the system hold, at 100 bytes each
_TALLY_US = 1_000_000  # the interval of the `messages` table

_TRUE_TIME = MappingProxyType[str, int]({})  # every clock is right

Action = Callable[[], object]


class Simulation:
    def __init__(
        self,
        network: Network,
        seed: int | None = None,
        trace: "TraceWriter | None" = None,
        express: bool = True,
        ahead_us: Mapping[str, int] = _TRUE_TIME,
    ) -> None:
        """`ahead_us`: by how much the clocks of some nodes are ahead."""
        self.network = network
        self.seed = network.seed if seed is None else seed
        self.now_us = 0
        self.flying = 0  # events on links and in queues
        self._topology = Topology(self.seed)
        self.hosts = self._topology.hosts
        self._trace = trace
        self._ahead_us = ahead_us
        self._book = ConditionBook()
        self._index = SharedIndex()
        self.ledger = Ledger(self._book, self._index, network.slice_us)
        self._turns = Turns()
        self._agenda = Agenda(self._turns)  # of messages for some nodes, timers (their times), heartbeats, and actions
        bought = network.reliability
        self._gossips = bought.gossip is not None
        self._watched = self._gossips or bought.guarantees != BEST_EFFORT  # bytes are counted by link
        self._sending = Sending(self, self._agenda, self._watched)
        self._heartbeats = Heartbeats(self._agenda, self.give, self._sending.send, self._arrive, self._rearm)
        self._publishers = {client.id for client in network.clients if client.publishes}
        self._groups = any(each.group for client in network.clients for each in client.subscriptions)
        alone = ahead_us or network.carrier is not None or self._groups  # each message matters by itself
        self._carrier = self._lane() if express and not alone else Carrier()
        self._stores = defaultdict[str, MemoryStore](MemoryStore)  # of brokers that store events: they outlive crashes
        self._tallied_us = 0
        self._books = RunBooks(self.ledger, trace)
        self._unicast = UnicastNetwork(self)
        self._serving = self.new_serving()
        self.provisioner = Provisioner(self)
        plan = network.replication and replace(network.replication, directory=None)  # nothing is outside a simulation
        self._reliability = replace(network.reliability, replication=plan)
        with rare_collections():
            self._build()

    def _lane(self) -> Carrier:
        parts = self._topology, self._book, self._index, self.ledger, self._trace, self._perform_at
        return lane_for(self.network, self.seed, self._turns, *parts)

    def new_serving(self) -> Serving:
        """How long brokers take for a message."""
        return Serving(self)

    # Time ----------------------------------------------------------------------------------------

    def at(self, time_us: int, action: Action) -> None:
        """Let something happen later. Things at the same time happen in the order they were asked for."""
        self._agenda.add(time_us, action, 0)

    def run(self, progress: Callable[[int], None] | None = None) -> Outcome:
        """Run to the end of the file's duration, and on until nothing is on its way."""
        with rare_collections(), in_one_process():
            try:
                self._run(progress)
            except LineFull:  # machines can go on where a lane cannot: from the beginning
                return Simulation(self.network, self.seed, express=False).run(progress)
            return self._finish()

    def _run(self, progress: Callable[[int], None] | None) -> None:
        end_us = self.network.duration_us
        self.at(0, lambda: self._each_second(progress))
        if self.network.slice_us is not None and self.network.reliability.guarantees != BEST_EFFORT:
            self.at(self.network.slice_us, partial(self._each_slice, self.network.slice_us))
        for planned in self.network.publications(self.seed):
            if planned.at_us > end_us:
                break
            self._run_until(planned.at_us)
            self._publish(planned)
        self._run_until(end_us)
        self._carrier.carry(end_us + 1)
        reliability = self.network.reliability
        searches = reliability.guarantees != BEST_EFFORT or reliability.hops.durable or self._gossips
        drain_us = _SEARCH_US if searches else _DRAIN_US
        while (time_us := self._agenda.next_us()) is not None and time_us <= end_us + drain_us:
            if self._landed(time_us):
                break
            self._run_until(time_us)

    def _run_until(self, until_us: int) -> None:
        """Let everything happen up to a time, and let the clock show that time."""
        carry, arrive, go_through = self._carrier.carry, self._arrive, self._heartbeats.go_through
        for now_us, _, whose, what in self._agenda.things(until_us):
            self.now_us = now_us
            if type(what) is Parcel:
                arrive(whose, what)
            elif type(what) is list:
                go_through(whose, what, now_us)
            else:
                carry(now_us)  # it may look at anything, and change it
                whose()
        self.now_us = until_us

    def _landed(self, time_us: int) -> bool:
        """Whether nothing is on its way any more, and nobody looks for anything."""
        handing = self._groups and time_us < self.network.duration_us + 2 * self.network.protocol.lease_us
        waits = handing or not self._carrier.lands_before(time_us) or self.flying or not self.provisioner.is_settled
        waits = waits or any(store.holds_events for store in self._stores.values())
        return not waits and all_settled(self._recovering, time_us)

    def _each_second(self, progress: Callable[[int], None] | None) -> None:
        if progress is not None:
            progress(self.now_us)
        if self._trace is not None and self.now_us:
            self._write_tallies(self.now_us)
            write_samples(self.hosts.values(), self._serving, self._trace, self.now_us)
        self.at(self.now_us + _TALLY_US, lambda: self._each_second(progress))

    def _each_slice(self, slice_us: int) -> None:
        """What nodes have done to recover up to the end of each slice of the run."""
        add_slice(self.hosts.values(), self.ledger.outcome, self.now_us // slice_us - 1)
        if self.now_us + slice_us <= self.network.duration_us:
            self.at(self.now_us + slice_us, partial(self._each_slice, slice_us))

    def _publish(self, planned: ScheduledEvent) -> None:
        call = PublishCall(planned.attributes, bytes(planned.payload_bytes), planned.lifetime_us)  # type: ignore[arg-type]
        self.give(self.hosts[planned.client], call)

    # Building ------------------------------------------------------------------------------------

    def _build(self) -> None:
        for broker in self.network.brokers:
            self.add_broker(broker)
        for client in self.network.clients:
            self._topology.add(Host(client.id, "client", self._new_machine(client.id, "client")))
        recovers = {"client": True, "broker": self._gossips or self.network.reliability.hops.hops == "nack"}
        self._recovering = [host for host in self.hosts.values() if recovers[host.kind]]
        for link in self.network.links:
            self.connect(link)
        for client in self.network.clients:
            self.attach(client.id, client.broker)
            self._schedule_calls(client)
        Faults(self)

    def add_broker(self, spec: BrokerSpec) -> None:
        self._serving.add(spec)
        machine = self._new_machine(spec.id, "broker")
        self._topology.add(Host(spec.id, "broker", machine, spec.service_us > 0))

    def _new_machine(self, name: str, kind: NodeKind) -> Node:
        node = self._new_node(name, kind)
        node = OwnClock(node, self._ahead_us) if self._ahead_us else node
        return self._carrier.around(node, kind, name in self._publishers)

    def _new_node(self, name: str, kind: NodeKind) -> Node:
        dice, hops = Random(f"{self.seed}/{name}/heartbeat"), self.network.reliability.hops
        common = self.network.protocol, self._book, self._index.view, self.now_us + self._ahead_us.get(name, 0), dice
        if kind == "broker":
            own = name, self.network.routing, *common, self._queue_length
            parts = for_bus(BrokerParts(*own, groups=self._groups), self.network.carrier)
            stored = self._stores[name].load() if hops.durable else None
            return new_broker(parts, self._reliability, stored, self.provisioner.role(name))
        if hops.hops == "nack" and type(self._carrier) is not Carrier:
            hops = BASIC  # lanes are for networks whose links to clients lose nothing
        bought = self.network.reliability.guarantees
        return new_client(name, *common, guarantees=bought, hops=hops, groups=self._groups)

    def _queue_length(self, name: str) -> int:
        host = self.hosts.get(name)
        return host.queue_length if host is not None else 0

    def _schedule_calls(self, client: ClientSpec) -> None:
        host = self.hosts[client.id]
        for number, condition in enumerate(client.advertisements):
            self.give(host, AdvertiseCall(f"a{number}", condition))
        for each in client.subscriptions:
            self.at(each.from_us, partial(self.subscribe, client.id, each.id, each.condition, each.group))
            if each.until_us is not None:
                self.at(each.until_us, partial(self.unsubscribe, client.id, each.id))

    # Links ---------------------------------------------------------------------------------------

    def connect(self, spec: LinkSpec, back: LinkSpec | None = None, replaces: str | None = None) -> None:
        """A link appears, and both ends learn of it; the second may be the replica of a broker."""
        self._topology.link(spec, back)
        a, b = self.hosts[spec.a], self.hosts[spec.b]
        repairs = b.kind == "client" and spec.loses and self.network.reliability.hops.hops == "nack"
        self.give(a, LinkUp(b.name, b.kind, replaces, repairs=repairs))
        self.give(b, LinkUp(a.name, a.kind, repairs=repairs))

    def disconnect(self, a: str, b: str) -> None:
        """A link is gone, and both ends learn of it."""
        for one, other in ((a, b), (b, a)):
            if self._topology.unlink(one, other):
                self.give(self.hosts[one], LinkDown(other))

    def attach(self, client: str, broker: str) -> None:
        self.connect(*ways_of(self.network.carrier, broker, client))

    def detach(self, client: str) -> None:
        """A client says good-bye and its link goes away behind the message."""
        for broker in list(self.hosts[client].channels):
            self.give(self.hosts[client], LinkDown(broker))
            self._topology.unlink(client, broker)
            self.at(self.now_us + 1, partial(self._topology.unlink, broker, client))

    def set_link(self, a: str, b: str, up: bool) -> None:
        """A link fails or recovers without anybody being told."""
        self._topology.set_link(a, b, up)
        self.note(a, Incident("link_recovered" if up else "link_failed", b))

    # Applications --------------------------------------------------------------------------------

    def subscribe(self, client: str, id_: str, condition: str, group: str = "") -> None:
        self.give(self.hosts[client], SubscribeCall(id_, condition, group, HANDED_MAX if group else 0))
        self._books.on_subscribed(client, id_, condition, group, self.now_us)

    def unsubscribe(self, client: str, id_: str) -> None:
        self._books.on_unsubscribed(client, id_, self.now_us)
        self.give(self.hosts[client], UnsubscribeCall(id_))

    # Crashes -------------------------------------------------------------------------------------

    def crash(self, name: str, noted: str = "crash") -> None:
        """A node stops at once and forgets everything that is not stored. Nobody is told."""
        dropped = self._topology.stop(self.hosts[name])
        self.flying -= sum(classify(message)[1] for message in dropped)
        self.note(name, Incident(noted))

    def restart(self, name: str) -> None:
        host = self.hosts[name]
        if host.up or host.held is not None:
            return  # it runs, or hangs under this name
        self._topology.start(host, self._new_machine(name, host.kind))
        self.note(name, Incident("restart"))
        for neighbour, channel in list(host.channels.items()):
            if not self.provisioner.is_replaced(neighbour):  # nobody answers there any more
                self.give(host, LinkUp(neighbour, channel.receiver.kind))

    def hang(self, name: str) -> None:
        """A node does nothing until it is resumed, as after SIGSTOP. Nobody is told."""
        host = self.hosts[name]
        if host.up:
            self._topology.hang(host)
            self.note(name, Incident("hang"))

    def resume(self, name: str) -> None:
        """A node that hangs goes on with what has come for it."""
        host = self.hosts[name]
        if host.held is None:
            return  # it was killed meanwhile
        self.note(name, Incident("resume"))
        for given in self._topology.resume(host):
            if isinstance(given, Parcel):
                self._arrive([host], given)
            else:
                self.give(host, given)
        self._serving.go_on(host)
        self.give(host, WAKE)

    def heal(self) -> None:
        """Everything is mended at once: links lose nothing, what was down is up."""
        self._topology.heal_links()
        for name in self.hosts:
            self.resume(name)
            self.restart(name)

    # The loop's body -----------------------------------------------------------------------------

    def give(self, host: Host, given: Input) -> None:
        """Hand an input to a node's machine, perform what comes out, and re-arm its wake-up."""
        if not host.up:
            if host.held is not None and type(given) is not Wake:
                host.held.append(given)
            return
        self._after(host, host.machine.handle(given, self.now_us))

    def receive(self, host: Host, parcel: Parcel) -> None:
        """The same for a message, to a node that is up."""
        self._after(host, host.machine.receive(parcel.sender, parcel.messages, self.now_us))

    def _after(self, host: Host, effects: list[Effect]) -> None:
        if effects:
            self._perform(host, effects)
        self._rearm(host)

    def _rearm(self, host: Host) -> None:
        due_us = host.machine.next_due_us()
        if due_us != host.wake_us and due_us is not None:
            host.wake_us = due_us
            at_us = max(due_us, self.now_us)  # it may be overdue: who was away had no timers
            self._agenda.add_to_run(at_us, host, due_us)

    def _perform(self, host: Host, effects: list[Effect]) -> None:
        send = self._sending.send
        for effect in effects:
            if type(effect) is Multicast:
                send(host, effect.to, effect.message)
            elif type(effect) is Send and type(effect.message) is Heartbeat:
                self._heartbeats.send(host, effect.to, effect.message, self.now_us)
            elif type(effect) is Send:
                send(host, (effect.to,), effect.message)
            elif type(effect) is Delivered:
                self._deliver(host, effect)
            elif type(effect) is Unicast:
                self._unicast.send(host, effect.to, effect.message)
            elif type(effect) is Published:
                self._books.on_published(effect.publication, self.now_us)
            elif type(effect) is ReplicaWanted or type(effect) is ReplicaReleased:
                self.provisioner.on_effect(host.name, effect)
            elif type(effect) is Lost:
                self.note(host.name, lost_incident(effect))
            elif type(effect) is Persist:
                self._stores[host.name].write(effect.changes)
                self.at(self.now_us, partial(self._safe, host, host.incarnation, effect.token))
            elif type(effect) is Acknowledged:
                self.note(host.name, acknowledged_incident(host.name, effect))
            else:
                self.note(host.name, effect)  # type: ignore[arg-type]

    def _safe(self, host: Host, incarnation: int, token: int) -> None:
        """A store has written what it was given; its broker may have crashed meanwhile."""
        if incarnation == host.incarnation:
            self.give(host, Persisted(token))

    def _perform_at(self, host: Host, effects: list[Effect], time_us: int) -> None:
        """The same for what was to be done at another time."""
        now_us, self.now_us = self.now_us, time_us
        self._perform(host, effects)
        self.now_us = now_us

    def _arrive(self, hosts: Sequence[Host], parcel: Parcel) -> None:
        """The other inner loop: `receive`, spelled out, for each of them."""
        sender, messages, kind, flies, now_us = parcel.sender, parcel.messages, parcel.kind, parcel.flies, self.now_us
        by_content = type(messages[0]) is Publish
        for host in hosts:
            if not host.up or sender not in host.channels:
                self._miss(host, parcel)
                continue
            host.tallies[kind].received += 1
            if host.has_service_time:
                self._serving.on_message(host, parcel)
                continue
            self.flying -= flies
            passed = host.machine.passes_on(sender, messages[0], now_us) if by_content else None
            if passed is None:
                self._after(host, host.machine.receive(sender, messages, now_us))
            else:
                self._sending.pass_on(host, passed, parcel)

    def _miss(self, host: Host, parcel: Parcel) -> None:
        """A message for a node that hangs, is down, or has no such link any more."""
        if host.held is not None and parcel.sender in host.channels and len(host.held) < _HELD_MAX:
            host.held.append(parcel)
        else:
            self.flying -= parcel.flies

    # The books -----------------------------------------------------------------------------------

    def _deliver(self, host: Host, effect: Delivered) -> None:
        self._carrier.carry(self.now_us)  # earlier deliveries come first in the books
        done = self._books.on_delivered(host.name, effect, self.now_us)
        if done is not None:
            self.at(self.now_us, partial(self.give, host, done))

    def note(self, node: str, incident: Incident) -> None:
        self.ledger.incident(incident.kind, incident.count, incident.source, incident.first)
        if self._trace is not None:
            self._trace.add(*incident_row(node, self.now_us, incident))

    def _write_tallies(self, until_us: int) -> None:
        """Add the interval's counts to the totals and begin anew."""
        self._carrier.count()
        take_tallies(self.hosts.values(), self.ledger.outcome, self._trace, self._tallied_us, until_us)
        self._tallied_us = until_us

    def _finish(self) -> Outcome:
        self._carrier.carry(self.now_us)
        self._write_tallies(self.now_us + 1)
        self._books.on_end()
        outcome = self.ledger.close()
        if self._watched:
            add_recovery(self.hosts.values(), outcome)
        add_transmissions(outcome)
        if self._trace is not None:
            self._trace.close()
        return outcome

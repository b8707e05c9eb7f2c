"""The express lane: events that brokers only pass on are carried in bulk instead of one message at a time.

A best-effort broker on a tree keeps nothing about an event: what it does with one follows from its tables. As long as
no table, link or node changes, the ways of all events follow from one picture of the network, and compiled code
(sim/flights.py) can work them out at once. So the layer around a client takes over the events that it publishes, and
they wait here. Before anything changes they are carried up to that moment with the picture as it was, and the rest of
their way with the new one: the layer around a broker notices a change of its table, the simulator announces all else.
Machines make the events and the tables, as always: only the passing on is taken off the brokers' hands, and off the
clients' the look at what they have asked for. An event on its way during a change, or where nobody asked for it, is
given to the client's machine. The outcome is the same either way (tests/sim/test_express.py): the dice are keyed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.books.ledger import Ledger
from holdfast.books.trace import TraceWriter
from holdfast.matching.shared_index import SharedIndex
from holdfast.model.messages import Deliver, Heartbeat, Message, NodeKind, Publication, Publish, Via
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Delivered, Effect, Input, PassedOn, PublishCall, Published, Received, Send
from holdfast.protocol.node import Layer, Node, Routes
from holdfast.sim.carrier import Carrier, Perform
from holdfast.sim.flights import EDGE, EVENT, HOPS, TIME_US, Events, World, account, fly, keys_of_events
from holdfast.sim.host import Host
from holdfast.sim.keyed_dice import source_key
from holdfast.sim.network_snapshot import Picture
from holdfast.sim.topology import Topology
from holdfast.wire.codec import event_bytes, size_of

WAITING_MAX = 4_096  # events: enough that calling compiled code costs nothing beside them, and a few MB
_NOTHING = Publication("", 0, 0, None, {})
PUBLISH_BYTES = size_of(Publish(_NOTHING)) - event_bytes(_NOTHING)
_DELIVER_BYTES_LESS = size_of(Publish(_NOTHING)) - size_of(Deliver(_NOTHING))

_Rows = NDArray[np.int64]  # of messages on their way


class Express(Carrier):
    def __init__(
        self,
        seed: int,
        hops_max: int,
        topology: Topology,
        book: ConditionBook,
        index: SharedIndex,
        ledger: Ledger,
        trace: TraceWriter | None,
        perform: Perform,
    ) -> None:
        self._seed = seed
        self._hops_max = hops_max
        self._index = index
        self._ledger = ledger
        self._trace = trace
        self._perform = perform
        self._nodes: dict[str, Node] = {}
        self._routes: dict[str, Routes] = {}  # of the brokers among them
        self._picture = Picture(topology, self._routes, book, index)
        self._events: list[Publication] = []
        self._bytes: list[int] = []
        self._source_keys: dict[str, int] = {}
        self._matched: list[list[int]] = []  # the conditions that each event meets
        self._version = 0  # of the index when they were matched
        self._watched = 0  # so many of the events were on their way when something changed; they are the first
        self._flights: list[tuple[int, int, int, int]] = []  # with the columns of `flights.TIME_US` and so on
        self._asked_at = -1, -1  # the versions of subscriptions and nodes from which the next comes
        self._asked = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self._numbered_at, self._numbers = -1, np.zeros(0, np.int64)  # the ledger's numbers of nodes
        self._counts = np.zeros((0, 2, 4), np.int64)

    @property
    def is_busy(self) -> bool:
        return bool(self._flights)

    def around(self, node: Node, kind: NodeKind, publishes: bool) -> Node:
        self._nodes[node.name] = node
        if kind == "client":
            return _Publisher(node, self) if publishes else node
        routes = node.inner if isinstance(node, Layer) else node
        assert isinstance(routes, Routes), f"{node.name} keeps more of an event than its route"
        self._routes[node.name] = routes
        self._picture.table_changed(node.name)  # it is new, whatever there was before
        return self._around_broker(node, routes)

    def _around_broker(self, node: Node, routes: Routes) -> Node:
        return Forwarder(node, routes, self)

    def publish(self, publication: Publication, broker: str | None, now_us: int) -> None:
        """An event comes into being, and leaves if there is a broker. It is owed to whoever subscribes to it now."""
        if len(self._events) >= WAITING_MAX:
            self.carry(now_us)
        number = len(self._events)
        self._note(publication)
        if broker is not None:
            if not self._flights:
                self._picture.refresh()  # while there are any, every change of a table does that
            self._flights.append((now_us, ~self._picture.edge(publication.source, broker), number, 0))

    def _note(self, publication: Publication) -> None:
        bytes_ = event_bytes(publication)
        self._events.append(publication)
        self._bytes.append(bytes_)
        self._matched.append(self._index.match_once(publication.attributes))
        if self._trace is not None:
            self._trace.publication(publication, bytes_ + PUBLISH_BYTES)

    def table_changed(self, broker: str, now_us: int) -> None:
        """A broker's table has just changed; up to now, the old one holds."""
        self.carry(now_us)
        self._picture.table_changed(broker)
        if self.is_busy:
            self._picture.refresh()

    def carry(self, until_us: int) -> None:
        if not self._events:
            return
        self._picture.refresh()
        if self._version != self._index.version:  # a condition has come up while events were on their way
            self._version = self._index.version
            self._matched = [self._index.match_once(each.attributes) for each in self._events]
        events, publications = self._event_columns(), self._events
        left, seen = self._fly(until_us, events)
        delivered = self._account(events, left[:, EVENT], seen)
        self._keep(left)
        self._write(publications, seen, delivered, np.argsort(seen[:, TIME_US], kind="stable"))

    def lands_before(self, time_us: int) -> bool:
        self.carry(time_us)
        return not self.is_busy

    def _event_columns(self) -> Events:
        starts = np.zeros(len(self._matched) + 1, np.int64)
        np.cumsum([len(each) for each in self._matched], out=starts[1:])
        numbers = [number for each in self._matched for number in each]
        return Events(*self._keys_and_bytes(0), starts, np.array(numbers, np.int32))

    def _keys_and_bytes(self, first: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Of the events from this one on."""
        known, events = self._source_keys, self._events[first:]
        for each in events:
            if each.source not in known:
                known[each.source] = source_key(self._seed, each.source)
        of_sources = np.array([known[each.source] for each in events], np.uint64)
        keys = keys_of_events(of_sources, np.array([each.seq for each in events], np.uint64))
        return keys, np.array(self._bytes[first:], np.int64) + PUBLISH_BYTES

    def _fly(self, until_us: int, events: Events) -> tuple[_Rows, _Rows]:
        picture = self._picture
        world = World(events, picture.nodes, picture.edges, picture.tables, _DELIVER_BYTES_LESS)
        given = np.array(self._flights, np.int64).reshape(-1, 4)  # none may be left of those that were published
        if self._counts.shape[0] != picture.nodes.up.size:
            self.count()
            self._counts = np.zeros((picture.nodes.up.size, 2, 4), np.int64)
        left, arrived = fly(until_us, given, world, self._hops_max, self._counts)
        return left, arrived

    def count(self) -> None:
        counts = self._counts
        for node in np.flatnonzero(counts.any(axis=(1, 2))).tolist():
            add_counts(self._picture.in_order[node], ("Publish", "Deliver"), counts[node].tolist())
        counts[:] = 0

    def _account(self, events: Events, left: NDArray[np.int64], seen: _Rows) -> NDArray[np.bool_]:
        """Write the books of events whose way has ended, and have those that are `left` seen by machines from now on.

        Returns which arrivals were owed and are in the books. Arrivals are in the order of events.
        """
        publications, nodes = self._events, self._picture.edges.receiver[seen[:, EDGE]]
        owed, is_owed = np.zeros(len(publications), np.int64), np.zeros(len(seen), bool)
        marks = np.full((self._picture.nodes.up.size, 2), -1, np.int32)
        watched = np.zeros(len(publications), bool)  # to be seen by machines
        account(events, *self._asking(), seen[:, EVENT], nodes, marks, owed, is_owed, watched)
        watched[: self._watched] = True
        watched[left] = True
        for number in np.flatnonzero(watched[self._watched :]).tolist():
            publication = publications[self._watched + number]
            self._ledger.published(publication, publication.time_us)
        delivered: NDArray[np.bool_] = is_owed & ~watched[seen[:, EVENT]]
        self._ledger.settled(int((~watched).sum()), int(owed[~watched].sum()), int(delivered.sum()))
        times_us = np.array([each.time_us for each in publications], np.int64)
        self._ledger.settled_slices(times_us[~watched], owed[~watched], times_us[seen[delivered, EVENT]])
        return delivered

    def _asking(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """For each condition the clients that have a live subscription with it, as slices of one list."""
        version = self._ledger.version, self._picture.version
        if self._asked_at != version:
            self._asked_at, self._asked = version, self._ask()
        return self._asked

    def _ask(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        asking: list[list[int]] = []
        for number, clients in self._ledger.asking().items():
            asking += [[] for _ in range(number + 1 - len(asking))]
            asking[number] = [self._picture.node(client) for client in clients]
        starts = np.zeros(len(asking) + 1, np.int64)
        np.cumsum([len(each) for each in asking], out=starts[1:])
        return starts, np.array([node for each in asking for node in each], np.int32)

    def _give(self, publication: Publication, edge: int, hops: int, time_us: int, via: Via) -> bool:
        """Let a machine see an arrival; True when it was delivered to the application."""
        sender, receiver = self._picture.ends[edge]
        message = Deliver(publication, via) if receiver.kind == "client" else Publish(publication, (), hops, via)
        effects = self._nodes[receiver.name].handle(Received(sender.name, message), time_us)
        others = [effect for effect in effects if type(effect) is not Delivered]
        if others:
            self._perform(receiver, others, time_us)
        if len(others) < len(effects):
            self._ledger.strike_off(receiver.name, publication)
        return len(others) < len(effects)

    def _write(
        self,
        events: list[Publication],
        seen: _Rows,
        delivered: NDArray[np.bool_],
        in_time: NDArray[np.int64],
        again: NDArray[np.bool_] | None = None,
    ) -> None:
        """Show machines what is not in the books yet, and note order and delays of all that was delivered.

        `in_time` has the arrivals in the order in which they happened; `again` says which were retransmitted before.
        """
        for at in in_time[~delivered[in_time]].tolist():
            publication, edge, hops = events[seen[at, EVENT]], int(seen[at, EDGE]), int(seen[at, HOPS])
            via: Via = "original" if again is None or not again[at] else "retransmission"
            delivered[at] = self._give(publication, edge, hops, int(seen[at, TIME_US]), via)
        chosen = in_time[delivered[in_time]]
        which, time_us = seen[chosen, EVENT], seen[chosen, TIME_US]
        nodes = self._picture.edges.receiver[seen[chosen, EDGE]]
        sources = np.array([self._picture.node(each.source) for each in events], np.int64)[which]
        seqs = np.array([each.seq for each in events], np.int64)[which]
        delays_us = time_us - np.array([each.time_us for each in events], np.int64)[which]
        numbers = self._ledger_numbers()
        self._ledger.arrived(numbers[nodes], numbers[sources], seqs, delays_us)
        vias = np.zeros(chosen.size, bool) if again is None else again[chosen]
        self._ledger.arrived_again("retransmission", delays_us[vias])
        if self._trace is not None:
            names = self._picture.names
            columns = nodes.tolist(), sources.tolist(), seqs.tolist(), time_us.tolist(), vias.tolist()
            rows = [
                (names[to], names[by], seq, at, "retransmission" if via else "original", 0)
                for to, by, seq, at, via in zip(*columns, strict=True)
            ]
            self._trace.add_all("deliveries", rows)

    def _ledger_numbers(self) -> NDArray[np.int64]:
        """Of the nodes of the picture."""
        if self._numbered_at != self._picture.version:
            self._numbered_at = self._picture.version
            self._numbers = np.array([self._ledger.number(name) for name in self._picture.names], np.int64)
        return self._numbers

    def _keep(self, left: _Rows) -> None:
        """Only what is still on its way, with its events numbered anew."""
        kept, numbers = np.unique(left[:, EVENT], return_inverse=True)
        chosen = kept.tolist()
        self._events = [self._events[event] for event in chosen]
        self._bytes = [self._bytes[event] for event in chosen]
        self._matched = [self._matched[event] for event in chosen]
        self._watched = len(chosen)
        left[:, EVENT] = numbers
        self._flights = list(map(tuple, left.tolist()))


def add_counts(host: Host, kinds: tuple[str, ...], counts: list[list[int]]) -> None:
    """What a node has sent and received of some kinds of messages."""
    for kind, (sent, sent_bytes, lost, received) in zip(kinds, counts, strict=True):
        if sent or received:
            tally = host.tallies[kind]
            tally.sent += sent
            tally.sent_bytes += sent_bytes
            tally.lost += lost
            tally.received += received


class _Publisher(Layer[Node]):
    """Around a client: the lane takes over the events that it publishes."""

    def __init__(self, inner: Node, express: Express) -> None:
        super().__init__(inner)
        self._express = express

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        effects = self.inner.handle(given, now_us)
        if type(given) is PublishCall and given.lifetime_us is None:
            return self._hand_over(effects, now_us)
        return effects

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        return self.inner.receive(sender, messages, now_us)

    def beat(self, now_us: int) -> tuple[str, Heartbeat] | None:
        return self.inner.beat(now_us)

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        return self.inner.hears(sender, heartbeat, now_us)

    def _hand_over(self, effects: list[Effect], now_us: int) -> list[Effect]:
        """What is left for the simulator of what follows from a publication."""
        publication, broker, left = None, None, []
        for effect in effects:
            if type(effect) is Published:
                publication = effect.publication
            elif type(effect) is Send and type(effect.message) is Publish:
                broker = effect.to
            else:
                left.append(effect)
        if publication is not None:
            self._express.publish(publication, broker, now_us)
        return left


class Forwarder(Layer[Node]):
    """Around a broker: the lane learns of every change of its table."""

    def __init__(self, inner: Node, routes: Routes, express: Express) -> None:
        super().__init__(inner)
        self._routes = routes
        self._express = express
        self._version = routes.routes_version

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        effects = self.inner.handle(given, now_us)
        self._see(now_us)
        return effects

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects = self.inner.receive(sender, messages, now_us)
        self._see(now_us)
        return effects

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        return self.inner.hears(sender, heartbeat, now_us)

    def passes_on(self, sender: str, message: Message, now_us: int) -> PassedOn | None:
        return self.inner.passes_on(sender, message, now_us)

    def _see(self, now_us: int) -> None:
        if self._routes.routes_version != self._version:
            self._version = self._routes.routes_version
            self._express.table_changed(self.name, now_us)

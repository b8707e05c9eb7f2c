"""The express lane for brokers that gossip: events, rounds and what is said in them go through compiled code.

As on the other lanes (sim/express.py, sim/numbered_express.py), machines make events and tables. Compiled code carries
the events, numbers and keeps them, notices what is lost, and gets it back in rounds of gossip (sim/gossip_flights.py).
What brokers remember of events is in its arrays until the run ends: so this lane is for networks in which no broker
and no link fails and nobody unsubscribes, and in which brokers hand events to each other past the links.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.model.messages import Message, Publication
from holdfast.protocol.effects import Effect, Gauges, Incident, Input, Wake
from holdfast.protocol.gossip.settings import SEARCHED_US, SETTLED_US, GossipSettings
from holdfast.protocol.node import Gossips, Node, Routes
from holdfast.sim import gossip_state as at
from holdfast.sim import numbered_state as shared
from holdfast.sim.express import WAITING_MAX, Express, Forwarder, add_counts
from holdfast.sim.flights import EDGE, EVENT, TIME_US, account
from holdfast.sim.gossip_run import KINDS, STYLES, GossipRun, settings_of
from holdfast.sim.numbered_run import Entry
from holdfast.sim.turns import Turns

_RECOVERED = 3  # a column of what arrives: whether somebody handed it out


class GossipExpress(Express):
    def __init__(
        self,
        gossip: GossipSettings,
        sizes: tuple[int, int, int],
        turns: Turns,
        seed: int,
        hops_max: int,
        *parts: Any,
    ) -> None:
        """`sizes`: conditions that there will be, and that the clients of one broker want, at most; and how long what
        machines say may wait for a link.
        """
        super().__init__(seed, hops_max, *parts)
        self._gossip = gossip
        self.settings = settings_of(gossip, hops_max)
        self._sizes = sizes
        self._turns = turns
        self._run: GossipRun | None = None  # from the first event on
        self._brokers: dict[str, tuple[int, Gossips]] = {}
        self._entries: list[Entry] = []
        self._first = 0  # the number of the first event that is not in the books

    @property
    def is_busy(self) -> bool:
        return self._run is not None

    def publish(self, publication: Publication, broker: str | None, now_us: int) -> None:
        if len(self._events) >= WAITING_MAX:
            self.carry(now_us)
        if self._run is None:
            self._begin()
        event = self._first + len(self._events)
        self._note(publication)
        if broker is not None:
            picture = self._picture
            self._turns.last = self._turns.apart = self._turns.last + 1
            client = picture.node(publication.source)
            edge = picture.edge(publication.source, broker)
            self._entries.append((now_us, self._turns.last, picture.node(broker), edge, event, client))

    def _begin(self) -> None:
        picture = self._picture
        picture.refresh()
        names = [host.name for host in picture.in_order if host.kind == "broker"]
        machines = [node for node in map(self._nodes.__getitem__, names) if isinstance(node, Gossips)]
        self._run = GossipRun(picture, self._gossip, self.settings, machines, *self._sizes)
        self._brokers = {name: (number, machines[number]) for number, name in enumerate(names)}
        for number, machine in self._brokers.values():
            self._run.learn(number, machine)

    def table_changed(self, broker: str, now_us: int) -> None:
        """All that happened with the old table has been let happen (`_Gossiper`)."""
        self._picture.table_changed(broker)
        if self._run is not None:
            self._run.learn(*self._brokers[broker])

    def carry(self, until_us: int) -> None:
        self.advance(until_us)
        if self._run is not None:
            self._settle(self._run)

    def lands_before(self, time_us: int) -> bool:
        self.advance(time_us, stops=True)
        return self._run is None or not self._run.arrays.state[shared.FLYING]

    def advance(self, until_us: int, stops: bool = False) -> None:
        """Let everything happen before this time, and leave the books for later."""
        run = self._run
        if run is None:
            return
        self._tell(run)
        if stops or run.has_something(until_us):
            self._picture.refresh()
            run.go_on(until_us, stops, self._turns)

    def _tell(self, run: GossipRun) -> None:
        told = run.events - self._first
        if told < len(self._events):
            events = self._events[told:]
            keys, sizes = self._keys_and_bytes(told)
            node = self._picture.node
            columns = np.zeros((len(events), at.PUBLISHED_US + 1), np.int64)
            columns[:, at.KEY], columns[:, at.SIZE] = keys.view(np.int64), sizes
            columns[:, at.SOURCE] = [node(each.source) for each in events]
            columns[:, at.SEQ_OF] = [each.seq for each in events]
            columns[:, at.PUBLISHED_US] = [each.time_us for each in events]
            for entry in self._entries:
                columns[entry[4] - run.events, at.ORIGIN] = entry[2]
            run.tell(columns, self._matched[told:])
        if self._entries:
            run.enter(self._entries)
            self._entries = []

    # The books ---------------------------------------------------------------------------------------

    def _settle(self, run: GossipRun) -> None:
        """Write the books of all that was published and has arrived."""
        for time_us, broker, origin, count in run.take("given_up", shared.GIVEN_UP).tolist():
            incident = Incident("gossip_gave_up", self._picture.names[origin], count)
            self._perform(self._picture.in_order[broker], [incident], time_us)
        events = run.arrays.events
        for time_us, edge, event, _ in run.take("again", at.CAME_AGAIN).tolist():
            source = self._picture.names[events[event, at.SOURCE]]
            self._perform(self._picture.ends[edge][1], [Incident("duplicate", source=source)], time_us)
        seen = run.take("arrived", shared.ARRIVED)
        seen = seen[np.argsort(seen[:, TIME_US], kind="stable")]
        owed, published_us = self._owed(), events[seen[:, EVENT], at.PUBLISHED_US]
        self._ledger.settled(len(self._events), int(owed.sum()), len(seen))
        times_us = np.array([each.time_us for each in self._events], np.int64)
        self._ledger.settled_slices(times_us, owed, published_us)
        self._first += len(self._events)
        self._events, self._bytes, self._matched = [], [], []
        self._write_arrivals(events, seen, seen[:, TIME_US] - published_us)

    def _owed(self) -> NDArray[np.int64]:
        """To how many clients each of the new events is owed."""
        count, nobody = len(self._events), np.zeros(0, np.int64)
        owed, marks = np.zeros(count, np.int64), np.full((self._picture.nodes.up.size, 2), -1, np.int32)
        account(
            self._event_columns(),
            *self._asking(),
            nobody,
            nobody,
            marks,
            owed,
            np.zeros(0, bool),
            np.zeros(count, bool),
        )
        return owed

    def _write_arrivals(self, events: NDArray[np.int64], seen: NDArray[np.int64], delays_us: NDArray[np.int64]) -> None:
        """Order and delays of what was delivered, in the order of time."""
        nodes, sources = self._picture.edges.receiver[seen[:, EDGE]], events[seen[:, EVENT], at.SOURCE]
        seqs, recovered = events[seen[:, EVENT], at.SEQ_OF], seen[:, _RECOVERED].astype(bool)
        numbers = self._ledger_numbers()
        self._ledger.arrived(numbers[nodes], numbers[sources], seqs, delays_us)
        self._ledger.arrived_again("gossip", delays_us[recovered])
        if self._trace is not None:
            names = self._picture.names
            columns = nodes.tolist(), sources.tolist(), seqs.tolist(), seen[:, TIME_US].tolist(), recovered.tolist()
            rows = [
                (names[to], names[by], seq, time_us, "gossip" if again else "original", 0)
                for to, by, seq, time_us, again in zip(*columns, strict=True)
            ]
            self._trace.add_all("deliveries", rows)

    def count(self) -> None:
        if self._run is None:
            return
        arrays, picture = self._run.arrays, self._picture
        self._counts = arrays.counts
        super().count()
        for broker in np.flatnonzero(arrays.more.any(axis=(1, 2))).tolist():
            add_counts(picture.in_order[broker], KINDS, arrays.more[broker].tolist())
        arrays.more[:] = 0
        for edge, (of_events, of_recovery) in zip(
            arrays.links[:, shared.EDGE].tolist(), arrays.link_bytes.tolist(), strict=True
        ):
            sender, receiver = picture.ends[edge]
            channel = sender.channels[receiver.name]
            channel.event_bytes += of_events
            channel.recovery_bytes += of_recovery
        arrays.link_bytes[:] = 0

    # What brokers answer for -------------------------------------------------------------------------

    def _row(self, broker: str) -> list[int]:
        """What is remembered of a broker, by the columns of `Gossiping.brokers`."""
        if self._run is None:
            return [0] * at.BROKER_SIZE
        row: list[int] = self._run.arrays.brokers[self._brokers[broker][0]].tolist()
        return row

    def woken(self, broker: str, now_us: int) -> None:
        if self._run is not None:
            number, machine = self._brokers[broker]
            self._picture.refresh()
            self._run.woken(now_us, number, machine.next_due_us(), self._turns)

    def has_settled(self, broker: str, now_us: int) -> bool:
        row = self._row(broker)
        reconciles = self._gossip.style == "reconcile"
        waits_us = SEARCHED_US if reconciles and row[at.OPEN] else SETTLED_US
        return not (reconciles and row[at.LOST]) and now_us - row[at.ACTIVE_US] >= waits_us

    def counts(self, broker: str) -> dict[str, int]:
        row = self._row(broker)
        return {
            "rounds": row[at.ROUNDS],
            "silent rounds": row[at.SILENT],
            "recovered": row[at.RECOVERED],
            "recovered twice": row[at.TWICE],
            "not ours": row[at.NOT_OURS],
        }

    def gauges(self, broker: str) -> Gauges:
        row = self._row(broker)
        gauges = {"events kept": (row[at.KEPT], self._gossip.buffer)}
        if self._gossip.style != STYLES[at.PUSH]:
            gauges["numbers kept"] = row[at.PLACES_KEPT], self._gossip.places_max
            gauges["events looked for"] = row[at.LOST], self._gossip.lost_max
            gauges["origins known"] = self._origins_known(broker), self._gossip.origins_max
        return gauges

    def _origins_known(self, broker: str) -> int:
        if self._run is None:
            return 0
        style, brokers = self._gossip.style, len(self._brokers)
        number = self._brokers[broker][0]
        rows = self._run.arrays.origins[number * brokers : (number + 1) * brokers]
        if style == "reconcile":
            return int(rows[:, at.PARTNER].sum())
        return int(rows[:, at.ROUTE].sum()) if style in ("publisher-pull", "combined-pull") else 0

    def _around_broker(self, node: Node, routes: Routes) -> Node:
        return _Gossiper(node, routes, self)


class _Gossiper(Forwarder):
    """Around a broker: all that happened before is let happen before it changes its table or says anything."""

    def __init__(self, inner: Node, routes: Routes, lane: GossipExpress) -> None:
        super().__init__(inner, routes, lane)
        self._lane = lane

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        self._lane.advance(now_us)
        effects = super().handle(given, now_us)
        if type(given) is Wake:
            self._lane.woken(self.name, now_us)
        return effects

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        self._lane.advance(now_us)
        return super().receive(sender, messages, now_us)

    def has_settled(self, now_us: int) -> bool:
        return self._lane.has_settled(self.name, now_us)

    def gauges(self) -> Gauges:
        return {**self.inner.gauges(), **self._lane.gauges(self.name)}

    @property
    def counts(self) -> dict[str, int]:
        return self._lane.counts(self.name)

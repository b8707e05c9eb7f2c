"""The express lane for links that repair their own losses (`hops = "nack"`).

As on the other lane (sim/express.py), machines make events and tables, and compiled code passes the events on. Here it
also numbers them on each link, asks for what is missing and sends it once more (sim/numbered_flights.py). What links
remember stays in its arrays until the run ends: so this lane is for networks in which no broker and no link fails.
Requests share the luck of a link with what brokers say to each other, one random number after the other. So before a
broker says anything, all that happens before is let happen.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.model.messages import Message, Publication
from holdfast.protocol.effects import Effect, Gauges, Incident, Input
from holdfast.protocol.hops.settings import NackSettings
from holdfast.protocol.node import Node, Routes
from holdfast.sim.express import WAITING_MAX, Express, Forwarder, add_counts
from holdfast.sim.flights import EVENT, HOPS
from holdfast.sim.numbered_run import KINDS, Entry, NumberedRun, settings_of
from holdfast.sim.numbered_state import HOPS_SHIFT, RING, VIA_BIT
from holdfast.sim.turns import Turns


class NumberedExpress(Express):
    def __init__(
        self, nack: NackSettings, lossy_control: bool, turns: Turns, seed: int, hops_max: int, *parts: Any
    ) -> None:
        super().__init__(seed, hops_max, *parts)
        self._turns = turns
        self._settings = settings_of(nack, hops_max, lossy_control)
        self._run: NumberedRun | None = None  # from the first event on
        self._slots: list[int] = []  # the numbers by which compiled code knows the events here
        self._free: list[int] = []
        self._slot_count = 0
        self._told = 0  # so many of the events have been told to compiled code
        self._entries: list[Entry] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._entries) or (self._run is not None and self._run.is_busy)

    def publish(self, publication: Publication, broker: str | None, now_us: int) -> None:
        if len(self._events) >= WAITING_MAX:
            self.carry(now_us)
        if not self.is_busy:
            self._picture.refresh()  # while there is anything on its way, every change of a table does that
        slot = self._free.pop() if self._free else self._slot_count
        self._slot_count = max(self._slot_count, slot + 1)
        self._note(publication)
        self._slots.append(slot)
        if broker is not None:
            picture = self._picture
            edge = picture.edge(publication.source, broker)
            self._turns.last = self._turns.apart = self._turns.last + 1
            client = picture.node(publication.source)
            self._entries.append((now_us, self._turns.last, picture.node(broker), edge, slot, client))

    def table_changed(self, broker: str, now_us: int) -> None:
        self.advance(now_us)
        self._picture.table_changed(broker)
        if self.is_busy:
            self._picture.refresh()

    def carry(self, until_us: int) -> None:
        self.advance(until_us)
        if self._events:
            self._settle(self._compiled())

    def lands_before(self, time_us: int) -> bool:
        self.advance(time_us, stops=True)
        return not self.is_busy

    def advance(self, until_us: int, stops: bool = False) -> None:
        """Let everything happen before this time, and leave the books for later."""
        if not self.is_busy:
            return
        run = self._compiled()
        if self._version != self._index.version:  # a condition has come up while events were on their way
            self._version = self._index.version
            self._matched = [self._index.match_once(each.attributes) for each in self._events]
            run.forget_conditions()
            self._told = 0
        self._tell(run)
        if stops or run.has_something(until_us):
            run.go_on(until_us, stops, self._turns)

    def _compiled(self) -> NumberedRun:
        """Compiled code with the network as it is."""
        self._picture.refresh()
        if self._run is None:
            self._run = NumberedRun(self._picture, self._settings)
        self._run.room_for(self._slot_count)
        return self._run

    def _tell(self, run: NumberedRun) -> None:
        if self._told < len(self._events):
            slots = np.array(self._slots[self._told :], np.int64)
            run.known.key[slots], run.known.bytes[slots] = self._keys_and_bytes(self._told)
            run.tell_conditions(slots, self._matched[self._told :])
            self._told = len(self._events)
        if self._entries:
            run.enter(self._entries)
            self._entries = []

    def _settle(self, run: NumberedRun) -> None:
        """Write the books of all that has arrived."""
        for time_us, edge, count in run.take_given_up():
            sender, receiver = self._picture.ends[edge]
            self._perform(receiver, [Incident("link_repair_failed", sender.name, count)], time_us)
        seen, slots = run.take_arrived(), np.array(self._slots, np.int64)
        numbers = np.zeros(self._slot_count, np.int64)
        numbers[slots] = np.arange(slots.size)
        seen[:, EVENT] = numbers[seen[:, EVENT]]
        by_event = np.argsort(seen[:, EVENT], kind="stable")
        seen = seen[by_event]
        again = (seen[:, HOPS] & VIA_BIT).astype(bool)
        seen[:, HOPS] >>= HOPS_SHIFT
        publications, left = self._events, np.flatnonzero(run.arrays.outstanding[slots] > 0)
        delivered = self._account(self._event_columns(), left, seen)
        self._keep_only(left.tolist(), run)
        self._write(publications, seen, delivered, np.argsort(by_event), again)

    def _keep_only(self, left: list[int], run: NumberedRun) -> None:
        """Only the events of which a copy is on its way or missing."""
        kept = dict.fromkeys(left)
        self._free += [slot for number, slot in enumerate(self._slots) if number not in kept]
        self._slots = [self._slots[number] for number in left]
        self._events = [self._events[number] for number in left]
        self._bytes = [self._bytes[number] for number in left]
        self._matched = [self._matched[number] for number in left]
        self._watched = len(left)
        run.forget_conditions()
        self._told = 0

    def count(self) -> None:
        if self._run is None:
            return
        self._counts = self._run.arrays.counts
        super().count()
        more = self._run.arrays.more
        for node in np.flatnonzero(more.any(axis=(1, 2))).tolist():
            add_counts(self._picture.in_order[node], KINDS, more[node].tolist())
        more[:] = 0

    def link_gauges(self, broker: str) -> Gauges:
        ring = int(self._settings[RING])
        kept, missing = (0, 0) if self._run is None else self._run.kept_and_missing(self._picture.node(broker))
        return {"kept for a link": (kept, ring), "missing on a link": (missing, ring)}

    def _around_broker(self, node: Node, routes: Routes) -> Node:
        return _Speaker(node, routes, self)


class _Speaker(Forwarder):
    """Around a broker: all that happened before is let happen before it says anything."""

    def __init__(self, inner: Node, routes: Routes, lane: NumberedExpress) -> None:
        super().__init__(inner, routes, lane)
        self._lane = lane

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        effects = super().handle(given, now_us)
        if effects:
            self._lane.advance(now_us)
        return effects

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects = super().receive(sender, messages, now_us)
        if effects:
            self._lane.advance(now_us)
        return effects

    def gauges(self) -> Gauges:
        return {**self.inner.gauges(), **self._lane.link_gauges(self.name)}

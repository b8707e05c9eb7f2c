"""The books of a run: what was owed to whom, and what became of it.

When an event is published, everybody whose subscription is live and matches is owed it. Whatever arrives is struck
off; what is left at the end is lost, or late if it expired on the way. Events that everybody has got are forgotten when
they are old enough, and of those that somebody misses a bounded number is remembered.
"""

from collections import deque
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from holdfast.books.live_subscriptions import LiveSubscriptions
from holdfast.books.outcome import DelayHistogram, Outcome
from holdfast.matching.shared_index import SharedIndex
from holdfast.model.messages import Publication, Via
from holdfast.protocol.conditions import ConditionBook

_SETTLED_US = 30_000_000  # after this long no duplicate comes any more
_OVERDUE_MAX = 200_000  # older events that somebody misses, some 60 MB: an overloaded broker may bring them still
_PAIR_BITS = 32  # for the number of a node
_SEQ_BITS = 40  # for a sequence number: a million a second for twelve days


class Ledger(LiveSubscriptions):
    def __init__(self, book: ConditionBook, index: SharedIndex, slice_us: int | None = None) -> None:
        self.outcome = Outcome()
        self._slice_us = slice_us
        super().__init__(book, index)
        self._open: dict[tuple[str, int], dict[str, bool]] = {}  # publication -> who is owed it, and has got it
        self._expired: set[tuple[str, int]] = set()
        self._ages: deque[tuple[int, tuple[str, int]]] = deque()
        self._overdue: deque[tuple[str, int]] = deque()
        self._numbers: dict[str, int] = {}  # of nodes, so that a pair of them is one number
        self._pairs: dict[tuple[str, str], int] = {}  # subscriber and source -> their number
        self._highest: dict[int, int] = {}  # subscriber and source -> the highest sequence number delivered
        self._delays = DelayHistogram()
        self._recovery_delays = DelayHistogram()
        self._holds = DelayHistogram()

    def published(self, publication: Publication, now_us: int) -> list[tuple[str, str]]:
        """The subscriptions that match, by client and id: each of these clients is owed the event."""
        self.outcome.published += 1
        if self._slice_us is not None:
            self._count_slice("published", publication.time_us)
        matching = self.matching(publication.attributes)
        owed = {client: False for client, _ in matching}  # none of them has it yet
        if owed:
            self.outcome.owed += len(owed)
            if self._slice_us is not None:
                self._count_slice("owed", publication.time_us, len(owed))
            event = publication.source, publication.seq
            self._open[event] = owed
            self._ages.append((now_us, event))
        while self._ages and self._ages[0][0] < now_us - _SETTLED_US:
            self._overdue.append(self._ages.popleft()[1])
            if all(self._open[self._overdue[-1]].values()):
                self._close(self._overdue.pop())
            elif len(self._overdue) > _OVERDUE_MAX:
                self._close(self._overdue.popleft())
        return matching

    def incident(self, kind: str, count: int, source: str | None, first: int | None) -> None:
        incidents = self.outcome.incidents
        incidents[kind] = incidents.get(kind, 0) + count
        if kind == "expired" and source and first and (source, first) in self._open:
            self._expired.add((source, first))

    def delivered(
        self, client: str, publication: Publication, now_us: int, via: Via = "original", held_us: int = 0
    ) -> None:
        self.strike_off(client, publication)
        if via != "original":
            self.outcome.recovered[via] = self.outcome.recovered.get(via, 0) + 1
            self._recovery_delays.add(now_us - publication.time_us)
        if held_us:
            self._holds.add(held_us)
            self.outcome.held += 1
            self.outcome.held_total_us += held_us
        self._delays.add(now_us - publication.time_us)
        pair = self._pairs.get((client, publication.source)) or self._new_pair(client, publication.source)
        if publication.seq < self._highest.get(pair, 0):
            self.outcome.fifo_violations += 1  # one of the same source that was published later came before it
        else:
            self._highest[pair] = publication.seq

    def _new_pair(self, client: str, source: str) -> int:
        pair = self._pairs[client, source] = self.number(client) << _PAIR_BITS | self.number(source)
        return pair

    def strike_off(self, client: str, publication: Publication) -> None:
        owed = self._open.get((publication.source, publication.seq), {})
        if client not in owed:
            self.outcome.unowed += 1
        elif owed[client]:
            self.outcome.duplicates += 1
        else:
            owed[client] = True
            self.outcome.delivered += 1
            if self._slice_us is not None:
                self._count_slice("delivered", publication.time_us)

    def _count_slice(self, what: str, time_us: int, count: int = 1) -> None:
        assert self._slice_us is not None
        slices, name = self.outcome.slices.setdefault(what, {}), f"{time_us // self._slice_us:06d}"
        slices[name] = slices.get(name, 0) + count

    # The same for many at once -------------------------------------------------------------------

    def settled(self, published: int, owed: int, delivered: int) -> None:
        """So many events were published, and nothing is on its way any more of what was owed."""
        self.outcome.published += published
        self.outcome.owed += owed
        self.outcome.delivered += delivered
        self.outcome.lost += owed - delivered

    def settled_slices(self, times_us: NDArray[np.int64], owed: NDArray[np.int64], got_us: NDArray[np.int64]) -> None:
        """The same by time: when events were published and to how many they were owed; and, of what was delivered."""
        if self._slice_us is not None:
            for time_us, count in zip(times_us.tolist(), owed.tolist(), strict=True):
                self._count_slice("published", time_us)
                if count:
                    self._count_slice("owed", time_us, count)
            for time_us, count in zip(*(each.tolist() for each in np.unique(got_us, return_counts=True)), strict=True):
                self._count_slice("delivered", time_us, count)

    def number(self, node: str) -> int:
        return self._numbers.setdefault(node, len(self._numbers))

    def arrived(
        self,
        clients: NDArray[np.int64],
        sources: NDArray[np.int64],
        seqs: NDArray[np.int64],
        delays_us: NDArray[np.int64],
    ) -> None:
        """Delays and order of deliveries, which come in the order of time; clients and sources by their numbers."""
        if not clients.size:
            return
        self._delays.add_all(delays_us)
        pairs = clients << _PAIR_BITS | sources
        order = np.argsort(pairs, kind="stable")
        pairs, seqs = pairs[order], seqs[order]
        is_first = np.concatenate(([True], pairs[1:] != pairs[:-1]))
        firsts = np.flatnonzero(is_first)
        group = np.cumsum(is_first) - 1
        keys = pairs[firsts].tolist()
        before = np.fromiter(map(self._highest.get, keys, repeat(0)), np.int64, len(keys))[group]
        # The highest so far within each group: groups are kept apart by a number above every sequence number.
        highest = np.maximum.accumulate(np.maximum(seqs, before) + (group << _SEQ_BITS)) - (group << _SEQ_BITS)
        previous = np.where(is_first, before, np.concatenate(([0], highest[:-1])))
        self.outcome.fifo_violations += int((seqs < previous).sum())
        lasts = np.concatenate((firsts[1:], [seqs.size])) - 1
        self._highest.update(zip(keys, highest[lasts].tolist(), strict=True))

    def arrived_again(self, via: Via, delays_us: NDArray[np.int64]) -> None:
        """Those of the deliveries that came another way than the first."""
        if delays_us.size:
            self.outcome.recovered[via] = self.outcome.recovered.get(via, 0) + delays_us.size
            self._recovery_delays.add_all(delays_us)

    def _close(self, event: tuple[str, int]) -> None:
        missing = sum(not got for got in self._open.pop(event).values())
        if event in self._expired:
            self._expired.discard(event)
            self.outcome.late += missing
        else:
            self.outcome.lost += missing

    def close(self) -> Outcome:
        for event in list(self._open):
            self._close(event)
        self._ages.clear()
        self._overdue.clear()
        self.outcome.delay_us = self._delays.summary()
        self.outcome.recovery_delay_us = self._recovery_delays.summary()
        self.outcome.held_us = self._holds.summary()
        return self.outcome

"""What flows through a run: by source and by subscription, with what was owed beside what came.

It is told what the books are told, counts, and once a second shows what has changed. Losses count where they are named:
by the subscriber that gave an event up.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

from holdfast.books.definitions import HARMLESS, HELD_BACK, NAMING, REPLACED
from holdfast.console.board import Board, Entry
from holdfast.console.chart_points import ChartPoints
from holdfast.console.recent_events import Arrival, RecentEvent, RecentEvents, SubscriptionId
from holdfast.model.messages import Publication
from holdfast.protocol.effects import Delivered

SUBSCRIPTIONS_MAX = 1_000  # shown one by one; more are part of the total alone
_INCIDENTS_MAX = 200  # the latest, for the list of what happened
_INCIDENTS_SHOWN = 60
_QUIET = HARMLESS - {"replica_wanted", "neighbour_restarted", "reload_refused"}  # not told one by one
_EXAMPLES_MAX = 5


@dataclass
class _StreamCounts:
    """Of one source, one subscription, or all."""

    published: int = 0
    owed: int = 0
    delivered: int = 0
    recovered: int = 0
    held: int = 0  # in all: delivered after they had been held back
    lost: int = 0  # given up by number
    doubts: int = 0  # times in which events may have been missed
    delay_us: int = 0  # of all delivered, added up


@dataclass
class _Subscribed:
    condition: str
    since_us: int
    until_us: int | None = None
    flow: _StreamCounts = field(default_factory=_StreamCounts)


@dataclass(frozen=True)
class PromiseNumbers:
    """What the lamps are made of."""

    unmatched: int  # deliveries that no subscription of the client matches
    duplicates: int
    overtaken: int
    missing: int  # owed, and neither there nor given up
    lost: int  # given up
    beyond: dict[str, tuple[float, float]]  # what exceeds its limit, by node and name: value and limit
    examples: Mapping[str, Sequence[str]]  # by promise


class StreamView:
    def __init__(self, board: Board, history: ChartPoints) -> None:
        self.events = RecentEvents()
        self.subscriptions: dict[SubscriptionId, _Subscribed] = {}
        self.incidents: deque[dict[str, Any]] = deque(maxlen=_INCIDENTS_MAX)
        self.predicted: dict[str, tuple[float, float]] = {}  # by subscriber: by the original way, and in the end
        self.homes: Mapping[str, str] = {}
        self._board = board
        self._history = history
        self._total = _StreamCounts()
        self._sources: dict[str, _StreamCounts] = {}
        self._before: dict[str, _StreamCounts] = {}
        self._held: dict[str, int] = {}  # by client, now
        self._lost: dict[str, int] = {}  # by client, given up
        self.replicas_ready: set[str] = set()  # as many as brokers that died in this run
        self._highest: dict[tuple[str, str], int] = {}
        self._unmatched = self._duplicates = self._overtaken = 0
        self._beyond: dict[str, tuple[float, float]] = {}
        self._examples: dict[str, list[str]] = {}
        self._number = 0

    # What happens --------------------------------------------------------------------------------

    def on_published(self, publication: Publication, matching: Sequence[SubscriptionId], now_us: int) -> None:
        source = self._sources.setdefault(publication.source, _StreamCounts())
        self._total.published += 1
        source.published += 1
        clients = {client for client, _ in matching}
        self._total.owed += len(clients)
        source.owed += len(clients)
        for each in matching:
            if each in self.subscriptions:
                self.subscriptions[each].flow.owed += 1
        self.events.add(
            RecentEvent(
                publication.source,
                publication.seq,
                publication.time_us,
                publication.attributes,
                publication.lifetime_us,
                frozenset(matching),
            )
        )

    def on_delivered(self, client: str, delivered: Delivered, now_us: int) -> None:
        publication = delivered.publication
        event = self.events.get(publication.source, publication.seq)
        name = f"{publication.id_text} to {client}"
        if event is not None:
            if client in event.arrivals:
                self._duplicates += 1
                self._example("P2", f"{name} came twice")
                return
            event.arrivals[client] = Arrival(now_us, delivered.via, delivered.held_us)
        if not delivered.subscriptions:
            self._unmatched += 1
            self._example("P1", f"{name} matches no subscription")
        pair = client, publication.source
        if publication.seq < self._highest.get(pair, 0):
            self._overtaken += 1
            self._example("P3", f"{name} came after {publication.source}/{self._highest[pair]}")
        self._highest[pair] = max(publication.seq, self._highest.get(pair, 0))
        subscribed = [self.subscriptions.get((client, id_)) for id_ in delivered.subscriptions]
        flows = [self._total, self._sources.setdefault(publication.source, _StreamCounts())]
        for flow in (*flows, *(each.flow for each in subscribed if each is not None)):
            flow.delivered += 1
            flow.recovered += delivered.via != "original"
            flow.held += delivered.held_us > 0
            flow.delay_us += now_us - publication.time_us

    def on_subscribed(self, client: str, id_: str, condition: str, now_us: int) -> None:
        if len(self.subscriptions) < SUBSCRIPTIONS_MAX or (client, id_) in self.subscriptions:
            self.subscriptions[client, id_] = _Subscribed(condition, now_us)

    def on_unsubscribed(self, client: str, id_: str, now_us: int) -> None:
        found = self.subscriptions.get((client, id_))
        if found is not None:
            found.until_us = now_us

    def on_row(self, table: str, values: Sequence[Any]) -> None:
        if table == "samples":
            node, _, name, value, limit = values
            if name == HELD_BACK:
                self._held[node] = int(value)
            if limit and value > limit:
                self._beyond[f"{node}: {name}"] = value, limit
                self._example("P7", f"{node}: {name} is {value:,.0f} of {limit:,.0f}")
        elif table == "incidents":
            self._on_incident(*values)

    def _on_incident(  # the columns of the table
        self,
        node: str,
        time_us: int,
        kind: str,
        peer: str | None,
        other: str | None,
        source: str | None,
        first: int | None,
        count: int,
        reason: str | None,
        *_: object,
    ) -> None:
        if kind == REPLACED:
            self.replicas_ready.add(node)
        if kind in NAMING and not first:
            self._total.doubts += 1
        elif kind in NAMING:
            self._lost[node] = self._lost.get(node, 0) + count
            self._total.lost += count
            if source:
                self._sources.setdefault(source, _StreamCounts()).lost += count
        if kind not in _QUIET:
            self._number += 1
            event = f"{source}/{first}" if source and first else source or ""
            told = {"number": self._number, "time_us": time_us, "node": node, "kind": kind, "peer": peer or ""}
            told |= {"other": other or "", "event": event, "count": count, "reason": reason or ""}
            self.incidents.append(told)

    def _example(self, promise: str, words: str) -> None:
        examples = self._examples.setdefault(promise, [])
        if len(examples) < _EXAMPLES_MAX:
            examples.append(words)

    def promise_numbers(self) -> PromiseNumbers:
        lost = self._total.lost
        missing = max(0, self._total.owed - self._total.delivered - lost)
        numbers = self._unmatched, self._duplicates, self._overtaken
        return PromiseNumbers(*numbers, missing, lost, dict(self._beyond), self._examples)

    # What is shown -------------------------------------------------------------------------------

    def show(self, passed_s: float) -> None:
        """Once a second."""
        self._show("total", {"held_now": sum(self._held.values())}, self._total, passed_s)
        for name, flow in self._sources.items():
            self._show(f"source/{name}", {"name": name, "broker": self.homes.get(name, "")}, flow, passed_s)
        shown = {}
        for (client, id_), each in self.subscriptions.items():
            key = f"subscription/{client}/{id_}"
            by_original_way, in_the_end = self.predicted.get(client, (None, None))
            shown[key] = {
                "client": client,
                "id": id_,
                "condition": each.condition,
                "broker": self.homes.get(client, ""),
                "ended": each.until_us is not None,
                "held_now": self._held.get(client, 0),
                "lost_by_client": self._lost.get(client, 0),
                "predicted_direct": by_original_way,
                "predicted": in_the_end,
            }
            self._show(key, shown[key], each.flow, passed_s)
        incidents = list(self.incidents)[-_INCIDENTS_SHOWN:]
        self._board.put("incidents", {"latest": incidents[::-1], "count": self._number})

    def _show(self, key: str, about: Entry, flow: _StreamCounts, passed_s: float) -> None:
        before = self._before.get(key, _StreamCounts())
        rates = {
            f"{name}_per_s": round((getattr(flow, name) - getattr(before, name)) / passed_s, 2) if passed_s else 0.0
            for name in ("published", "owed", "delivered", "recovered", "lost")
        }
        came = flow.delivered - before.delivered
        delay_ms = round((flow.delay_us - before.delay_us) / came / 1e3, 2) if came else None
        self._before[key] = _StreamCounts(**vars(flow))
        direct = (flow.delivered - flow.recovered) / flow.owed if flow.owed else None
        share = min(1.0, flow.delivered / flow.owed) if flow.owed else None
        shares = {"share": share, "share_direct": None if direct is None else min(1.0, direct)}
        self._board.put(key, {**about, **vars(flow), **rates, "delay_ms": delay_ms, **shares})
        self._history.put(key, {**rates, "delay_ms": nan if delay_ms is None else delay_ms})

"""The books of a live run: the same ledger as the simulator's, and the trace if one is wanted.

Nodes count in the time of day; a run's own time begins when everything is up, so everything is shifted by that moment.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.books.definitions import LAST_HOP
from holdfast.books.guests import TABLES, Guests, is_guest
from holdfast.books.ledger import Ledger
from holdfast.books.outcome import Outcome
from holdfast.books.rows import Row
from holdfast.books.sharing import Sharing
from holdfast.books.trace import TraceWriter
from holdfast.matching.shared_index import SharedIndex
from holdfast.model.messages import Publication, Publish
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Delivered, GroupDone
from holdfast.wire.codec import size_of

_REPORTED_US = 3_000_000  # nodes report once a second; what happened so long ago has come, unless one of them hangs
_TIMES = {"incidents": (1,), "samples": (1,), "messages": (2, 3), "links": (2, 3)}  # columns that are times of day


class Onlooker(Protocol):
    """Somebody who is told of every event while the run goes on; times are those of the run."""

    def on_published(self, publication: Publication, matching: Sequence[tuple[str, str]], now_us: int) -> None:
        """With the subscriptions that match it, by client and id."""

    def on_delivered(self, client: str, delivered: Delivered, now_us: int) -> None: ...
    def on_subscribed(self, client: str, id_: str, condition: str, now_us: int) -> None: ...
    def on_unsubscribed(self, client: str, id_: str, now_us: int) -> None: ...
    def on_row(self, table: str, values: Sequence[Any]) -> None: ...


class LiveBooks:
    def __init__(
        self,
        trace: TraceWriter | None,
        on_row: Callable[[str, list[Any]], None] | None = None,
        onlooker: Onlooker | None = None,
    ) -> None:
        self.zero_us = 0
        self._onlooker = onlooker
        self._on_row = on_row  # somebody who watches the run: is told every row, its table first
        self._trace = trace
        self._guests = None if trace is None else Guests(trace)
        self._sharing = Sharing()
        self._last_us = 0  # the latest time in a row
        self._marked_us = 0
        self._ledger = Ledger(ConditionBook(), SharedIndex())
        self._since: dict[tuple[str, str], int] = {}
        self._early: list[Row] | None = []  # rows of the time before everything was up

    @property
    def outcome(self) -> Outcome:
        return self._ledger.outcome

    @property
    def missing(self) -> int:
        return self.outcome.owed - self.outcome.delivered

    def begin(self, zero_us: int) -> None:
        self.zero_us = zero_us
        early, self._early = self._early or [], None
        self.on_rows(early)

    def on_published(self, publication: Publication, now_us: int) -> None:
        shifted = replace(publication, time_us=publication.time_us - self.zero_us)
        matching = self._ledger.published(shifted, now_us - self.zero_us)
        if self._onlooker is not None:
            self._onlooker.on_published(shifted, matching, now_us - self.zero_us)
        if self._trace is not None:
            self._trace.publication(shifted, size_of(Publish(publication)))

    def on_delivered(self, client: str, delivered: Delivered, now_us: int) -> GroupDone | None:
        """What the client says if it is a member of a group, and done with the event at once."""
        client, done = self._sharing.done(client, delivered)
        publication, via, held_us = delivered.publication, delivered.via, delivered.held_us
        shifted = replace(publication, time_us=publication.time_us - self.zero_us)
        if not is_guest(publication.source):
            self._ledger.delivered(client, shifted, now_us - self.zero_us, via, held_us)
        if self._onlooker is not None:
            told = Delivered(shifted, delivered.subscriptions, via, held_us)
            self._onlooker.on_delivered(client, told, now_us - self.zero_us)
        if self._trace is not None:
            row = client, publication.source, publication.seq, now_us - self.zero_us, via, held_us
            self._trace.add("deliveries", *row)
        return done

    def on_subscribed(self, client: str, id_: str, condition: str, group: str, now_us: int) -> None:
        client, id_ = self._sharing.begin(client, id_, condition, group)
        self._ledger.subscribed(client, id_, condition)
        self._since[client, id_] = now_us - self.zero_us
        if self._trace is not None:
            self._trace.begun(client, id_, condition, now_us - self.zero_us)
        if self._onlooker is not None:
            self._onlooker.on_subscribed(client, id_, condition, now_us - self.zero_us)

    def on_unsubscribed(self, client: str, id_: str, now_us: int) -> None:
        client, id_ = self._sharing.end(client, id_)
        condition = self._ledger.unsubscribed(client, id_)
        self._record(client, id_, condition, now_us - self.zero_us)
        if self._onlooker is not None:
            self._onlooker.on_unsubscribed(client, id_, now_us - self.zero_us)

    def _record(self, client: str, id_: str, condition: str, until_us: int | None) -> None:
        since_us = self._since.pop((client, id_))
        if self._trace is not None:
            self._trace.add("subscriptions", client, id_, condition, since_us, until_us)

    def on_rows(self, rows: list[Row]) -> None:
        if self._early is not None:
            self._early += rows
            return
        for table, *values in rows:
            if table in TABLES:
                if self._guests is not None:
                    self._guests.on_row(table, values, self.zero_us)
                continue
            for column in _TIMES[table]:
                values[column] -= self.zero_us
            self._count(table, values)
            if self._on_row is not None:
                self._on_row(table, values)
            if self._onlooker is not None:
                self._onlooker.on_row(table, values)
            if self._trace is not None:
                self._trace.add(table, *values)

    def _count(self, table: str, values: list[Any]) -> None:
        """Into the outcome, as the simulator does."""
        if table == "incidents":
            node, time_us, kind, _, _, source, first, count, *_ = values
            self._last_us = time_us
            self._ledger.incident(kind, count, source, first)
            if kind == "crash" and self._guests is not None:
                self._guests.on_crash(node, time_us)
        elif table == "messages":
            self._last_us = values[3]
            kind, counts = values[1], values[4:]
            total = self.outcome.messages.setdefault(kind, {"sent": 0, "bytes": 0, "lost": 0, "received": 0})
            for name, value in zip(total, counts, strict=True):
                total[name] += value

    def mark(self, now_us: int) -> None:
        """Of a trace that grows: all that has come is written."""
        if self._trace is not None and self._early is None:
            self._marked_us = now_us - self.zero_us
            self._trace.mark(self._marked_us - _REPORTED_US)

    def close(self) -> Outcome:
        for (client, id_), condition in self._ledger.live():
            self._record(client, id_, condition, None)
        if self._guests is not None:
            self._guests.close(self._last_us)
        outcome = self._ledger.close()
        between = [counts for kind, counts in outcome.messages.items() if kind not in LAST_HOP]
        outcome.transmissions = sum(counts["sent"] for counts in between)
        outcome.bytes = sum(counts["bytes"] for counts in between)
        if self._trace is not None:
            self._trace.close(max(self._last_us, self._marked_us))
        return outcome

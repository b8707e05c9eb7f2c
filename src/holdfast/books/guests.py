"""Clients that a run's file does not have, such as those of MQTT: their rows of the trace.

A broker reports them once a second, so that the ledger, which strikes off what was owed as it arrives, cannot keep up
with them. The trace has them like all others, and promises are checked on that.
"""

from typing import Any

from holdfast.books.rows import GUEST, Row, incident_row
from holdfast.books.trace import TraceWriter
from holdfast.model.messages import Publication
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Incident
from holdfast.protocol.groups.settings import HOMES
from holdfast.protocol.settings import ProtocolSettings

TABLES = frozenset({"publications", "deliveries", "guests"})  # of rows that are for us
_AWAY = "its client is away, and its broker keeps its events"


def is_guest(source: str) -> bool:
    return source.startswith(GUEST[:-1])


class Guests:
    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._since: dict[tuple[str, str], tuple[str, int, str, bool]] = {}  # condition, since when, broker, lasts
        self._away_us: dict[str, int] = {}  # since when
        self._seen: dict[str, Seen] = {}  # by client; a session that outlives its broker may get an event again

    def on_row(self, table: str, values: list[Any], zero_us: int) -> None:
        match table:
            case "publications":
                source, seq, time_us, lifetime_us, size, attributes = values
                publication = Publication(source, seq, time_us - zero_us, lifetime_us, attributes, b"")
                self._trace.publication(publication, size)
            case "deliveries":
                client, source, seq, time_us, via, held_us = values
                if client.startswith(HOMES) or self._is_first(client, source, seq):
                    self._trace.add("deliveries", client, source, seq, time_us - zero_us, via, held_us)
            case _:
                client, id_, condition, time_us, broker, lasts = values
                self._on_subscription(client, id_, condition, time_us - zero_us, broker, lasts)

    def _is_first(self, client: str, source: str, seq: int) -> bool:
        if client not in self._seen:
            settings = ProtocolSettings()
            self._seen[client] = Seen(settings.dedup_window, settings.dedup_sources)
        return self._seen[client].first_time(source, seq)

    def _on_subscription(
        self, client: str, id_: str | None, condition: str | None, time_us: int, broker: str, lasts: bool
    ) -> None:
        if id_ is None:
            self._away_us[client] = time_us
            return
        self._away_us.pop(client, None)
        known = self._since.get((client, id_))
        if known is not None and known[0] != condition:
            self._end(client, id_, time_us)
            known = None
        if known is None and condition is not None:
            self._since[client, id_] = condition, time_us, broker, lasts
            self._trace.begun(client, id_, condition, time_us)

    def on_crash(self, broker: str, time_us: int) -> None:
        """Sessions end with their broker's process, unless it has a store."""
        for (client, id_), (_, _, at, lasts) in list(self._since.items()):
            if at == broker and lasts:
                self._away_us.setdefault(client, time_us)
            elif at == broker:
                self._end(client, id_, time_us)

    def _end(self, client: str, id_: str, until_us: int | None) -> None:
        condition, since_us, _, _ = self._since.pop((client, id_))
        self._trace.add("subscriptions", client, id_, condition, since_us, until_us)

    def close(self, now_us: int) -> None:
        """What waits for who is still away is named: nobody can say whether it would have come."""
        for client, since_us in self._away_us.items():
            row: Row = incident_row(client, now_us, Incident("unrecoverable", reason=_AWAY, since_us=since_us))
            self._trace.add(*row)
        for client, id_ in list(self._since):
            self._end(client, id_, None)

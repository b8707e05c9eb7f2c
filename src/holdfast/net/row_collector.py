"""What a node reports for the trace of a run: its incidents as they happen, its counts once an interval."""

from holdfast.books.rows import (
    Row,
    acknowledged_incident,
    incident_row,
    link_row,
    lost_incident,
    message_row,
    sample_rows,
)
from holdfast.model.messages import Publication
from holdfast.net.clock import Clock
from holdfast.net.counters import WORTH_TELLING, Counters
from holdfast.net.driver import Driver
from holdfast.protocol.effects import Acknowledged, Delivered, DeliveredBatch, Incident, Lost


class RowCollector:
    """Collects a node's rows: its incidents as they happen, its counts once an interval."""

    def __init__(self, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._rows: list[Row] = []
        self._from_us = clock.now_us()
        self._reported: dict[str, int] = {}

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...

    def on_lost(self, lost: Lost, now_us: int) -> None:
        self.on_incident(lost_incident(lost), now_us)

    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None:
        self.on_incident(acknowledged_incident(self._node, acknowledged), now_us)

    def on_incident(self, incident: Incident, now_us: int) -> None:
        self._rows.append(incident_row(self._node, now_us, incident))

    def take(self, driver: Driver, counters: Counters, queue_bytes: int) -> list[Row]:
        """All since the last time."""
        now_us = self._clock.now_us()
        for kind, tally in (driver.tallies or {}).items():
            self._rows.append(message_row(self._node, kind, self._from_us, now_us, tally))
        if driver.tallies:
            driver.tallies.clear()
        for far, tally in driver.on_links.items():
            self._rows.append(link_row(self._node, far, self._from_us, now_us, tally))
        driver.on_links.clear()
        for what in WORTH_TELLING:
            count = getattr(counters, what)
            if count > self._reported.get(what, 0):
                self.on_incident(Incident(what, count=count - self._reported.get(what, 0)), now_us)
                self._reported[what] = count
        fullest = max((link.outbox.waiting_bytes for link in driver.links.values()), default=0)
        gauges = {"queue bytes": (fullest, queue_bytes), **driver.machine.gauges()}
        self._rows += sample_rows(self._node, now_us, gauges)
        self._from_us = now_us
        rows, self._rows = self._rows, []
        return rows

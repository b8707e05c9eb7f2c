"""Events from a Parquet or JSON Lines file.

Every column is an attribute but two: the one that says when (seconds of the run, or timestamps, of which the
first is published when the workload starts), and the one that names the publishing client. Without a time the
rows come at a rate, without a client they are dealt out to the publishers in turn. Rows are read as they are needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import ClassVar

from holdfast.model.errors import InputError
from holdfast.model.event import attributes_of
from holdfast.model.values import Value, microseconds
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent
from holdfast.network.workload.rows import Row, rows
from holdfast.network.workload.traffic import Traffic


@dataclass(frozen=True)
class Files:
    traffic: Traffic  # of the whole file, not of one publisher
    events: str | None = None
    time: str | None = None  # column names
    client: str | None = None
    per_client: ClassVar[int] = 0  # conditions come from a file as well; `deal_out_subscriptions` gives them to clients

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        if self.events is None:
            return []
        # One file is one stream: were each publisher to read its own rows, the file would be read once for each.
        return [self._stream(self.events, publishers, Random(f"{seed}/files/workload"), window)]

    def _stream(
        self, path: str, publishers: Sequence[str], dice: Random, window: PublishingWindow
    ) -> Iterator[ScheduledEvent]:
        traffic = self.traffic
        known = frozenset(publishers)
        steady = traffic.times(dice, window)
        clock = _Clock(self.time, window)
        for number, (place, row) in enumerate(rows(path)):
            at_us = next(steady, window.stop_us) if self.time is None else clock.read(row, place)
            if at_us >= window.stop_us:
                return
            client = publishers[number % len(publishers)] if self.client is None else row.pop(self.client, None)
            if not isinstance(client, str) or client not in known:
                raise InputError(f"{place}: {self.client} is {client!r}, which is not a client that publishes")
            yield ScheduledEvent(at_us, client, _attributes(row, place), traffic.payload_bytes, traffic.lifetime_us)

    def conditions(self, number: int, dice: Random) -> list[str]:
        return []

    def advertisement(self) -> str:
        return "TRUE"  # what the file will bring is not known before it is read


class _Clock:
    """Turns a column of seconds or timestamps into the run's microseconds, and wants them in order."""

    def __init__(self, column: str | None, window: PublishingWindow) -> None:
        self._column = column or ""
        self._window = window
        self._first_us: int | None = None  # of timestamps
        self._last_us = 0

    def read(self, row: Row, place: str) -> int:
        found = row.pop(self._column, None)
        if isinstance(found, str):
            found = _timestamp(found) or found
        if isinstance(found, datetime):
            moment_us = microseconds(found)
            if self._first_us is None:
                self._first_us = moment_us
            at_us = self._window.start_us + moment_us - self._first_us
        elif isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e12:
            at_us = round(found * 1_000_000)
        else:
            raise InputError(f"{place}: {self._column} is {found!r}; expected seconds or a timestamp")
        if at_us < self._last_us:
            before = f"{(self._last_us - at_us) / 1_000_000:g} s before the row above it"
            raise InputError(f"{place}: {self._column} goes back to {before}; sort the file by {self._column}")
        self._last_us = at_us
        return at_us


def _timestamp(text: str) -> datetime | None:
    """JSON has no timestamps, so that text stands for them."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _attributes(row: Row, place: str) -> dict[str, Value]:
    try:
        return {name: value for name, value in attributes_of(row).items() if value is not None}
    except InputError as error:
        raise InputError(f"{place}: {error}") from None

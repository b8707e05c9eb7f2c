"""Rows of the trace's tables, as both drivers make them and hand them to whoever keeps the books.

A row is the table's name and then its columns, in the order of `books/trace.py`. What a row has nothing to say about
is None: no value is hidden in a text.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.books.tally import Tally
from holdfast.protocol.effects import Acknowledged, Gauges, Incident, Lost

Row = tuple[Any, ...]


def incident_row(node: str, time_us: int, incident: Incident) -> Row:
    return (
        "incidents",
        node,
        time_us,
        incident.kind,
        incident.peer or None,
        incident.other or None,
        incident.source or None,
        incident.first or None,
        incident.count,
        incident.reason or None,
        incident.copying,
        incident.since_us or None,
    )


def lost_incident(lost: Lost) -> Incident:
    count, since_us = lost.last - lost.first + 1, 0 if lost.first else lost.since_us
    return Incident(
        "unrecoverable", source=lost.source, first=lost.first, count=count, reason=lost.reason, since_us=since_us
    )


def acknowledged_incident(publisher: str, acknowledged: Acknowledged) -> Incident:
    first, last = acknowledged.first, acknowledged.last
    return Incident("acknowledged", source=publisher, first=first, count=last - first + 1)


def sample_rows(node: str, time_us: int, gauges: Gauges) -> Iterator[Row]:
    for name, (value, limit) in gauges.items():
        yield "samples", node, time_us, name, float(value), float(limit)


def message_row(node: str, kind: str, from_us: int, until_us: int, tally: Tally) -> Row:
    return "messages", node, kind, from_us, until_us, tally.sent, tally.sent_bytes, tally.lost, tally.received


def link_row(node: str, peer: str, from_us: int, until_us: int, tally: Tally) -> Row:
    return "links", node, peer, from_us, until_us, tally.sent, tally.sent_bytes, tally.lost

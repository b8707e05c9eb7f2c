"""Rows of the trace's tables, as both drivers make them and hand them to whoever keeps the books.

A row is the table's name and then its columns, in the order of `books/trace.py`. What a row has nothing to say about
is None: no value is hidden in a text.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.books.tally import Tally
from holdfast.model.messages import Publication
from holdfast.protocol.effects import Acknowledged, Gauges, Incident, Lost

Row = tuple[Any, ...]

GUEST, DOOR = "mqtt:", "mqtt-door:"  # what the names of clients of MQTT begin with; who publishes their wills
GUESTS = "guests"  # rows of what these subscribe to, of which whoever keeps the books makes subscriptions


def publication_row(publication: Publication, size: int) -> Row:
    each = publication
    return "publications", each.source, each.seq, each.time_us, each.lifetime_us, size, dict(each.attributes)


def guest_row(node: str, id_: str | None, condition: str | None, time_us: int, broker: str, lasts: bool) -> Row:
    """A subscription begins, or ends where there is no condition; without an id, the client is away.

    One that lasts outlives its broker's process.
    """
    return GUESTS, node, id_, condition, time_us, broker, lasts


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

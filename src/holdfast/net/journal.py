"""What a live broker tells whoever runs it: one line per incident, for people or as JSON for machines.

A note is about something that happened: a peer came or went, the machine reported an incident, a counter of things
that should not happen has grown. Of each kind only a few lines a second are written; what happens more often is added
up and told once the second is over, so that a flood of incidents neither hides the others nor slows the broker.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from holdfast.model.messages import Publication
from holdfast.net.counters import WORTH_TELLING, Counters
from holdfast.protocol.effects import Acknowledged, Delivered, DeliveredBatch, Incident, Lost

LogStyle = Literal["text", "json"]

_LINES_MAX = 10  # of one kind a second: enough to see who it is about


@dataclass(frozen=True)
class Note:
    kind: str  # a few words that stay the same, to search by
    about: str  # whom or what it concerns
    text: str  # for people


class Journal:
    """The application of a node that has no other: it writes down incidents and drops the rest."""

    def __init__(self, node: str, style: LogStyle, write: Callable[[str], None]) -> None:
        self._node = node
        self._style = style
        self._write = write
        self._written: dict[str, int] = {}  # lines of this second by kind; kinds are few, all of them our own words
        self._held: dict[str, int] = {}  # incidents of this second that are not written one by one
        self._counted: dict[str, int] = {}  # what the counters were when they were last looked at

    def note(self, note: Note, count: int = 1) -> None:
        lines = self._written.get(note.kind, 0)
        if lines >= _LINES_MAX:
            self._held[note.kind] = self._held.get(note.kind, 0) + count
            return
        self._written[note.kind] = lines + 1
        self._write(self._line(note, count))

    def tick(self, counters: Counters) -> None:
        """To be called once a second and at the end: tell what was held back, and which counters have grown."""
        self._written.clear()
        held, self._held = self._held, {}
        for kind, count in held.items():
            self._write(self._line(Note(kind, "", f"{kind}, {count:,} more times"), count))
        for name in WORTH_TELLING:
            count = getattr(counters, name)
            grown = count - self._counted.get(name, 0)
            if grown:
                self._counted[name] = count
                kind = name
                self._write(self._line(Note(kind, "", f"{kind}: {grown:,}"), grown))

    def _line(self, note: Note, count: int) -> str:
        if self._style == "text":
            return f"{self._node}: {_one_line(note.text)}"
        return json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="microseconds"),
                "broker": self._node,
                "kind": note.kind,
                "about": note.about,
                "count": count,
                "text": note.text,
            }
        )

    # What a driver calls -------------------------------------------------------------------------

    def on_incident(self, incident: Incident, now_us: int) -> None:
        times = f", {incident.count:,} times" if incident.count > 1 else ""
        about = _about(incident)
        shown = f" ({about})" if about else ""
        why = f": {incident.reason}" if incident.reason else ""
        self.note(Note(incident.kind, about, f"{incident.kind}{shown}{times}{why}"), incident.count)

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...
    def on_lost(self, lost: Lost, now_us: int) -> None: ...
    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None: ...


def _about(incident: Incident) -> str:
    """Whom or what an incident concerns, in one word for a log: a node, an event, or a broker and its replica."""
    if incident.source:
        return f"{incident.source}/{incident.first}" if incident.first else incident.source
    return f"{incident.peer} by {incident.other}" if incident.other else incident.peer


def _one_line(text: str) -> str:
    """Names come from outside: none of them may begin a line of its own."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

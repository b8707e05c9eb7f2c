"""The journals of a run as the judge looks at them: who published what, who wanted what, what came, what was named.

Nothing is decided here. A line that is not there did not happen: an event without its second line may have left its
publisher or not, so it may be delivered and is not owed.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.nemesis.journal import Line, lines_of

FOREVER_US = 2**62


@dataclass
class Event:
    id: str  # publisher/life/number
    publisher: str
    life: int
    number: int  # among the events of that life
    attributes: dict[str, Any]
    print: int
    begun_us: int  # before it was published
    sent_us: int | None = None  # when that was done; None: nobody knows whether it was
    seq: int = 0  # the product's own number, by which it names losses
    flushed_us: int | None = None  # when its broker was known to have it
    doubted: bool = False  # its publisher was told that it may be lost


@dataclass
class Got:
    at_us: int
    id: str
    print: int


@dataclass
class JournaledSubscription:
    """A subscription in one life of its client."""

    client: str
    life: int
    key: str
    condition: str
    asked_us: int
    known_us: int | None = None  # when its broker was known to know it
    ended_us: int = FOREVER_US
    got: list[Got] = field(default_factory=list)


@dataclass
class Named:
    """Losses that a client was told of: of one source by number, or of anybody by time."""

    source: str
    first: int
    last: int
    since_us: int
    until_us: int
    events: int  # how many, where that is known
    reason: str


@dataclass
class Life:
    client: str
    number: int
    begun_us: int
    ended_us: int = FOREVER_US  # when it was killed or left
    killed: bool = False
    away_us: int = FOREVER_US  # since when its client knew that it had no connection, where it ended without one
    named: list[Named] = field(default_factory=list)
    missing: list[tuple[str, int, int]] = field(default_factory=list)  # at the end, still looked for


@dataclass
class Struck:
    kind: str
    target: str
    since_us: int
    until_us: int = FOREVER_US


@dataclass
class Evidence:
    events: dict[str, Event] = field(default_factory=dict)
    wanted: list[JournaledSubscription] = field(default_factory=list)
    lives: dict[tuple[str, int], Life] = field(default_factory=dict)
    struck: dict[int, Struck] = field(default_factory=dict)
    incidents: list[tuple[int, str, str]] = field(default_factory=list)  # when, at which broker, what
    notes: list[str] = field(default_factory=list)  # of the nemesis, for the report


def evidence_in(folder: Path) -> Evidence:
    found = Evidence()
    for path in sorted((folder / "journals").glob("client-*.jsonl")):
        _read_client(found, path)
    for path in sorted((folder / "journals").glob("broker-*.jsonl")):
        broker = path.stem.removeprefix("broker-").rpartition("-")[0]
        found.incidents += [(line["t"], broker, line["what"]) for line in lines_of(path) if line["k"] == "incident"]
    if (folder / "nemesis.jsonl").exists():
        _read_nemesis(found, folder / "nemesis.jsonl")
    _end_lives(found)
    return found


def _read_client(found: Evidence, path: Path) -> None:
    lines = list(lines_of(path))
    if not lines:
        return  # killed before its first line
    life = Life(lines[0]["node"], lines[0]["life"], lines[0]["t"])
    found.lives[life.client, life.number] = life
    wanted: dict[str, JournaledSubscription] = {}
    events: list[Event] = []
    for line in lines:
        _read_line(found, life, wanted, events, line)
    found.wanted += wanted.values()
    found.events |= {each.id: each for each in events}


def _read_line(
    found: Evidence, life: Life, wanted: dict[str, JournaledSubscription], events: list[Event], line: Line
) -> None:
    match line["k"]:
        case "pub":
            number = len(events) + 1
            id_ = f"{life.client}/{life.number}/{number}"
            assert id_ == line["id"], f"{line['id']} is not the event number {number} of its publisher"
            events.append(Event(id_, life.client, life.number, number, line["event"], line["print"], line["t"]))
        case "sent":
            event = events[int(line["id"].rpartition("/")[2]) - 1]
            event.sent_us, event.seq = line["t"], line["seq"]
        case "flushed":
            for event in reversed(events[: line["upto"]]):
                if event.flushed_us is not None:
                    break
                event.flushed_us = line["t"]
        case "unflushed":
            for event in events[line["first"] - 1 : line["last"]]:
                event.doubted = True
        case "sub":
            wanted[line["sub"]] = JournaledSubscription(
                life.client, life.number, line["sub"], line["condition"], line["t"]
            )
        case "subscribed":
            wanted[line["sub"]].known_us = line["t"]
        case "unsub":
            wanted[line["sub"]].ended_us = line["t"]
        case "got":
            wanted[line["sub"]].got.append(Got(line["t"], line["id"], line["print"]))
        case "lost":
            fields = ("source", "first", "last", "since_us", "until_us", "events", "reason")
            life.named.append(Named(*[line[name] for name in fields]))
        case "account":
            life.missing += [(source, first, last) for source, first, last in line["missing"]]
        case "state":
            life.away_us = line["t"] if line["state"] == "disconnected" else FOREVER_US
        case "end":
            life.ended_us = line["t"]


def _read_nemesis(found: Evidence, path: Path) -> None:
    for line in lines_of(path):
        match line["k"]:
            case "strike":
                found.struck[line["fault"]] = Struck(line["kind"], line["target"], line["t"])
            case "over":
                found.struck[line["fault"]].until_us = line["t"]
            case "killed":
                life = found.lives.get((line["node"], line["life"]))
                if life is not None and life.ended_us == FOREVER_US:  # else it had left already
                    life.ended_us, life.killed = line["t"], True
            case "left out" | "not started":
                found.notes.append(f"{line['k']}: {line.get('kind') or line.get('node')}: {line['text']}")


def _end_lives(found: Evidence) -> None:
    """The next life of a name ends the one before; a subscription ends with its life at the latest."""
    lives: dict[str, list[Life]] = defaultdict(list)
    for life in found.lives.values():
        lives[life.client].append(life)
    for each in lives.values():
        each.sort(key=lambda life: life.number)
        for before, after in pairwise(each):
            before.ended_us = min(before.ended_us, after.begun_us)
    for subscription in found.wanted:
        subscription.ended_us = min(subscription.ended_us, found.lives[subscription.client, subscription.life].ended_us)

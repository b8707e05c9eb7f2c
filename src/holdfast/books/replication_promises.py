"""P6, the promises of replication, checked on deliveries and on nothing else (properties 1 to 4 of paper 003).

Complete: of two subscribers that asked for the same, each gets what the other gets, between any two events of a source
that both got. Ordered: nobody gets events of one source out of order. The weak forms leave out events that were sent to
the faulty broker, which nobody can bring back. `incomplete` and `unordered` look for a witness among a few subscribers;
`judged` counts in a whole trace, where also links and clients may have lost or moved something.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from holdfast.books.definitions import CARRIERS, LATELY_US
from holdfast.books.failovers import ALIVE, MOMENTS, REQUESTED_KINDS, Failover, Moment, failovers, moved
from holdfast.books.runs import Run

EventId = tuple[str, int]  # source and number
Deliveries = Mapping[str, Sequence[EventId]]  # by subscriber, in the order in which they came


@dataclass(frozen=True)
class Witness:
    """Why a promise does not hold."""

    subscriber: str
    event: EventId
    against: str  # who got it, or what came before it

    def __str__(self) -> str:
        source, seq = self.event
        return f"{self.subscriber} and {source}/{seq}: {self.against}"


def incomplete(
    deliveries: Deliveries, alike: Iterable[tuple[str, str]], left_out: Collection[EventId] = ()
) -> Witness | None:
    """An event that one of two alike subscribers missed between two that both got."""
    for pair in alike:
        one, other = (set(deliveries.get(name, ())).difference(left_out) for name in pair)
        both = one & other
        for source in sorted({source for source, _ in both}):
            seqs = [seq for of, seq in both if of == source]
            for event in sorted(one ^ other):
                if event[0] == source and min(seqs) < event[1] < max(seqs):
                    loser, winner = pair if event in other else reversed(pair)
                    return Witness(loser, event, f"{winner} got it")
    return None


def unordered(deliveries: Deliveries, left_out: Collection[EventId] = ()) -> Witness | None:
    """An event that came after a later one of its source."""
    for subscriber, events in deliveries.items():
        by_source: dict[str, list[int]] = {}
        for source, seq in events:
            if (source, seq) not in left_out:
                by_source.setdefault(source, []).append(seq)
        for source, seqs in by_source.items():
            for before, after in pairwise(seqs):
                if after < before:
                    return Witness(subscriber, (source, after), f"came after {before}")
    return None


# In a trace ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    checked: int
    broken: tuple[dict[str, Any], ...]
    note: str = ""
    failovers: tuple[Failover, ...] = ()
    moved: frozenset[str] = frozenset()  # clients whose own broker was lost

    @property
    def replicated(self) -> bool:
        """Whether every replica was ready at last."""
        return bool(self.failovers) and all(each.ready_us is not None for each in self.failovers)


def judged(run: Run, known_us: int) -> Judged:
    """P6 of a run: what the protocols of its replications promise, and only that."""
    incidents = run.table("incidents").select(Moment._fields)
    moments = [Moment(**row) for row in incidents.to_pylist() if row["kind"] in MOMENTS]
    found = failovers([*moments, *_signs_of_life(run, moments)])
    if not found:
        return Judged(0, (), "no broker was replaced or relieved")
    rows = sorted(run.table("deliveries").to_pylist(), key=lambda row: row["time_us"])
    published = {(row["source"], row["seq"]): row["time_us"] for row in _published(run)}
    rows = [row for row in rows if (row["source"], row["seq"]) in published]  # others are P1's affair
    transit_us = _transit_us(rows, published, found)
    left_out = {event for event, at_us in published.items() if any(each.cost(at_us, transit_us) for each in found)}
    rows = [row for row in rows if (row["source"], row["seq"]) not in left_out]
    broken: list[dict[str, Any]] = []
    notes = []
    if any(count for count in _lost(run)):
        notes.append("links lost events, so completeness is not judged")
    elif all(each.promises_complete for each in found):
        broken += _missed(rows, published, _alike(run, moved(moments), known_us))
    else:
        notes.append("basic replication does not promise completeness")
    if all(each.promises_order for each in found):
        broken += _late(rows, found)
    else:
        notes.append("order is not promised")
    return Judged(len(rows), tuple(broken), "; ".join(notes), tuple(found), frozenset(moved(moments)))


def _published(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run.table("publications").select(["source", "seq", "time_us"]).to_pylist()
    return rows


def _signs_of_life(run: Run, moments: Iterable[Moment]) -> list[Moment]:
    requests = [moment for moment in moments if moment.kind in REQUESTED_KINDS]
    replaced = {name for moment in requests for name in (moment.peer, moment.other)}
    rows = run.table("messages").to_pylist() if replaced else []
    lived = [row for row in rows if row["node"] in replaced and row["sent"] > row["lost"]]
    return [Moment(row["node"], row["from_us"], ALIVE) for row in lived]


def _lost(run: Run) -> list[int]:
    rows = run.table("messages").to_pylist()
    return [row["lost"] for row in rows if row["kind"] in CARRIERS]


def _transit_us(rows: list[dict[str, Any]], published: Mapping[EventId, int], found: list[Failover]) -> int:
    delays_us = [0]
    for each in found:
        for row in rows:
            died_us = None if each.window_us is None else each.window_us[0]
            if died_us is not None and died_us - LATELY_US <= row["time_us"] <= died_us:
                delays_us.append(row["time_us"] - published[row["source"], row["seq"]])
    return max(delays_us)


def _missed(
    rows: list[dict[str, Any]], published: Mapping[EventId, int], alike: Iterable[tuple[list[str], int]]
) -> list[dict[str, Any]]:
    """What a subscriber did not get of that which another got who wants the same, between events that it got."""
    got: dict[str, dict[str, set[int]]] = {}
    for row in rows:
        got.setdefault(row["subscriber"], {}).setdefault(row["source"], set()).add(row["seq"])
    broken = []
    for members, since_us in alike:
        for source in sorted({source for name in members for source in got.get(name, {})}):
            of_all = set().union(*(got.get(name, {}).get(source, set()) for name in members))
            for name in members:
                own = got.get(name, {}).get(source, set())
                for seq in sorted(of_all - own):
                    if own and min(own) < seq < max(own) and published[source, seq] >= since_us:
                        broken.append({"subscriber": name, "source": source, "seq": seq})
    return broken


def _alike(run: Run, left_out: Collection[str], known_us: int) -> list[tuple[list[str], int]]:
    """Subscribers with the same conditions that never ended, and from when on all of these were known."""
    wants: dict[str, dict[str, int]] = {}
    ended: set[str] = set(left_out)
    for row in run.table("subscriptions").to_pylist():
        wants.setdefault(row["subscriber"], {})[row["condition"]] = row["from_us"]
        if row["until_us"] is not None:
            ended.add(row["subscriber"])
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, conditions in wants.items():
        if name not in ended:
            groups.setdefault(tuple(sorted(conditions)), []).append(name)
    return [
        (sorted(names), max(max(wants[name].values()) for name in names) + known_us)
        for names in groups.values()
        if len(names) > 1
    ]


def _late(rows: list[dict[str, Any]], found: list[Failover]) -> list[dict[str, Any]]:
    """What came after a later event of its source: by way of a replica, or at all since two brokers share events."""
    shared_us = min((each.asked_us for each in found if each.use != "failover"), default=None)
    highest: dict[tuple[str, str], int] = {}
    broken = []
    for row in rows:
        pair = row["subscriber"], row["source"]
        if row["seq"] < highest.get(pair, 0):
            if row["via"] == "replica" or (shared_us is not None and row["time_us"] >= shared_us):
                broken.append({name: row[name] for name in ("subscriber", "source", "seq")})
        else:
            highest[pair] = row["seq"]
    return broken

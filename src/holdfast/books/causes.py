"""What in a run may have cost events, and how many: from its trace alone (docs/promises.md has the rules).

A missing event needs a cause. Some causes name it. Some are disturbances, which excuse whatever was published around
them. And some are counted: a lost message costs one event and no more. The judge on Spark works all of this out by
itself (`pipeline/audit/causes.py`).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.books import definitions as what
from holdfast.books.promised import (
    NO_ORDER,
    hands_over_at_once,
    heartbeat_and_lease_us,
    order_promised,
    recovery_promised,
)
from holdfast.books.runs import Run

Span = tuple[int, int]  # the first and the last of some times or numbers
_END = {"publications": "time_us", "deliveries": "time_us", "messages": "until_us", "incidents": "time_us"}


@dataclass(frozen=True)
class MissingDelivery:
    """An event that was owed and never came."""

    subscriber: str
    source: str
    seq: int
    time_us: int  # when it was published
    settled_us: int  # how far that lies within the life of the subscription


class Causes:
    """The circumstances of one run."""

    def __init__(self, run: Run, waits: int | None = None) -> None:
        """`waits`, if somebody knows it: how many heartbeats a condition may have to wait for."""
        self._samples = run.table("samples")
        self.recovers = recovery_promised(run.about)
        self.keeps_order = order_promised(run.about) != NO_ORDER
        self.heartbeat_us, self.lease_us = heartbeat_and_lease_us(run.about)
        self.incidents: list[dict[str, Any]] = sorted(
            run.table("incidents").to_pylist(), key=lambda row: row["time_us"]
        )
        self.messages: list[dict[str, Any]] = run.table("messages").to_pylist()
        ends_us = [pc.max(run.table(table)[column]).as_py() or 0 for table, column in _END.items()]
        self.end_us: int = max(ends_us)
        # In traces of 0.2 what recovering clients say to each other counts as Deliver too.
        talks = any(row["kind"] == "DeliverControl" for row in self.messages)
        self.tells_control_apart = talks or hands_over_at_once(run.about)
        self.delays = _delays(run)  # when it arrived, and how long it took
        self.longest_us = max((delay_us for _, delay_us in self.delays), default=0)

        self._arrivals = _rows(run.table("deliveries"), "subscriber", "source", "time_us")
        self._asked = Counter(run.table("subscriptions")["subscriber"].to_pylist())
        self.waits = self._waits() if waits is None else waits

    # How long things take -------------------------------------------------------------------------

    def _waits(self) -> int:
        """Heartbeats that a condition may have to wait for, going by the node that loses the largest share."""
        sent, lost = Counter[str](), Counter[str]()
        for row in self.messages:
            if row["kind"] in what.TABLE_CHECKS and within(row["from_us"], self._losing):
                sent[row["node"]] += row["sent"]
                lost[row["node"]] += row["lost"]
        worst = max((lost[node] / sent[node] for node in sent if sent[node]), default=0.0)
        brokers = {row["node"] for row in self.messages if row["kind"] == "Publish" and row["received"]}
        return what.heartbeats_waited(worst, len(brokers) + 1)

    @cached_property
    def known_us(self) -> int:
        """After which every broker knows a subscription, unless something disturbs that."""
        median_us = sorted(delay_us for _, delay_us in self.delays)[(len(self.delays) - 1) // 2] if self.delays else 0
        return max(self.heartbeat_us, 2 * median_us)

    @cached_property
    def _losing(self) -> list[Span]:
        """While messages about tables are lost, and until none was for two heartbeats."""
        checks = [row for row in self.messages if row["kind"] in what.TABLE_CHECKS and row["lost"]]
        return merged((row["from_us"], row["until_us"] + what.HEARTBEATS * self.heartbeat_us) for row in checks)

    @cached_property
    def unsure(self) -> list[Span]:
        """The same from when conditions themselves were lost; with the time that these are on their way before."""
        lost_us = sorted(row["from_us"] for row in self.messages if row["kind"] in what.TABLES and row["lost"])
        first_us = {within(at_us, self._losing): at_us for at_us in reversed(lost_us)}
        return merged((at_us - self.known_us, span[1]) for span, at_us in first_us.items() if span)

    def _arrived_us(self, at_us: int) -> int:
        """Until when a condition that set out then may be on its way, because it or one before it was lost."""
        span = within(at_us, self.unsure)
        return (
            min(span[1], at_us + self.known_us + (what.HEARTBEATS + self.waits) * self.heartbeat_us) if span else at_us
        )

    # Disturbances ---------------------------------------------------------------------------------

    @cached_property
    def outages(self) -> list[Span]:
        """Between what went down and what came back, or the end of the run."""
        found: list[Span] = []
        since_us: dict[tuple[str, ...], int] = {}
        taken_down = 0
        for row in self.incidents:
            kind, at_us = row["kind"], row["time_us"]
            if kind in what.OUTAGES:
                since_us.setdefault((what.OUTAGES[kind], *_ends(row)), at_us)
            elif kind == what.TAKEN_DOWN:
                taken_down += 1
                since_us.setdefault((what.BROUGHT_UP,), at_us)
            elif kind == what.BROUGHT_UP:
                taken_down = max(0, taken_down - 1)
                if not taken_down and (kind,) in since_us:
                    found.append((since_us.pop((kind,)), at_us))
            keys = [(kind, *_ends(row)), ("restart", row["peer"])] if kind == what.REPLACED else [(kind, *_ends(row))]
            found += [(since_us.pop(key), at_us) for key in keys if key in since_us]
        return found + [(at_us, self.end_us) for at_us in since_us.values()]

    def unknown(self, disturbed: Iterable[Span]) -> list[Span]:
        """From before a disturbance, so that no subscription arrives any more, until what it held up has arrived."""
        spans = merged(((from_us, self._arrived_us(until_us)) for from_us, until_us in disturbed), self.known_us)
        return [(from_us - self.known_us, until_us) for from_us, until_us in spans]

    def is_known(self, from_us: int, time_us: int, unknown: list[Span]) -> bool:
        """Whether a subscription that began then was known at that time."""
        arrived_us = self._arrived_us(from_us)
        held_up = [span[1] for span in (within(from_us, unknown), within(arrived_us, unknown)) if span]
        return max([arrived_us, *held_up]) + self.known_us <= time_us

    def disturbed(self, before_us: int, after_us: int) -> list[Span]:
        """Every outage and incident that disturbs the run, with so much time around it; apart, and in order."""
        moments = [(row["time_us"], row["time_us"]) for row in self.incidents if row["kind"] in what.DISTURBING]
        return merged((from_us - before_us, until_us + after_us) for from_us, until_us in [*self.outages, *moments])

    @cached_property
    def moved_us(self) -> dict[str, int]:
        """Clients that left their broker, and when: nobody else knows where they are from then on."""
        found: dict[str, int] = {}
        for row in self.messages:
            if row["kind"] == "Detach" and row["sent"]:
                found[row["node"]] = min(found.get(row["node"], row["from_us"]), row["from_us"])
        return found

    # What is named, and what is counted -----------------------------------------------------------

    def named(self, kinds: Iterable[str]) -> dict[tuple[str, str], list[Span]]:
        """The numbers of events that incidents name, by the node that reported it and the source."""
        found: dict[tuple[str, str], list[Span]] = {}
        for row in self.incidents:
            if row["kind"] in kinds and row["source"] and row["first"]:
                last = row["first"] + row["count"] - 1
                found.setdefault((row["node"], row["source"]), []).append((row["first"], last))
        return {key: merged(spans) for key, spans in found.items()}

    @cached_property
    def named_us(self) -> dict[str, list[Span]]:
        """By subscriber: when events may have been published that it has named without their numbers."""
        found: dict[str, list[Span]] = {}
        for row in self.incidents:
            if row["kind"] in what.NAMING and row["since_us"]:
                found.setdefault(row["node"], []).append((row["since_us"] - self.longest_us, row["time_us"]))
        return {node: merged(spans) for node, spans in found.items()}

    def events(self, kinds: Iterable[str]) -> set[tuple[str, int]]:
        """Source and number of the events that incidents name, whoever reported it."""
        rows = [row for row in self.incidents if row["kind"] in kinds and row["source"] and row["first"]]
        return {(row["source"], row["first"] + more) for row in rows for more in range(row["count"])}

    def counted(self, kinds: Iterable[str], since_us: int = 0) -> int:
        rows = [row for row in self.incidents if row["time_us"] >= since_us]
        counts: list[int] = [row["count"] for row in rows if row["kind"] in kinds]
        return sum(counts)

    def lost(self, kind: str, since_us: int = 0) -> int:
        """Messages that were lost, or never arrived."""
        rows = [row for row in self.messages if row["kind"] == kind and row["until_us"] >= since_us]
        lost: int = sum(row["lost"] for row in rows)
        gone: int = sum(row["sent"] - row["received"] for row in rows)
        return max(lost, gone)

    # P4 -------------------------------------------------------------------------------------------

    def unexplained(self, missing: Iterable[MissingDelivery]) -> int:
        """How many of these have no cause."""
        spans = self.disturbed(self.longest_us, what.LEASES * self.lease_us)
        patience_us = max(2 * self.longest_us, what.LEASES * self.lease_us if self.recovers else 0)
        left = self.without_excuse(missing, spans, self.end_us - patience_us)
        best_effort = [
            each
            for each in left
            if not self.recovers or each.subscriber in self.overstretched or each.subscriber == each.source
        ]
        events = Counter((each.source, each.seq) for each in best_effort)
        whole = self.lost("Publish") + self.counted(what.COSTING_ONE)
        beyond = sum(sorted(events.values(), reverse=True)[whole:])
        return len(left) - len(best_effort) + max(0, beyond - self.lost("Deliver"))

    def withheld(self, deliveries: pa.Table) -> int:
        """Messages with an event that reached a subscriber, and of which nothing came out: no delivery, no incident.

        Where subscribers hold events back they are judged by their last sample, which tells how many they hold.
        """
        if not self.tells_control_apart:
            return 0
        left, until_us = Counter[str](), dict[str, int]()
        for node, at_us, held in self._held_back:
            left[node], until_us[node] = -held, at_us
        rows = [(row["node"], row["until_us"], row["received"]) for row in self.messages if row["kind"] == "Deliver"]
        handed = deliveries.filter(pc.not_equal(deliveries["via"], "repair"))  # a repair is no Deliver
        rows += [(row["subscriber"], row["time_us"], -1) for row in handed.to_pylist()]
        dropped = [row for row in self.incidents if row["kind"] in what.DROPPING]
        rows += [(row["node"], row["time_us"], -row["count"]) for row in dropped]
        for node, at_us, count in rows:
            if at_us <= until_us.get(node, 0 if self.keeps_order else self.end_us):
                left[node] += count
        return sum(count for count in left.values() if count > 0)

    @cached_property
    def _held_back(self) -> list[tuple[str, int, int]]:
        """Subscribers that keep order: when they were last sampled, and how many events they held back then."""
        rows = self._samples.filter(pc.equal(self._samples["name"], what.HELD_BACK)).to_pylist()
        last = {row["node"]: row for row in sorted(rows, key=itemgetter("time_us"))}
        return [(node, row["time_us"], round(row["value"])) for node, row in last.items()]

    @cached_property
    def overstretched(self) -> set[str]:
        """Subscribers that have followed as many publishers as they may: nobody looks for what others publish."""
        followed = self._samples.filter(pc.equal(self._samples["name"], what.FOLLOWED))
        full = followed.filter(pc.greater_equal(followed["value"], followed["limit"]))
        return set(full["node"].to_pylist())

    def without_excuse(
        self, missing: Iterable[MissingDelivery], spans: list[Span], until_us: int
    ) -> list[MissingDelivery]:
        """Those that were published until then, outside of these disturbances, for subscriptions that were known."""
        unknown, given_up, expired = self.unknown(spans), self.named(what.NAMING), self.events(what.NAMING_FOR_ALL)
        proven_us = self._proven_us(spans)
        return [
            each
            for each in missing
            if each.time_us <= until_us
            and (each.source, each.seq) not in expired
            and not within(each.seq, given_up.get((each.subscriber, each.source), []))
            and not within(each.time_us, self.named_us.get(each.subscriber, []))
            and not self.has_moved(each.subscriber, each.source, each.time_us)
            and each.settled_us >= self.known_us
            and not within(each.time_us, spans)
            and (
                self._is_proven(each, proven_us) or self.is_known(each.time_us - each.settled_us, each.time_us, unknown)
            )
        ]

    def _is_proven(self, each: MissingDelivery, proven_us: Mapping[tuple[str, str], int]) -> bool:
        """The subscription was known; and did not end while the event may have been on its way."""
        since_us = proven_us.get((each.subscriber, each.source))
        return since_us is not None and each.time_us >= since_us and each.settled_us >= self.longest_us

    def _proven_us(self, spans: list[Span]) -> dict[tuple[str, str], int]:
        """Of subscribers with one subscription and sources: when an event arrived first after the last disturbance.

        The network knew that subscription, then, and nothing has made it forget it.
        """
        since_us = spans[-1][1] if spans else 0
        found: dict[tuple[str, str], int] = {}
        for subscriber, source, at_us in self._arrivals:
            if at_us >= since_us and self._asked[subscriber] == 1:
                found[subscriber, source] = min(at_us, found.get((subscriber, source), at_us))
        return found

    # P6 -------------------------------------------------------------------------------------------

    def cut_off(self, owed: pa.Table, deliveries: pa.Table, left_out: frozenset[str]) -> list[MissingDelivery]:
        """What is owed since the last disturbance and a lease, where a subscriber got nothing of a source since then.

        None of it if the messages that were lost meanwhile, or what nodes dropped, can have cost so many events.
        """
        spans = self.disturbed(0, self.lease_us)
        since_us = self._arrived_us(spans[-1][1]) if spans else 0
        rows = [MissingDelivery(**row) for row in owed.filter(pc.greater_equal(owed["time_us"], since_us)).to_pylist()]
        got = set(_rows(deliveries, "subscriber", "source", "seq"))
        reached = {(row.subscriber, row.source) for row in rows if (row.subscriber, row.source, row.seq) in got}
        silent = [row for row in rows if (row.subscriber, row.source) not in reached]
        missing = [
            row
            for row in self.without_excuse(silent, spans, self.due_us)
            if left_out.isdisjoint({row.subscriber, row.source})
        ]
        cost = sum(self.lost(kind, since_us) for kind in what.CARRIERS) + self.counted(what.COSTING_ONE, since_us)
        return missing if len({(row.source, row.seq) for row in missing}) > cost else []

    # P5 -------------------------------------------------------------------------------------------

    @cached_property
    def disturbed_stores(self) -> list[Span]:
        return self.disturbed(0, what.HEARTBEATS * self.heartbeat_us)

    def may_still_come(self, time_us: int, lifetime_us: int | None) -> bool:
        """Whether the trace ends before what stored events wait for is over: an outage, and the event's lifetime."""
        is_down = any(until_us >= self.end_us for _, until_us in self.outages)
        return is_down and (lifetime_us is None or time_us + lifetime_us > self.end_us)

    @cached_property
    def due_us(self) -> int:
        """What was published until then has had the time to arrive: the run was undisturbed long enough after it."""
        quiet_us = self.end_us
        if self.disturbed_stores and self.disturbed_stores[-1][1] >= self.end_us:
            quiet_us = self.disturbed_stores[-1][0]
        patience_us = what.HEARTBEATS * self.heartbeat_us
        if any(row["lost"] for row in self.messages if row["until_us"] >= quiet_us - patience_us):
            patience_us += self.waits * self.heartbeat_us
        behind_us = [delay_us for at_us, delay_us in self.delays if quiet_us - what.LATELY_US <= at_us <= quiet_us]
        return quiet_us - max(patience_us, 2 * max(behind_us, default=0))

    def has_moved(self, subscriber: str, source: str, time_us: int) -> bool:
        """Whether one of the two had left its broker when the event was published, or left soon after."""
        soon_us = max(self.longest_us, what.HEARTBEATS * self.heartbeat_us)
        moves_us = [self.moved_us[client] for client in (subscriber, source) if client in self.moved_us]
        return any(time_us + soon_us >= at_us for at_us in moves_us)


def within(value: int, spans: list[Span]) -> Span | None:
    """The one of some merged spans that has the value."""
    at = bisect_right(spans, value, key=itemgetter(0)) - 1
    return spans[at] if at >= 0 and value <= spans[at][1] else None


def merged(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """In order, and those that touch as one; also those that are no more than a gap apart."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + gap:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _ends(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A node, or both ends of a link in one order."""
    return tuple(sorted({row["node"], row["peer"] or row["node"]}))


def _delays(run: Run) -> list[tuple[int, int]]:
    published = (
        run.table("publications").select(["source", "seq", "time_us"]).rename_columns(["source", "seq", "at_us"])
    )
    arrived = run.table("deliveries").select(["source", "seq", "time_us"])
    rows: pa.Table = arrived.join(published, ["source", "seq"], join_type="inner")
    delays = pc.subtract(rows["time_us"], rows["at_us"])
    return list(zip(rows["time_us"].to_pylist(), delays.to_pylist(), strict=True))


def _rows(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))

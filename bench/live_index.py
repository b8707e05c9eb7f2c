"""The live side: one event at a time, subscriptions that come and go, and the parser that reads them.

Matching is compared with the scan on the same events. Churn adds and removes new conditions, given as text,
while matching goes on in between: only the add and remove calls are timed, and the latency of the matches
meanwhile is reported. Parsing is compared with sqlglot on the same texts; each round takes other texts, so
no cache can help.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter_ns
from typing import Any

from bench.rounds import Disagreement
from bench.workloads import Workload

Nanoseconds = list[int]

ALIVE = 100  # how many added conditions are there at any time before the oldest is removed again


@dataclass(frozen=True)
class LiveMatch:
    subscriptions: int
    events: int
    match_per_second: float
    scan_events: int
    scan_per_second: float

    @property
    def ratio(self) -> float:
        return self.match_per_second / self.scan_per_second


def live_match(work: Workload, scan_events: int, rounds: int) -> LiveMatch:
    from holdfast import Matcher
    from holdfast.matching.scan import Scan

    matcher, scan = Matcher(), Scan()
    for id_, condition in zip(work.ids, work.texts, strict=True):
        matcher.add(id_, condition)
        scan.add(id_, condition)
    events: list[dict[str, Any]] = work.table.to_pylist()
    few = events[:scan_events]
    for event in few:
        fast, slow = sorted(matcher.match(event)), sorted(scan.match(event))
        if fast != slow:
            raise Disagreement(f"{work.name}, one event: match found {len(fast):,} ids, scan {len(slow):,}")
    match_us = scan_us = float("inf")
    for _ in range(rounds):
        match_us = min(match_us, _each_us(matcher.match, events))
        scan_us = min(scan_us, _each_us(scan.match, few))
    return LiveMatch(len(work.texts), len(events), 1e6 / match_us, len(few), 1e6 / scan_us)


def _each_us(match: Callable[[dict[str, Any]], object], events: list[dict[str, Any]]) -> float:
    began = perf_counter_ns()
    for event in events:
        match(event)
    return (perf_counter_ns() - began) / 1_000 / len(events)


@dataclass(frozen=True)
class Churn:
    subscriptions: int
    changes: int  # adds, and as many removes
    pairs_per_second: float  # an add and a remove together count once
    add_us: float
    remove_us: float
    match_us_median: float  # of the match calls between the changes
    match_us_p99: float


def churn(work: Workload, new: list[str], rounds: int) -> Churn:
    from holdfast import Matcher

    matcher = Matcher()
    for id_, condition in zip(work.ids, work.texts, strict=True):
        matcher.add(id_, condition)
    events: list[dict[str, Any]] = work.table.to_pylist()
    before = [sorted(matcher.match(event)) for event in events[:ALIVE]]
    size = len(new) // rounds
    runs = [_churn_once(matcher, new[i * size : (i + 1) * size], events) for i in range(rounds)]
    if [sorted(matcher.match(event)) for event in events[:ALIVE]] != before:
        raise Disagreement(f"{work.name}: after as many removes as adds, match finds other ids than before")
    adds, removes, matches = min(runs, key=lambda run: sum(run[0]) + sum(run[1]))
    seconds = (sum(adds) + sum(removes)) / 1e9
    return Churn(
        subscriptions=len(work.texts),
        changes=size,
        pairs_per_second=size / seconds,
        add_us=sum(adds) / len(adds) / 1_000,
        remove_us=sum(removes) / len(removes) / 1_000,
        match_us_median=median(matches) / 1_000,
        match_us_p99=quantiles(matches, n=100)[-1] / 1_000,
    )


def _churn_once(matcher: Any, new: list[str], events: list[dict[str, Any]]) -> tuple[Nanoseconds, ...]:
    """Of each add, of each remove, and of each match in between."""
    adds: Nanoseconds = []
    removes: Nanoseconds = []
    matches: Nanoseconds = []
    for i in range(len(new) + ALIVE):
        if i < len(new):
            began = perf_counter_ns()
            matcher.add(f"new{i}", new[i])
            adds.append(perf_counter_ns() - began)
        event = events[i % len(events)]
        began = perf_counter_ns()
        matcher.match(event)
        matches.append(perf_counter_ns() - began)
        if i >= ALIVE:
            began = perf_counter_ns()
            matcher.remove(f"new{i - ALIVE}")
            removes.append(perf_counter_ns() - began)
    return adds, removes, matches


@dataclass(frozen=True)
class Parsing:
    texts: str  # the workload that the texts come from
    count: int
    parse_per_second: float
    sqlglot_count: int
    sqlglot_per_second: float | None

    @property
    def ratio(self) -> float | None:
        return self.parse_per_second / self.sqlglot_per_second if self.sqlglot_per_second else None


Parse = Callable[[str], object]

SQLGLOT_SHARE = 10  # sqlglot gets every tenth of the texts, because it takes so much longer


def parsing(name: str, texts: list[str], rounds: int, sqlglot_parse: Parse | None) -> Parsing:
    from holdfast import parse

    size = len(texts) // rounds
    ours = theirs = float("inf")
    some = 0
    for i in range(rounds):
        fresh = texts[i * size : (i + 1) * size]
        ours = min(ours, _text_us(parse, fresh))
        if sqlglot_parse is not None:
            sample = fresh[::SQLGLOT_SHARE]
            some = len(sample)
            theirs = min(theirs, _text_us(sqlglot_parse, sample))
    return Parsing(name, size, 1e6 / ours, some, 1e6 / theirs if some else None)


def _text_us(parse: Parse, texts: list[str]) -> float:
    began = perf_counter_ns()
    for each in texts:
        parse(each)
    return (perf_counter_ns() - began) / 1_000 / len(texts)

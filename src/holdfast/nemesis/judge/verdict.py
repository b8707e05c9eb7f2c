"""What a mode promised and what became of it: of every owed event, delivered once, in order, or named.

An event is owed to a subscription when DuckDB says that it matches, its publisher knows that it was published, and the
subscription was known everywhere before and lasted long enough after. Where a process was killed or a subscription was
new or about to end, nobody can tell what is owed, and the judge accuses nobody: `Rules` has the margins.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from holdfast.nemesis.judge.evidence import FOREVER_US, Event, Evidence, Got, JournaledSubscription, Life, Named, Struck
from holdfast.nemesis.judge.matching import matches

_SHOWN_MAX = 20  # of the cases that break a promise; they are counted all

# Faults that hold messages up rather than losing them: an event may be lost after they are over.
_HOLDING = ("stall", "delay", "throttle", "pause-broker", "pause-publisher", "pause-subscriber", "slow-reader")
# Faults between brokers that hold them up as well where a broker keeps events for a neighbour that is gone: they wait
# for it to come back or for its replica, and may be lost then.
_KEPT_DURING = ("cut", "kill-broker", "clock-forward", "clock-back")
# Faults during which a broker may not hear an acknowledgement, or may forget it.
_UNHEARD = (
    "cut",
    "stall",
    "delay",
    "throttle",
    "drop",
    "kill-broker",
    "pause-broker",
    "clock-forward",
    "clock-back",
    "full-disk",
)
# What brokers report when events are lost at them.
_LOSING = frozenset(
    "dropped unsent oversized link_repair_failed no_route too_many_hops expired lease_expired neighbour_down "
    "neighbour_restarted replica_backlog_dropped replica_not_ready replica_backlog_overflow replica_cache_overflow "
    "suspected replaced_by no_replica backlog_dropped retention_expired stored_events_dropped".split()
)


@dataclass(frozen=True)
class Rules:
    """What a mode promises, and the margins within which nobody can tell."""

    names_losses: bool
    by_incident: bool  # what a broker reports names a loss, too
    in_order: bool
    stores: bool
    keeps: bool  # brokers keep events for a neighbour that is gone
    settle_us: int  # until a subscription is known everywhere, and after a fault
    slack_us: int  # by which a named time may be off: clocks are read a little before or after what they describe
    search_us: int  # how long a subscriber looks for an event before it names it
    again_us: int  # durable: what was delivered so shortly before a kill may come again
    once: bool = True  # an event that comes a second time breaks the promise
    known_at_once: bool = False  # a subscription that was confirmed is known wherever it has to be: at one server


@dataclass
class Judgement:
    events: int = 0  # published
    owed: int = 0  # pairs of an event and a subscription
    delivered: int = 0  # of these
    named: Counter[str] = field(default_factory=Counter)  # lost, and who was told
    undecided: int = 0  # not delivered, and their subscriber was killed or left before it could name them
    unnamed: int = 0
    twice: int = 0
    again: int = 0  # delivered again to another life of a durable subscriber, as documented
    disordered: int = 0
    foreign: int = 0  # never published, altered, or not wanted by whoever got it
    early: int = 0  # before they were published
    extra: int = 0  # delivered beyond what was owed for sure
    broken: list[str] = field(default_factory=list)  # promises, in words
    shown: list[dict[str, Any]] = field(default_factory=list)  # some of the cases

    def show(self, what: str, **case: Any) -> None:
        if sum(each["what"] == what for each in self.shown) < _SHOWN_MAX:
            self.shown.append({"what": what, **case})


def judge(evidence: Evidence, rules: Rules) -> Judgement:
    return _Judge(evidence, rules).verdict()


class _Judge:
    def __init__(self, evidence: Evidence, rules: Rules) -> None:
        self._of = evidence
        self._rules = rules
        self._found = Judgement(events=sum(each.sent_us is not None for each in evidence.events.values()))
        conditions = [each.condition for each in evidence.wanted]
        self._matches = matches({id_: each.attributes for id_, each in evidence.events.items()}, conditions)
        self._struck = sorted(evidence.struck.values(), key=lambda each: each.since_us)
        self._losing = sorted(at_us for at_us, _, what in evidence.incidents if what in _LOSING)
        self._came: dict[tuple[str, int, str], dict[str, int]] = {}  # to each subscription, and when
        self._budgets: dict[int, int] = {}  # of a named loss with a number of events: how many are left

    def verdict(self) -> Judgement:
        for lives in self._subscriptions().values():
            for each in lives:
                self._judge_deliveries(each)
            self._judge_owed(lives)
        found, rules = self._found, self._rules
        if found.unnamed and rules.names_losses:
            found.broken.append(f"{found.unnamed:,} events were lost, and nobody was told")
        if found.twice:
            found.broken.append(f"{found.twice:,} events were delivered twice")
        if found.disordered and rules.in_order:
            found.broken.append(f"{found.disordered:,} events were delivered after a later one of their publisher")
        if found.foreign:
            found.broken.append(f"{found.foreign:,} deliveries were of no event that their subscription wants")
        if found.early:
            found.broken.append(f"{found.early:,} events were delivered before they were published")
        return found

    def _subscriptions(self) -> dict[tuple[str, ...], list[JournaledSubscription]]:
        """The lives of each subscription: those of a durable client belong to its name, others to their process."""
        found: dict[tuple[str, ...], list[JournaledSubscription]] = defaultdict(list)
        for each in self._of.wanted:
            own = () if self._rules.stores else (str(each.life),)
            found[each.client, each.key, *own].append(each)
        for lives in found.values():
            lives.sort(key=lambda each: each.life)
        return found

    # What came -----------------------------------------------------------------------------------

    def _judge_deliveries(self, wanted: JournaledSubscription) -> None:
        found = self._found
        seen = self._came[wanted.client, wanted.life, wanted.key] = {}
        latest: dict[str, tuple[int, int]] = {}  # of each publisher: life and number
        for got in wanted.got:
            event = self._of.events.get(got.id)
            case = {"event": got.id, "subscriber": wanted.client, "life": wanted.life, "at_us": got.at_us}
            if event is None or not self._is_for(event, got, wanted):
                found.foreign += 1
                found.show("foreign", **case, condition=wanted.condition)
                continue
            if got.at_us < event.begun_us:
                found.early += 1
                found.show("early", **case, published_us=event.begun_us)
            if got.id in seen:
                if self._rules.once:
                    found.twice += 1
                    found.show("twice", **case)
                else:
                    found.again += 1
                continue
            seen[got.id] = got.at_us
            place = event.life, event.number
            if place < latest.get(event.publisher, (-1, 0)):
                found.disordered += 1
                found.show("disordered", **case, after=latest[event.publisher])
            else:
                latest[event.publisher] = place

    def _is_for(self, event: Event, got: Got, wanted: JournaledSubscription) -> bool:
        """It is as it was published, matches, and was published before the subscription ended."""
        is_same = event.print == got.print and event.begun_us <= wanted.ended_us
        return is_same and event.id in self._matches[wanted.condition]

    def _own(self, wanted: JournaledSubscription) -> dict[str, int]:
        return self._came[wanted.client, wanted.life, wanted.key]

    def _judge_again(self, lives: list[JournaledSubscription]) -> None:
        """What another life of a durable subscriber gets again: what the one before it could not acknowledge."""
        before: dict[str, tuple[JournaledSubscription, int]] = {}
        for each in lives:
            own = self._own(each)
            for id_ in own.keys() & before.keys():
                if not self._rules.once or self._unacknowledged(*before[id_]):
                    self._found.again += 1
                else:
                    self._found.twice += 1
                    self._found.show("twice", event=id_, subscriber=each.client, life=each.life, at_us=own[id_])
            before |= {id_: (each, at_us) for id_, at_us in own.items()}

    def _unacknowledged(self, wanted: JournaledSubscription, at_us: int) -> bool:
        """Whether a life may have ended before its broker knew, for good, that it had got an event at this time."""
        life = self._of.lives[wanted.client, wanted.life]
        if life.killed and at_us >= life.ended_us - self._rules.again_us:
            return True
        end_us = life.ended_us + self._rules.again_us
        struck = [each for each in self._struck if self._concerns(each, wanted.client)]
        return any(each.since_us <= end_us and each.until_us >= at_us for each in struck if each.kind in _UNHEARD)

    # What was owed -------------------------------------------------------------------------------

    def _judge_owed(self, lives: list[JournaledSubscription]) -> None:
        found = self._found
        came = {id_ for each in lives for id_ in self._own(each)}
        self._judge_again(lives)
        since_us, until_us = self._owed_window(lives)
        selected = [self._of.events[id_] for id_ in self._matches[lives[0].condition]]
        owed = [each for each in selected if self._is_owed(each, since_us, until_us)]
        found.owed += len(owed)
        lost = [each for each in owed if each.id not in came]
        found.delivered += len(owed) - len(lost)
        found.extra += len(came) - len(owed) + len(lost)
        for event in sorted(lost, key=lambda each: each.begun_us):
            self._judge_lost(event, lives, until_us)

    def _is_owed(self, event: Event, since_us: int, until_us: int) -> bool:
        """Published for sure: its publisher lived on, or its broker was known to have it."""
        life = self._of.lives[event.publisher, event.life]
        if event.sent_us is None or (life.killed and event.flushed_us is None):
            return False
        return event.begun_us >= since_us and event.sent_us <= until_us

    def _owed_window(self, lives: list[JournaledSubscription]) -> tuple[int, int]:
        first, last = lives[0], lives[-1]
        if first.known_us is None:
            return FOREVER_US, 0
        since_us = first.known_us + self._rules.settle_us
        if not self._rules.known_at_once:
            since_us = self._calm_after(first.known_us, first.client)
        life = self._of.lives[last.client, last.life]
        if last.ended_us >= life.ended_us and not life.killed and self._is_final(life):
            return since_us, last.ended_us  # it lasted to the end of the run, and saw the network heal
        return since_us, self._calm_before(last.ended_us, last.client)

    def _is_final(self, life: Life) -> bool:
        return (life.client, life.number + 1) not in self._of.lives

    def _concerns(self, fault: Struck, client: str) -> bool:
        """Whether a fault may delay what a subscriber wants: those of other clients do not."""
        others = {name for name, _ in self._of.lives} - {client}
        return fault.target not in others

    def _calm_after(self, time_us: int, client: str) -> int:
        """The end of the first span without a fault, long enough for all brokers to learn of a subscription."""
        for fault in self._struck:
            if fault.since_us >= time_us + self._rules.settle_us:
                break
            if self._concerns(fault, client) and fault.until_us + self._rules.settle_us > time_us:
                time_us = fault.until_us + self._rules.settle_us
        return time_us + self._rules.settle_us

    def _calm_before(self, time_us: int, client: str) -> int:
        """The beginning of the last such span: what was published before had time to arrive."""
        time_us -= self._rules.settle_us
        for fault in sorted(self._struck, key=lambda each: -each.until_us):
            ended_us = fault.until_us + self._rules.settle_us
            if (
                self._concerns(fault, client)
                and fault.since_us <= time_us + self._rules.settle_us
                and ended_us > time_us
            ):
                time_us = min(time_us, fault.since_us - self._rules.settle_us)
        return time_us

    # Whether it was named ------------------------------------------------------------------------

    def _judge_lost(self, event: Event, lives: list[JournaledSubscription], until_us: int) -> None:
        found = self._found
        own = [self._of.lives[each.client, each.life] for each in lives]
        by = self._named_by(event, own)
        if by is not None:
            found.named[by] += 1
        elif own[-1].ended_us < FOREVER_US and not self._had_time(event, lives[-1], own[-1]):
            found.undecided += 1
        else:
            found.unnamed += 1
            found.show(
                "unnamed",
                event=event.id,
                seq=event.seq,
                subscriber=lives[-1].client,
                lives=[each.number for each in own],
                published_us=event.begun_us,
            )

    def _had_time(self, event: Event, wanted: JournaledSubscription, life: Life) -> bool:
        """Whether the subscriber lived long enough, and with a connection, to look for the event and to name it."""
        if self._is_final(life) and wanted.ended_us >= life.ended_us and not life.killed:
            return True
        until_us = min(wanted.ended_us, life.away_us)  # who was killed while it was away had yet to name the absence
        since_us = max(event.begun_us, event.flushed_us or 0)  # before that it may not have left its publisher
        return until_us - since_us > self._rules.search_us + 2 * self._rules.settle_us

    def _named_by(self, event: Event, lives: list[Life]) -> str | None:
        span = self._span(event)
        for life in lives:
            ranges = [(each.source, each.first, each.last) for each in life.named if each.first]
            if any(source == event.publisher and first <= event.seq <= last for source, first, last in ranges):
                return "by number"
        for life in lives:
            if any(self._covers(each, span) for each in life.named):
                return "by time"
        for life in lives:
            if any(source == event.publisher and first <= event.seq <= last for source, first, last in life.missing):
                return "still looked for"
        if event.doubted:
            return "to the publisher"
        if self._rules.by_incident and self._reported(span):
            return "by an incident"
        return None

    def _covers(self, named: Named, span: tuple[int, int]) -> bool:
        if named.first or not named.until_us:
            return False
        slack_us = self._rules.slack_us
        if span[1] < named.since_us - slack_us or span[0] > named.until_us + slack_us:
            return False
        if named.events:  # it names so many and no more
            left = self._budgets.setdefault(id(named), named.events)
            self._budgets[id(named)] = left - 1
            return left > 0
        return True

    def _reported(self, span: tuple[int, int]) -> bool:
        """Whether a broker reported losses while the event was under way, or up to a second later, as it counts."""
        place = bisect_right(self._losing, span[0] - self._rules.slack_us)
        return place < len(self._losing) and self._losing[place] <= span[1] + self._rules.slack_us + 1_000_000

    def _span(self, event: Event) -> tuple[int, int]:
        """When the event may have been under way: until its broker had it, and longer where messages were held up."""
        end_us = max(event.flushed_us or 0, event.sent_us or 0, event.begun_us)
        for fault in self._struck:
            if fault.since_us > end_us + self._rules.slack_us:
                break
            if self._holds_up(fault) and fault.until_us > event.begun_us:
                end_us = max(end_us, fault.until_us)
        return event.begun_us, end_us

    def _holds_up(self, fault: Struck) -> bool:
        if fault.kind in _HOLDING:
            return True
        is_between_brokers = all(fault.target != name for name, _ in self._of.lives)
        return self._rules.keeps and fault.kind in _KEPT_DURING and is_between_brokers

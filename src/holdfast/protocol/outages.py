"""Links between brokers that are down: since when, and until all behind them know again what we want.

A broker tells everybody on its side when it loses a link, and again when all is as it was. Whoever hears of an outage
from a neighbour and loses that neighbour ends it in its stead: from then on its own link is the one that is down. So
nobody has to live until the end of an outage for its losses to be named.

A broker that was restarted does not remember whom it had lost. Its neighbours do: an outage lasts until all brokers are
reached again that were. And for itself, a link that comes up for the first time was down since the broker began.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from holdfast.model.messages import Outage
from holdfast.protocol.statements import NEVER

LASTING_MAX = 1_000  # outages that are remembered: beyond that, the network is no more
REACHABLE_MAX = 256  # brokers that are missed by name; in a larger network none are
GONE_US = 24 * 3600 * 1_000_000  # who was not seen for a day is not missed any more, and new when it comes

_SAME_US = 50_000  # two reports of one outage differ by less: by how well the clocks on their ways are known

_Link = tuple[str, str]


class _Lasting(msgspec.Struct):
    since_us: int
    via: str  # the neighbour that told us; of our own links, the one behind the link
    first: bool = False  # it may be none: the two have met for the first time
    needed: int = NEVER  # of a link that is up again: the version of our table that has all that we want,
    known: int = 0  # and the one that is known there, and to all behind it


class LinkOutages:
    def __init__(self, name: str, began_us: int, is_tree: bool = True) -> None:
        self._name = name
        self._is_tree = is_tree  # otherwise a report comes by several ways
        self._began_us = began_us
        self._lasting: dict[_Link, _Lasting] = {}
        self._over: dict[_Link, int] = {}  # the last that were told to be over, and since when they were
        self._reachable: dict[str, set[str]] = {}  # by neighbour: the brokers that are reached through it
        self._before: dict[str, set[str]] = {}  # the same, and those that were reached when all was well
        # Whom a replica has replaced: nobody misses these while it is reached. Ours, too, if we are one.
        self._stands_for: dict[str, set[str]] = {}

    def on_link_down(self, broker: str, heard_us: int, now_us: int) -> list[Outage]:
        """A broker is gone that was last heard of then."""
        link = self._name, broker
        told_by = [each for each, lasting in self._lasting.items() if lasting.via == broker and each != link]
        ended = [self._told(each, self._lasting.pop(each), False, now_us) for each in told_by]
        if link not in self._lasting:
            if len(self._lasting) >= LASTING_MAX:
                return ended
            self._lasting[link] = _Lasting(heard_us, broker)
        lost = self._lasting[link]
        lost.needed, lost.known, lost.first = NEVER, 0, False
        self._reachable.pop(broker, None)
        return [*ended, self._told(link, lost, True, now_us)]

    def on_link_up(self, broker: str, needed: int, now_us: int) -> list[Outage]:
        """A broker is there; the outage lasts until it, and all behind it, know this version of our table."""
        link = self._name, broker
        if link in self._lasting:
            self._lasting[link].needed = needed
            return []
        if now_us - self._began_us > GONE_US or len(self._lasting) >= LASTING_MAX:
            return []
        met = self._lasting[link] = _Lasting(self._began_us, broker, True, needed)
        return [self._told(link, met, True, now_us)]

    def stand_for(self, faulty: str) -> None:
        """We are in the place of a broker that was lost."""
        self._stands_for[self._name] = {faulty}

    def on_replaced(self, faulty: str, by: str, since_us: int, needed: int, now_us: int) -> list[Outage]:
        """A broker has lost what it had. Until another, or itself, knows all in its place, that is one outage."""
        lost = self._lasting.pop((self._name, faulty), None)
        told: list[Outage] = []
        if by != faulty:
            told += [] if lost is None else [self._told((self._name, faulty), lost, False, now_us)]
            self._stands_for[by] = {faulty, *islice(self._stands_for.pop(faulty, ()), REACHABLE_MAX)}
            self._before[by] = self._before.pop(faulty, set()) | self._before.get(by, set())
            self._reachable.pop(faulty, None)
        again = self._lasting[self._name, by] = _Lasting(since_us if lost is None else lost.since_us, by, False, needed)
        return [*told, self._told((self._name, by), again, True, now_us)]

    def on_known(self, broker: str, version: int, needed: int, now_us: int) -> list[Outage]:
        """This version of our table is known to a broker, and to all behind it; all that we want now is in another."""
        link = self._name, broker
        lasting = self._lasting.get(link)
        if lasting is None:
            return []
        if lasting.needed == NEVER:
            lasting.needed = needed
        lasting.known = version
        return self._ended(broker, lasting, now_us)

    def on_reachable(self, broker: str, names: tuple[str, ...], now_us: int) -> list[Outage] | None:
        """A neighbour says whom we reach through it: which outages are over; None when nothing is new."""
        reachable = set(names) - {self._name}
        if self._reachable.get(broker) == reachable:
            return None
        self._reachable[broker] = reachable
        before = (
            self._before.pop(broker, set()) if any(each.via == broker for each in self._lasting.values()) else set()
        )
        self._before[broker] = before | reachable if len(before) < 2 * REACHABLE_MAX else reachable
        if len(self._before) > LASTING_MAX:
            del self._before[next(iter(self._before))]
        lasting = self._lasting.get((self._name, broker))
        return [] if lasting is None else self._ended(broker, lasting, now_us)

    def _ended(self, broker: str, lasting: _Lasting, now_us: int) -> list[Outage]:
        """Its outage, if it is over."""
        if lasting.known < lasting.needed or not self._is_whole(broker):
            return []
        del self._lasting[self._name, broker]
        return [self._told((self._name, broker), lasting, False, now_us)]

    def _is_whole(self, broker: str) -> bool:
        """Whether all are reached through this neighbour again, or it says itself which link behind it is down."""
        reachable = self._reachable.get(broker, set())
        if self._before.get(broker, set()) <= reachable or len(reachable) >= REACHABLE_MAX:
            return True
        return any(each.via == broker for link, each in self._lasting.items() if link != (self._name, broker))

    def reachable(self, neighbour: str, brokers: Iterable[str]) -> tuple[str, ...]:
        """Whom a neighbour reaches through us, by way of these brokers next to us."""
        found: dict[str, None] = {}
        for name in brokers:
            if name != neighbour:
                behind = {*self._reachable.get(name, ()), *self._stands_for.get(name, ())}
                found |= {name: None, **dict.fromkeys(sorted(behind))}
        found |= dict.fromkeys(sorted(self._stands_for.get(self._name, ())))
        found.pop(neighbour, None)
        return tuple(islice(found, REACHABLE_MAX))

    def on_told(self, neighbour: str, outage: Outage, now_us: int) -> list[Outage]:
        """A neighbour tells of an outage: what is told to others of it."""
        link = outage.one, outage.other
        if outage.one == self._name:  # our own end of the link has given something up, which is over
            return [outage]
        since_us = outage.began_us(now_us)
        if not self._is_tree and self._has_come(link, outage.lasts, since_us):
            return []
        known = self._lasting.pop(link, None)
        if known is not None:
            since_us = min(since_us, known.since_us)
        told = _Lasting(since_us, neighbour, outage.first)
        if outage.lasts and len(self._lasting) < LASTING_MAX:
            self._lasting[link] = told
        return [self._told(link, told, outage.lasts, now_us, outage.hops + 1)]

    def _has_come(self, link: _Link, lasts: bool, since_us: int) -> bool:
        """Whether this report has come by another way: reports would go round for ever."""
        known, over_us = self._lasting.get(link), self._over.get(link)
        if over_us is not None and abs(since_us - over_us) <= _SAME_US:
            return True
        if known is not None and lasts:
            return since_us > known.since_us - _SAME_US
        if not lasts:
            self._over.pop(link, None)
            self._over[link] = since_us
            if len(self._over) > LASTING_MAX:
                del self._over[next(iter(self._over))]
        return False

    def lasting(self, neighbour: str, now_us: int) -> Iterator[Outage]:
        """Those that a neighbour does not know which has come now."""
        for link, lasting in self._lasting.items():
            if lasting.via != neighbour:
                yield self._told(link, lasting, True, now_us)

    def on_heartbeat(self, now_us: int) -> list[Outage]:
        """Who was lost for a day is not missed any more: those outages end."""
        gone = [link for link, each in self._lasting.items() if now_us - each.since_us > GONE_US]
        for one, other in gone:
            if one == self._name:
                self._before.pop(other, None)
        return [self._told(link, self._lasting.pop(link), False, now_us) for link in gone]

    def _told(self, link: _Link, outage: _Lasting, lasts: bool, now_us: int, hops: int = 0) -> Outage:
        return Outage(*link, max(0, now_us - outage.since_us), hops, lasts, outage.since_us, outage.first)

"""How far it is known what a neighbour wants: which version of its table all brokers know that are reached from here.

A broker that was told something tells its other neighbours, and each of them says when that is known there and
everywhere behind it. So the word comes back to the client, and an absence ends when it does. A broker that is stopped
or slow keeps it back. One whose link is down does not: that is an outage with an end of its own.
"""

from collections import deque
from collections.abc import Mapping

import msgspec

from holdfast.model.messages import TABLES, Heartbeat
from holdfast.protocol.statements import NEVER
from holdfast.protocol.tables import SentTable


class Behind(msgspec.Struct, frozen=True, gc=False):
    """What a broker says in its heartbeat of itself and of all brokers that are reached through it."""

    known: int  # the version of your subscriptions that all of them know
    now_us: int  # when this was said, by the broker's clock,
    complete_us: int  # and up to when all of them have told you what they had for you, by the same clock

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """As they stand behind the tables in a heartbeat."""
        return (self.known, 0), (self.now_us, self.complete_us)

    @staticmethod
    def said_in(summary: Heartbeat) -> "Behind | None":
        """None where it says nothing of others."""
        if len(summary.heard) != len(TABLES) + 2:
            return None
        (known, _), (now_us, complete_us) = summary.heard[-2:]
        return Behind(known, now_us, complete_us)


def known_everywhere(sent: SentTable, summary: Heartbeat) -> int:
    """The version of our table that the neighbour, by this summary, and all behind it have: what it says is known of a
    version counts only once it has all parts of it. Where it says nothing of others, or we want nothing that others
    would have to be told, what it has itself.
    """
    behind = Behind.said_in(summary)
    return sent.confirmed if behind is None or not sent.conditions else min(sent.confirmed, behind.known)


class Complete:
    """Up to when a neighbour, and all that are reached through it, have told us what they had for us, by our clock.

    What comes first on a link that keeps the order was said first: so this holds for events as well as for outages. The
    far clock is ahead of ours, or behind, by the least difference that was seen.
    """

    __slots__ = ("_behind_us", "upto_us")

    def __init__(self, now_us: int) -> None:
        self.upto_us = now_us
        self._behind_us: int | None = None

    def on_summary(self, summary: Heartbeat, now_us: int) -> None:
        behind = Behind.said_in(summary)
        if behind is None:
            self.upto_us = now_us
            return
        behind_us = now_us - behind.now_us
        self._behind_us = behind_us if self._behind_us is None else min(self._behind_us, behind_us)
        self.upto_us = behind.complete_us + self._behind_us


class _Wave(msgspec.Struct):
    """The brokers that have not said yet that they, and all behind them, know a table of this neighbour."""

    neighbour: str
    version: int
    waits_for: dict[str, None]


class _Told(msgspec.Struct):
    """What a neighbouring broker knows of our table."""

    known: int = 0  # the version that is known there, and everywhere behind it
    asked: deque[tuple[int, _Wave]] = msgspec.field(default_factory=deque)  # versions that waves need, in order
    untold: list[_Wave] = msgspec.field(default_factory=list)  # waves that need what it is still to be told


class Reach:
    """At most one wave of each neighbour is under way: what it wants meanwhile goes with the next one."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Told] = {}
        self._known: dict[str, int] = {}  # by neighbour: the version of its table that is known everywhere
        self._waves: dict[str, _Wave] = {}  # by neighbour
        self._next: dict[str, int] = {}  # by neighbour: the version that the next wave is about

    def known(self, neighbour: str) -> int:
        return self._known.get(neighbour, 0)

    def on_link_up(self, broker: str) -> None:
        self._brokers[broker] = _Told()

    def on_link_down(self, name: str, told: Mapping[str, int]) -> list[str]:
        """A neighbour is gone; those of whom all is known everywhere now, as nobody waits for it any more."""
        wave = self._waves.pop(name, None)
        for told_broker in self._brokers.values() if wave is not None else ():
            told_broker.asked = deque([each for each in told_broker.asked if each[1] is not wave])
            told_broker.untold = [each for each in told_broker.untold if each is not wave]
        for by_neighbour in (self._known, self._next):
            by_neighbour.pop(name, None)
        gone = self._brokers.pop(name, None)
        waves = [] if gone is None else [*(wave for _, wave in gone.asked), *gone.untold]
        return self._without(name, waves, told)

    def on_table(self, neighbour: str, version: int, told: Mapping[str, int]) -> None:
        """A neighbour wants something else from this version of its table on; brokers know it from these of ours."""
        if self._known.get(neighbour, 0) >= version:  # another part of it
            self._known[neighbour] = version - 1
        self._next[neighbour] = version
        if neighbour not in self._waves:
            self._begin(neighbour, told)

    def on_told(self, told: Mapping[str, int]) -> None:
        """What was still to be told has been, with these versions."""
        for name, broker in self._brokers.items():
            version = told.get(name, NEVER)
            if broker.untold and version != NEVER:
                broker.asked += [(version, wave) for wave in broker.untold]
                broker.untold = []

    def on_known(self, name: str, version: int, told: Mapping[str, int]) -> list[str]:
        """A broker says which version of our table is known from there on; those of whom all is known everywhere now.

        Versions of ours are `told` now.
        """
        broker = self._brokers.get(name)
        if broker is None:
            return []
        broker.known = version
        done: list[_Wave] = []
        while broker.asked and broker.asked[0][0] <= version:
            done.append(broker.asked.popleft()[1])
        return self._without(name, done, told)

    def _begin(self, neighbour: str, told: Mapping[str, int]) -> None:
        version = self._next.pop(neighbour)
        needed = {name: told[name] for name in self._brokers if name != neighbour and name in told}
        waits_for = {name: each for name, each in needed.items() if self._brokers[name].known < each}
        if not waits_for:
            self._known[neighbour] = version
            return
        wave = self._waves[neighbour] = _Wave(neighbour, version, dict.fromkeys(waits_for))
        for name, each in waits_for.items():
            if each == NEVER:
                self._brokers[name].untold.append(wave)
            else:
                self._brokers[name].asked.append((each, wave))

    def _without(self, broker: str, waves: list[_Wave], told: Mapping[str, int]) -> list[str]:
        finished: list[str] = []
        for wave in waves:
            wave.waits_for.pop(broker, None)
            name = wave.neighbour
            if wave.waits_for or self._waves.get(name) is not wave:
                continue
            del self._waves[name]
            version = self._next.get(name)
            self._known[name] = wave.version - (version == wave.version)
            if version is not None:
                self._begin(name, told)
            if name not in self._waves:
                finished.append(name)
        return finished

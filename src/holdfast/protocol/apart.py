"""When a client was cut off from its broker, or its broker from others: times in which it may have missed events.

An absence is named when the client is back. It is over when the broker says that all it reaches know our subscriptions
again, and that it reaches all brokers that were reached before: one that was restarted has forgotten them. When that
takes longer than was reckoned with, the absence is named once more. Outages between brokers are named at their end,
while they last when that is long, and when nobody is there any more to tell their end.
"""

import msgspec

from holdfast.model.messages import Heartbeat, Outage
from holdfast.protocol.effects import Absence, Lost
from holdfast.protocol.outages import GONE_US, LASTING_MAX, REACHABLE_MAX
from holdfast.protocol.reach import Complete

_Link = tuple[str, str]


class _Unended(msgspec.Struct):
    since_us: int
    reason: str
    named_us: int  # up to when it has been named; 0: it has not


class Apart:
    def __init__(self, began_us: int, heartbeat_us: int, lease_us: int) -> None:
        self._began_us = began_us
        self._reckoned_us = heartbeat_us  # until all brokers know our subscriptions again, as a rule
        self._patience_us = lease_us
        self._absence: _Unended | None = None
        self._outages: dict[_Link, _Unended] = {}
        self._whole = True  # nothing was ever down: two brokers that meet for the first time are new
        self._broker = ""
        self._complete: Complete | None = None  # up to when our broker has told us everything,
        self._complete_us: int | None = None  # and the one before it
        self._reachable: set[str] = set()  # the brokers that are reached through ours
        self._before: set[str] = set()  # the same, and ours, and those that were reached when all was well

    def is_over(self) -> bool:
        """Whether there is nothing of which the end is still to be named."""
        return self._absence is None and not self._outages

    def hears_again(self, now_us: int) -> bool:
        """What a summary of our broker alone does where nothing is still to be named; False if something is."""
        if self._absence is not None or self._outages:
            return False
        if self._complete is not None:
            self._complete.upto_us = now_us
        return True

    def on_broker(self, broker: str, now_us: int) -> list[Lost]:
        """There is a new session with this broker: nobody tells us the end of the outages that the last one told."""
        ended, self._outages = self._outages, {}
        self._broker, self._reachable = broker, set()
        self._complete_us = None if self._complete is None else self._complete.upto_us
        self._complete = Complete(now_us)
        return [_named(each.reason, each.since_us, now_us) for each in ended.values()]

    def on_absence(self, absence: Absence, now_us: int) -> list[Lost]:
        self._whole = False
        if absence.events:  # which the broker has dropped; we were not away
            return [_named(absence.reason, absence.since_us, absence.until_us, absence.events)]
        since_us = min(absence.since_us, self._complete_us or absence.since_us)
        if self._absence is not None:
            since_us = min(since_us, self._absence.since_us)
        self._absence = _Unended(since_us, absence.reason, now_us + self._reckoned_us)
        return [_named(absence.reason, since_us, now_us + self._reckoned_us)]

    def on_summary(self, summary: Heartbeat, now_us: int) -> None:
        if self._complete is not None:
            self._complete.on_summary(summary, now_us)

    def on_reachable(self, names: tuple[str, ...]) -> None:
        """Our broker says whom we reach through it."""
        self._reachable = {self._broker, *names}
        if self._absence is None and not self._outages:
            self._before = self._reachable
        else:
            self._before = self._before | self._reachable if len(self._before) < 2 * REACHABLE_MAX else self._reachable

    def on_known(self, now_us: int) -> list[Lost]:
        """All brokers in reach know our subscriptions."""
        if self._absence is None:
            return []
        is_whole = self._before <= self._reachable or len(self._reachable) > REACHABLE_MAX
        if not is_whole and now_us - self._absence.since_us < GONE_US:
            return []
        absence, self._absence = self._absence, None
        return [_named(absence.reason, absence.since_us, now_us)] if now_us > absence.named_us else []

    def on_outage(self, outage: Outage, now_us: int) -> list[Lost]:
        if outage.first and self._whole:
            return []
        self._whole = False
        link, since_us = (outage.one, outage.other), max(self._began_us, outage.began_us(now_us))
        known = self._outages.pop(link, None)
        if known is not None:
            since_us = min(since_us, known.since_us)
        reason = f"the link between {outage.one} and {outage.other} was down"
        if not outage.lasts or len(self._outages) >= LASTING_MAX:
            return [_named(reason, since_us, now_us)]
        self._outages[link] = _Unended(since_us, reason, 0 if known is None else known.named_us)
        return []

    def on_heartbeat(self, now_us: int) -> list[Lost]:
        """What lasts for longer than a lease is named, once."""
        named: list[Lost] = []
        for each in self._outages.values() if self._absence is None else (*self._outages.values(), self._absence):
            if each.named_us < each.since_us + self._patience_us < now_us:
                each.named_us = now_us
                named.append(_named(each.reason, each.since_us, now_us))
        return named


def _named(reason: str, since_us: int, until_us: int, events: int = 0) -> Lost:
    return Lost("", 0, 0, reason, since_us, until_us, events)

"""Clients that send more than their budget are slowed, and told so (`trust.budget`)."""

import asyncio
from collections.abc import Callable
from time import monotonic

from holdfast.net.link import Link
from holdfast.net.session import Session
from holdfast.net.wire import Wire
from holdfast.protocol.effects import Incident
from holdfast.trust.budget import Budgets, ConnectionBudget
from holdfast.trust.identity import Principal
from holdfast.wire.signals import Denied, encode_signal

_PAUSE_S_MIN = 0.01  # shorter pauses cost more than they save


def over_budget(client: str, reason: str) -> Incident:
    return Incident("over_budget", client, reason=reason)


class Throttle:
    """Of one connection."""

    def __init__(self, budget: ConnectionBudget, link: Link, wire: Wire, report: Callable[[Incident], None]) -> None:
        self._budget = budget
        self._link = link
        self._wire = wire
        self._report = report

    def takes(self, size: int) -> bool:
        """Whether a frame of this size is handled; a stream is held up after one that the budget does not pay for."""
        now_s, stream = monotonic(), self._wire.reliable
        wait_s = self._budget.spend(size, now_s, may_wait=stream)
        if wait_s <= 0:
            return True
        why = self._budget.why_now(now_s)
        if why:
            self._tell(f"{why}: {'slowed' if stream else 'the rest is dropped'}")
        if stream:
            self._link.slow_down(self._wire, True)
            again_s = max(wait_s, _PAUSE_S_MIN)
            asyncio.get_running_loop().call_later(again_s, self._link.slow_down, self._wire, False)
        return stream

    def _tell(self, reason: str) -> None:
        self._report(over_budget(self._link.name, reason))
        if self._link.hears_outages and self._link.wire_writable:
            self._wire.send(encode_signal(Denied("", "", reason)))


class Throttles:
    """Of all clients of a broker."""

    def __init__(self, budgets: Budgets, report: Callable[[Incident], None]) -> None:
        self.budgets = budgets
        self._report = report
        self._identities: dict[Session, Principal] = {}  # of open sessions
        self._latest: dict[str, Session] = {}  # by client: one that comes again is here before it has gone

    def begin(self, session: Session, link: Link) -> None:
        """A client was let in."""
        identity = session.identity
        if identity.is_broker_itself:
            return
        self.budgets.enter(identity)
        self.budgets.conditions.enter(link.name, identity)
        self._identities[session] = identity
        self._latest[link.name] = session
        if session.wire.vouched is None:  # else the door holds it up, where it comes in
            session.throttle = Throttle(self.budgets.of(identity), link, session.wire, self._report)

    def end(self, session: Session) -> None:
        identity = self._identities.pop(session, None)
        if identity is not None:
            self.budgets.leave(identity)
            name = "" if session.far is None else session.far.node
            if self._latest.get(name) is session:
                del self._latest[name]
                self.budgets.conditions.leave(name)

"""Whether somebody who has dialled a broker is let in: name, kind, identity, and whether the name is free.

A name belongs to who has it as long as they are heard of. The same incarnation may come back on a new connection at any
time: it knows its epoch, and a client also a secret that only its broker has heard, because epochs are told to many.
"""

from collections.abc import Callable, Collection, Container, Mapping

from holdfast.model.errors import InputError
from holdfast.net.session import Session
from holdfast.net.settings import NodeSettings
from holdfast.net.wire import Wire
from holdfast.protocol.groups.settings import HOMES
from holdfast.trust.budget import Budgets
from holdfast.trust.gate import Gate, NotTrustedError
from holdfast.trust.identity import Principal
from holdfast.wire.event_encoding import sendable_name
from holdfast.wire.signals import Hello, Refusal, Welcome

SESSIONS_MAX = (
    10_000  # open connections over streams, and as many over datagrams; the usual limit on open files is lower still
)


class AdmissionControl:
    def __init__(
        self,
        settings: NodeSettings,
        gate: Gate,
        budgets: Budgets,
        sessions: Mapping[str, Session],
        peers: Container[str],
        needs_other: Callable[[Hello], str],
    ) -> None:
        """`needs_other` says why a client needs another broker, or this broker other clients."""
        self._own = settings.name
        self._lease_s = settings.protocol.lease_us / 1e6
        self._gate = gate
        self._budgets = budgets
        self._sessions = sessions
        self._peers = peers
        self._needs_other = needs_other

    def decide(self, session: Session, hello: Hello, name_taken: str) -> Principal | Refusal | None:
        """Who it is, or why it is not let in; None when its next hello is to be awaited."""
        refused = self._refusal(hello, name_taken)
        if refused is not None:
            return refused
        given = session.credentials
        if self._gate.asks_for_proof(given):
            session.challenge()
            return None
        try:
            identity = session.wire.vouched or self._gate.identity(given, self._peers)
        except NotTrustedError as problem:
            return Refusal("not here", str(problem))
        if hello.kind == "client" and (why := self._needs_other(hello)):
            return Refusal("not here", why)
        known = self._sessions.get(hello.node)
        if known is None and is_full(self._sessions.values(), session.wire, SESSIONS_MAX):
            return Refusal("full", f"{self._own} has {SESSIONS_MAX} connections already")
        if known is None and hello.kind == "client" and (why := self._budgets.why_full(identity)):
            return Refusal("full", why)
        if known is None or known.far is None:
            return identity
        return self._beside(known, known.far, session, hello, identity)

    def _refusal(self, hello: Hello, name_taken: str) -> Refusal | None:
        try:
            sendable_name(hello.node, hello.kind)
        except InputError as problem:
            return Refusal("not here", str(problem))
        if hello.kind == "client" and hello.node.startswith(HOMES):
            return Refusal("not here", f"names that begin with {HOMES} are those of homes of groups")
        if hello.node == self._own:
            return Refusal("taken", f"a broker named {hello.node} is this broker itself")
        if hello.expects not in (None, self._own):  # the connection that there is stays
            return Refusal("not here", f"it is {self._own}, not {hello.expects}")
        if name_taken and hello.kind == "client":
            return Refusal("not here", f"{self._own} cannot join its network: {name_taken}")
        return None

    def _beside(
        self, known: Session, far: Hello | Welcome, session: Session, hello: Hello, identity: Principal
    ) -> Principal | Refusal | None:
        """The same of somebody whose name another connection has."""
        same = _is_same(far, hello)
        other = not same and known.silent_s < self._lease_s
        answers = known.answers() if other and not session.wire.reliable else other
        if answers is None:  # a hello over datagrams is repeated; by then we know more
            return None
        if answers:
            return Refusal("taken", f"another {far.kind} named {hello.node} is connected to {self._own}")
        if known.dialled and same and self._own < hello.node:
            return Refusal("other connection", f"duplicate connection: {self._own} has dialled {hello.node}")
        return identity


def is_full(sessions: Collection[Session], wire: Wire, most: int) -> bool:
    """Whether there are so many connections of this kind: those over UDP leave those over TCP their room."""
    if len(sessions) < most:
        return False
    return sum([each.wire.reliable == wire.reliable for each in sessions]) >= most


def _is_same(far: Hello | Welcome, hello: Hello) -> bool:
    """Whether this is the same incarnation of the same node."""
    secret = far.secret if isinstance(far, Hello) else 0
    return far.kind == hello.kind and far.epoch == hello.epoch and secret == hello.secret

"""Brokers that had dialled us and are gone: nobody here dials them, so nobody else would miss them.

One is forgotten when it is back or replaced, when it took leave because its own peers have changed, and after a day:
by then it was removed, or whoever looks after the network knows.
"""

from collections.abc import Callable
from time import monotonic

from holdfast.net.session import Session
from holdfast.wire.signals import Hello, Welcome

_REMEMBERED_S = 24 * 3600.0
_NAMES_MAX = 1_000  # more brokers than any network has around one; then the one that is gone longest is forgotten


class LostPeers:
    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._since_s: dict[str, float] = {}

    def on_connected(self, far: Hello | Welcome) -> None:
        self._since_s.pop(far.node, None)
        if isinstance(far, Hello) and far.replaces is not None:
            self._since_s.pop(far.replaces, None)

    def on_end(self, session: Session) -> None:
        """The last connection to a node that we do not dial is gone."""
        if session.far is None or session.far.kind != "broker" or session.dialled or session.left:
            return
        self._since_s.pop(session.far.node, None)
        if len(self._since_s) >= _NAMES_MAX:
            del self._since_s[next(iter(self._since_s))]
        self._since_s[session.far.node] = self._now_s()

    def names(self) -> tuple[str, ...]:
        oldest_s = self._now_s() - _REMEMBERED_S
        for name in [name for name, since_s in self._since_s.items() if since_s < oldest_s]:
            del self._since_s[name]
        return tuple(self._since_s)

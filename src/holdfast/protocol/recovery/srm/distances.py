"""How far other nodes are: the time their messages take.

SRM measures round trips by session messages to the group. There is no group here. Where clocks agree, every message
tells how long it took. Where they do not, a node probes those it hears, now and then, and takes half of the time to
the answer; until the first answer it knows nothing.
"""

from holdfast.protocol.recovery.srm.moving_average import MovingAverage

_LEAST_US = 1_000  # timers are no finer
_MOST_US = 10_000_000  # no network is wider; what says so has a clock that is wrong
_NAMES_MAX = 4_096  # nodes: half a megabyte; the one heard longest ago is forgotten


class PeerDistances:
    def __init__(self, default_us: int, probe_us: int | None) -> None:
        """`probe_us`: how often to ask one who is heard; None where clocks are trusted."""
        self._default_us = default_us
        self._probe_us = probe_us
        self._known: dict[str, MovingAverage] = {}  # in the order in which they were last heard
        self._asked_us: dict[str, int] = {}  # the same order
        self._due: dict[str, None] = {}  # whom to ask

    def on_heard(self, name: str, departure_us: int, now_us: int) -> None:
        if self._probe_us is None:
            self._add(name, now_us - departure_us)
        elif self._asked_us.get(name, now_us - self._probe_us) <= now_us - self._probe_us:
            self._due[name] = None

    def take_due(self, now_us: int) -> list[str]:
        """Whom to ask now how far they are; they count as asked."""
        due, self._due = list(self._due), {}
        for name in due:
            self._asked_us.pop(name, None)
            self._asked_us[name] = now_us
            if len(self._asked_us) > _NAMES_MAX:
                del self._asked_us[next(iter(self._asked_us))]
        return due

    def on_answer(self, name: str, asked_us: int, now_us: int) -> None:
        if self._asked_us.get(name) == asked_us:  # else it is late, or nobody asked
            self._add(name, (now_us - asked_us) // 2)

    def _add(self, name: str, far_us: int) -> None:
        known = self._known.pop(name, None) or MovingAverage(0.0)
        known.add(max(_LEAST_US, min(far_us, _MOST_US)))
        self._known[name] = known
        if len(self._known) > _NAMES_MAX:
            del self._known[next(iter(self._known))]

    def to_us(self, name: str) -> int:
        known = self._known.get(name)
        return self._default_us if known is None else int(known.value)

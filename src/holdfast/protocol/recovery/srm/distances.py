"""How far other nodes are: the time their messages take, by clocks that agree.

SRM measures round trips by session messages to the group. There is no group here, so clocks are trusted; where they
do not agree, a distance is wrong by the difference, within bounds, and recovery is only less well timed.
"""

from holdfast.protocol.recovery.srm.moving_average import MovingAverage

_LEAST_US = 1_000  # timers are no finer
_MOST_US = 10_000_000  # no network is wider; what says so has a clock that is wrong
_NAMES_MAX = 4_096  # nodes: half a megabyte; the one heard longest ago is forgotten


class PeerDistances:
    def __init__(self, default_us: int) -> None:
        self._default_us = default_us
        self._known: dict[str, MovingAverage] = {}  # in the order in which they were last heard

    def on_heard(self, name: str, departure_us: int, now_us: int) -> None:
        known = self._known.pop(name, None) or MovingAverage(0.0)
        known.add(max(_LEAST_US, min(now_us - departure_us, _MOST_US)))
        self._known[name] = known
        if len(self._known) > _NAMES_MAX:
            del self._known[next(iter(self._known))]

    def to_us(self, name: str) -> int:
        known = self._known.get(name)
        return self._default_us if known is None else int(known.value)

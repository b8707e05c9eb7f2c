"""Feedback that makes the realised share of violations equal to its target: which quantile is the right one?

A level is a probability: wait until a message is later than all but so many. It starts at the target and is moved by
each message that was noticed missing and came after all: up a little if we had waited long enough, down a lot if not.
So it rests only where the share of violations is the target (adaptive conformal inference, Gibbs and Candes 2021, on a
logarithmic scale, because small targets need levels that differ by factors).

The moves add up: violations less target times messages is (start - end) / gain, whatever the delays were, so the share
is wrong by a few messages in all. That is little in ten thousand and much in a hundred. So there are two of these: one
of each source and one that all sources of a client move, which gives a source that says little the right level too.
"""

from math import exp, log

_LEVEL_MIN, _LEVEL_MAX = 1e-7, 0.95  # the cap on a wait binds long before the one; the other is no wait at all


class Steering:
    def __init__(self, target: float, gain: float) -> None:
        self._target = target
        self._gain = gain
        self._nats_min, self._nats_max = log(_LEVEL_MIN / target), log(_LEVEL_MAX / target)
        self.nats = 0.0  # by which the level is above the target

    def on_found(self, violated: bool) -> None:
        moved = self.nats + self._gain * (self._target - violated)
        self.nats = min(max(moved, self._nats_min), self._nats_max)


class Level:
    """Of one source; `shared` belongs to all sources."""

    def __init__(self, target: float, gain: float, shared: Steering) -> None:
        self._target = target
        self._own = Steering(target, gain)
        self._shared = shared

    @property
    def value(self) -> float:
        return min(max(self._target * exp(self._own.nats + self._shared.nats), _LEVEL_MIN), _LEVEL_MAX)

    def on_found(self, violated: bool) -> None:
        self._own.on_found(violated)
        self._shared.on_found(violated)

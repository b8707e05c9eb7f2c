"""How many nodes take part in repairing one publisher's events: those heard lately.

In SRM session messages tell it; here nobody knows who the others are, so whoever asks or answers is counted.
"""

from math import log10

from holdfast.protocol.recovery.srm.moving_average import MovingAverage

_LATELY_US = 30_000_000  # a few rounds of a request
_NAMES_MAX = 256  # beyond that the number hardly changes a timer: it enters as its logarithm and as an upper bound
_LEAST = 2.0


class Group:
    def __init__(self) -> None:
        self._heard: dict[str, int] = {}  # when, in that order
        self._mean = MovingAverage(_LEAST)

    def on_heard(self, name: str, now_us: int) -> None:
        self._heard.pop(name, None)
        self._heard[name] = now_us
        if len(self._heard) > _NAMES_MAX:
            del self._heard[next(iter(self._heard))]

    def size(self, now_us: int) -> float:
        while self._heard and self._heard[first := next(iter(self._heard))] < now_us - _LATELY_US:
            del self._heard[first]
        self._mean.add(max(_LEAST, 1 + len(self._heard)))
        return self._mean.value

    def log_size(self) -> float:
        return log10(self._mean.value)

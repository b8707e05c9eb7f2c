"""How long something usually takes, and how long to wait before it is taken for lost (Jacobson's rule)."""

_FOLLOW = 0.125  # weight of a new sample in the mean,
_SPREAD = 0.25  # and in the mean deviation
_DEVIATIONS = 4  # beyond the mean: one in some hundreds takes longer when delays are jittery
_FIRST_US_MAX = 250_000  # the first deviation is an eighth of two seconds at most: what is longer comes of two clocks
_LEAST_US = 1_000  # a deviation cannot shrink below this; timers are no finer


class RttEstimator:
    __slots__ = ("_deviation_us", "_mean_us", "known")

    def __init__(self, first_us: int) -> None:
        self.known = False  # a sample has come; the first guess no longer counts
        self._mean_us = float(first_us)
        self._deviation_us = 0.0

    def guess(self, most_us: int) -> None:
        """It took at most this long: better than the first guess, and forgotten when a sample comes."""
        self._mean_us, self._deviation_us = float(most_us), min(abs(most_us) / 8, _FIRST_US_MAX)

    def add(self, took_us: int) -> None:
        if not self.known:
            self.known = True
            self.guess(took_us)
            return
        off_us = took_us - self._mean_us
        self._mean_us += _FOLLOW * off_us
        self._deviation_us += _SPREAD * (abs(off_us) - self._deviation_us)

    @property
    def mean_us(self) -> int:
        return int(self._mean_us)

    @property
    def timeout_us(self) -> int:
        return int(self._mean_us + max(_LEAST_US, _DEVIATIONS * self._deviation_us))

"""The last so many samples of something that is measured again and again, and its upper quantiles.

A window forgets by number, because a load that has changed should show soon, and by age, because the samples of
travel times contain the difference between two clocks: at a drift of 50 ppm two minutes move it by 6 ms. A level
that lies beyond the largest sample is answered by an exponential tail fitted to the top tenth.
"""

from array import array
from bisect import bisect_left, insort
from collections import deque
from math import ceil, log

COLD_SAMPLES = 20  # below this the top tenth is a sample or two, and nothing said about the tail would mean much
_TAIL_SAMPLES_MIN = 5  # that the tail is fitted to: the mean of fewer is mostly chance


class SampleWindow:
    """Sorted, so that a quantile is one look; at most 24 bytes a sample and twice the size of them."""

    def __init__(self, size: int, age_us_max: int) -> None:
        self._size = size
        self._age_us_max = age_us_max
        self._sorted = array("q")
        self._values = array("q")  # in the order of arrival, from `_first` on; what lies before is cut off in bulk
        self._times_us = array("q")
        self._first = 0

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: int, now_us: int) -> None:
        insort(self._sorted, value)
        self._values.append(value)
        self._times_us.append(now_us)
        if len(self._sorted) > self._size:
            self._forget_first()
        while now_us - self._times_us[self._first] > self._age_us_max:
            self._forget_first()

    def _forget_first(self) -> None:
        del self._sorted[bisect_left(self._sorted, self._values[self._first])]
        self._first += 1
        if self._first == self._size:
            del self._values[: self._first]
            del self._times_us[: self._first]
            self._first = 0

    def exceeded_with(self, probability: float) -> float:
        """The value that the next sample exceeds with this probability, were it drawn like those in the window."""
        count = len(self._sorted)
        rank = ceil((1 - probability) * (count + 1))
        if rank <= count:
            return self._sorted[max(rank, 1) - 1]
        return exponential_tail(self._sorted, probability)


def exponential_tail(ascending: "array[int] | list[float]", probability: float) -> float:
    """The same from beyond the sample: excesses over a high threshold are taken to be exponential."""
    count = len(ascending)
    top = min(max(_TAIL_SAMPLES_MIN, count // 10), count - 1)
    threshold = ascending[count - top - 1]
    mean_excess = sum(each - threshold for each in ascending[count - top :]) / top
    # Whole microseconds on top of a threshold that may be hours: so the offset of clocks cancels to the last bit.
    return threshold + int(mean_excess * log(top / count / probability))


class DifferenceWindow:
    """Delay differences of publications that are neighbours by number: S = delay(earlier) - delay(later).

    Only travel times enter, arrival minus departure, so clock offsets cancel. A message that arrives between two
    others is paired with both: each neighbouring pair is then sampled once, whichever of the two came first.
    """

    def __init__(self, size: int, neighbours_max: int) -> None:
        self._neighbours_max = neighbours_max
        self._seqs: list[int] = []
        self._travels_us: list[int] = []
        self.samples_us: deque[int] = deque(maxlen=size)

    def add(self, seq: int, travel_us: int) -> None:
        at = bisect_left(self._seqs, seq)
        if at > 0:
            self.samples_us.append(self._travels_us[at - 1] - travel_us)
        if at < len(self._seqs) and (at > 0 or len(self._seqs) < self._neighbours_max):
            self.samples_us.append(travel_us - self._travels_us[at])
        self._seqs.insert(at, seq)
        self._travels_us.insert(at, travel_us)
        if len(self._seqs) > self._neighbours_max:
            del self._seqs[0], self._travels_us[0]

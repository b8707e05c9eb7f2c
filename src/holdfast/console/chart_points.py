"""The last minutes of every number that the console shows, one point a second, in memory that does not grow."""

from array import array
from collections.abc import Mapping
from math import isnan, nan

POINTS = 300  # five minutes, a second each: as long as somebody looks back who saw something happen
SERIES_MAX = 20_000  # 24 MB: 200 brokers with 1,000 links and 1,000 subscriptions take 9,000


class ChartPoints:
    def __init__(self, points: int = POINTS, series_max: int = SERIES_MAX) -> None:
        self._points = points
        self._series_max = series_max
        self._second = -1
        self._times = array("d", [nan]) * points
        self._series: dict[str, dict[str, array[float]]] = {}
        self._count = 0
        self.refused = 0  # series that had no room

    def advance(self, time_s: float) -> None:
        """A second later: every series has a gap there until it is given a number."""
        self._second += 1
        at = self._second % self._points
        self._times[at] = time_s
        for series in self._series.values():
            for ring in series.values():
                ring[at] = nan

    def put(self, key: str, numbers: Mapping[str, float]) -> None:
        series = self._series.setdefault(key, {})
        for name, number in numbers.items():
            ring = series.get(name)
            if ring is None:
                if self._count >= self._series_max:
                    self.refused += 1
                    continue
                ring = series[name] = array("f", [nan]) * self._points
                self._count += 1
            ring[self._second % self._points] = number

    def forget(self, key: str) -> None:
        self._count -= len(self._series.pop(key, {}))

    def of(self, key: str) -> dict[str, list[float | None]]:
        """The points of this key in the order of time, as JSON has them; `time_s` are their times."""
        length = min(self._second + 1, self._points)
        first = self._second + 1 - length
        places = [second % self._points for second in range(first, self._second + 1)]
        found = {"time_s": self._times, **self._series.get(key, {})}
        return {name: [_shown(ring[at]) for at in places] for name, ring in found.items()}


def _shown(number: float) -> float | None:
    return None if isnan(number) else round(number, 4)

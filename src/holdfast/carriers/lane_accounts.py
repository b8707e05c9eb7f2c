"""What has come of each publisher over several lanes, and what its digests therefore prove.

Over one lane a batch states by itself that nothing is missing. Over several, a number that did not come may have been
on a lane that we do not follow. So nothing is stated until a digest brings the layout: then every number in it has
come, was not for our lanes, or is missing, and what is proven is stated to the client's machine as by a broker.
"""

from collections.abc import Callable, Iterable, Sequence

from holdfast.carriers.bus_format import Layout

_SOURCES_MAX = 2_000  # as many publishers as recovery follows
_CAME_MAX = 262_144  # numbers above the last digest: what a publisher keeps; then all of them are asked for again


class _Came:
    __slots__ = ("numbers", "upto")

    def __init__(self) -> None:
        self.upto = 0  # of these no more is to be said
        self.numbers: set[int] = set()  # that have come, above that


class LaneAccounts:
    def __init__(self) -> None:
        self._sources: dict[str, _Came] = {}

    def on_events(self, source: str, seqs: Sequence[int]) -> None:
        came = self._sources.pop(source, None) or _Came()
        self._sources[source] = came
        came.numbers.update(seqs)
        if len(came.numbers) > _CAME_MAX:
            came.numbers.clear()
        if len(self._sources) > _SOURCES_MAX:
            del self._sources[next(iter(self._sources))]

    def on_layout(self, source: str, layout: Layout, is_ours: Callable[[str], bool]) -> list[tuple[int, int]] | None:
        """The ranges of numbers that are accounted for; None when the publisher has had nothing for us so far."""
        came = self._sources.get(source)
        settled: list[int] = []
        concerns_us = came is not None
        upto, numbers = (came.upto, came.numbers) if came is not None else (0, set[int]())
        highest = upto
        for lane, seqs in layout.numbers():
            ours = is_ours(lane)
            concerns_us = concerns_us or (ours and bool(seqs))
            settled += [each for each in seqs if each > upto and (not ours or each in numbers)]
            highest = max(highest, seqs[-1] if seqs else 0)
        if came is not None:
            came.upto = highest
            came.numbers = {each for each in numbers if each > highest}
        return ranges_of(sorted(settled)) if concerns_us else None


def ranges_of(ascending: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for each in ascending:
        if ranges and each == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], each
        else:
            ranges.append((each, each))
    return ranges

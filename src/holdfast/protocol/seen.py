"""At most once, with bounded memory: which publications have been delivered already?

Per source, a window of sequence numbers below the highest seen, one bit each. Content filtering leaves holes, so
"higher than the last" is not enough; a number below the window is taken for a duplicate. When there are
too many sources, the one heard of longest ago is forgotten.
"""


class Seen:
    def __init__(self, window: int, sources_max: int) -> None:
        self._mask = (1 << window) - 1
        self._window = window
        self._sources_max = sources_max
        self._sources: dict[str, tuple[int, int]] = {}  # source -> highest number, bits of those at and below it

    def first_time(self, source: str, seq: int) -> bool:
        """Note a publication; False when it was noted before or is too old to tell."""
        highest, bits = self._sources.pop(source, (seq - 1, 0))
        fresh = True
        if seq > highest:
            bits = (bits << min(seq - highest, self._window) | 1) & self._mask
            highest = seq
        elif highest - seq < self._window:
            bit = 1 << (highest - seq)
            fresh = not bits & bit
            bits |= bit
        else:
            fresh = False
        self._sources[source] = highest, bits
        if len(self._sources) > self._sources_max:
            del self._sources[next(iter(self._sources))]
        return fresh

"""At most once, with bounded memory: which publications have been delivered already?

Per source, a window of sequence numbers below the highest seen, one bit each. Content filtering leaves holes, so
"higher than the last" is not enough; a number below the window is taken for a duplicate. When there are
too many sources, the one heard of longest ago is forgotten.
"""


class _Window:
    __slots__ = ("bits", "highest", "run")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.run = 0  # how many numbers up to the highest came one after the other and are not in the bits yet
        self.bits = 0  # of those at and below the highest before the run

    def settle(self, mask: int) -> int:
        """Put the run into the bits; the bits."""
        if self.run:
            self.bits = (self.bits << self.run | (1 << self.run) - 1) & mask
            self.run = 0
        return self.bits


class Seen:
    def __init__(self, window: int, sources_max: int) -> None:
        self._mask = (1 << window) - 1
        self._window = window
        self._sources_max = sources_max
        self._sources: dict[str, _Window] = {}  # in the order in which they were last heard of
        self._latest = ""  # the last of them

    def __len__(self) -> int:
        """How many sources it knows."""
        return len(self._sources)

    def has(self, source: str, seq: int) -> bool:
        """Whether this was noted, or is too old to tell."""
        known = self._sources.get(source)
        if known is None or seq > known.highest:
            return False
        behind = known.highest - seq
        return behind >= self._window or bool(known.settle(self._mask) >> behind & 1)

    def lowest_new(self, source: str, first: int, last: int, old_too: bool = False) -> int | None:
        """The lowest of these numbers that `has` denies, or that is too old to tell; quick, however many there are."""
        known = self._sources.get(source)
        if known is not None:
            oldest = known.highest - self._window + 1
            if old_too and first < oldest and first <= last:
                return first
            first = max(first, oldest)
            upto = min(last, known.highest)
            if first <= upto:
                noted = known.settle(self._mask) >> known.highest - upto  # the lower the number, the higher its bit
                if absent := ~noted & (1 << upto - first + 1) - 1:
                    return upto - absent.bit_length() + 1
                first = upto + 1
        return first if first <= last else None

    def first_time(self, source: str, seq: int) -> bool:
        """Note a publication; False when it was noted before or is too old to tell."""
        known = self._sources[source] if source == self._latest else self._move_up(source, seq)
        ahead = seq - known.highest
        if ahead == 1 and known.run < self._window:
            known.highest = seq
            known.run += 1
            return True
        bits = known.settle(self._mask)
        if ahead > 0:
            known.bits = (bits << min(ahead, self._window) | 1) & self._mask
            known.highest = seq
            return True
        if -ahead >= self._window:
            return False
        bit = 1 << -ahead
        known.bits = bits | bit
        return not bits & bit

    def first_times(self, source: str, seqs: tuple[int, ...]) -> list[bool]:
        """`first_time` of each, quick for numbers that count up by one above all before."""
        first = self.first_time(source, seqs[0])
        known, more = self._sources[source], len(seqs) - 1
        if known.highest == seqs[0] and more <= self._window and seqs == tuple(range(seqs[0], seqs[0] + more + 1)):
            if known.run + more > self._window:
                known.settle(self._mask)
            known.highest += more
            known.run += more
            return [first, *[True] * more]
        return [first, *[self.first_time(source, seq) for seq in seqs[1:]]]

    def _move_up(self, source: str, seq: int) -> _Window:
        known = self._sources.pop(source, None)
        known = self._sources[source] = _Window(seq - 1) if known is None else known
        self._latest = source
        if len(self._sources) > self._sources_max:
            del self._sources[next(iter(self._sources))]
        return known

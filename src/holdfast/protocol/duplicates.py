"""At most once, with bounded memory: which publications have been delivered already?

Per source, a window of sequence numbers below the highest seen, one bit each, in chunks that exist only where a number
was noted. Content filtering leaves holes, so "higher than the last" is not enough; a number below the window is taken
for a duplicate. When there are too many sources, the one heard of longest ago is forgotten.
"""

from itertools import pairwise

_CHUNK = 1_024  # numbers in one integer: noting one then copies 128 bytes, however large the window
_SHIFT = 10
_LOW = _CHUNK - 1
_FULL = (1 << _CHUNK) - 1


class _Window:
    __slots__ = ("chunks", "highest")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.chunks: dict[int, int] = {}  # number // _CHUNK -> one bit for each of its numbers that was noted

    def prune(self, oldest: int) -> None:
        """Let go of chunks that lie below the window."""
        for chunk in [each for each in self.chunks if each < oldest >> _SHIFT]:
            del self.chunks[chunk]


class Seen:
    def __init__(self, window: int, sources_max: int) -> None:
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
        return known.highest - seq >= self._window or bool(known.chunks.get(seq >> _SHIFT, 0) >> (seq & _LOW) & 1)

    def lowest_new(self, source: str, first: int, last: int, old_too: bool = False) -> int | None:
        """The lowest of these numbers that `has` denies, or that is too old to tell; quick, however many there are."""
        known = self._sources.get(source)
        if known is not None:
            oldest = known.highest - self._window + 1
            if old_too and first < oldest and first <= last:
                return first
            first = max(first, oldest)
            while first <= min(last, known.highest):
                absent = (~known.chunks.get(first >> _SHIFT, 0) & _FULL) >> (first & _LOW)
                if absent:
                    first += (absent & -absent).bit_length() - 1
                    break
                first = (first >> _SHIFT) + 1 << _SHIFT
        return first if first <= last else None

    def first_time(self, source: str, seq: int) -> bool:
        """Note a publication; False when it was noted before or is too old to tell."""
        known = self._sources[source] if source == self._latest else self._move_up(source, seq)
        if seq > known.highest:
            known.highest = seq
        elif known.highest - seq >= self._window:
            return False
        chunk, bit = seq >> _SHIFT, 1 << (seq & _LOW)
        noted = known.chunks.get(chunk)
        if noted is None:
            known.prune(known.highest - self._window + 1)
            noted = 0
        known.chunks[chunk] = noted | bit
        return not noted & bit

    def first_times(self, source: str, seqs: tuple[int, ...]) -> list[bool]:
        """`first_time` of each, quick for numbers that ascend above all before."""
        known = self._sources[source] if source == self._latest else self._move_up(source, seqs[0])
        first, last = seqs[0], seqs[-1]
        is_new = first > known.highest and first >> _SHIFT >= (last >> _SHIFT) - 1
        contiguous = (
            is_new and last - first + 1 == len(seqs) and seqs == tuple(range(first, last + 1))
        )  # without a hole
        if not is_new or (not contiguous and any([after <= before for before, after in pairwise(seqs)])):
            return [self.first_time(source, seq) for seq in seqs]
        known.highest = last
        if last >> _SHIFT not in known.chunks:
            known.prune(last - self._window + 1)
        base = first >> _SHIFT << _SHIFT
        if contiguous:
            bits = (1 << len(seqs)) - 1 << first - base
        else:
            bits = 0
            for seq in seqs:
                bits |= 1 << seq - base
        for chunk, part in ((base >> _SHIFT, bits & _FULL), ((base >> _SHIFT) + 1, bits >> _CHUNK)):
            if part:
                known.chunks[chunk] = known.chunks.get(chunk, 0) | part
        return [True] * len(seqs)

    def _move_up(self, source: str, seq: int) -> _Window:
        known = self._sources.pop(source, None)
        known = self._sources[source] = _Window(seq - 1) if known is None else known
        self._latest = source
        if len(self._sources) > self._sources_max:
            del self._sources[next(iter(self._sources))]
        return known

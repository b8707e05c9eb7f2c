"""At most once, with bounded memory: which publications have been delivered already?

Per source, a window of sequence numbers below the highest seen, one bit each, in chunks that exist only where a number
was noted. Content filtering leaves holes, so "higher than the last" is not enough; a number below the window is taken
for a duplicate. When there are too many sources, the one heard of longest ago is forgotten.

A publisher that was restarted goes on with far higher numbers, while events of its former life may still be stored on
the way. So a leap begins a window of its own, and the ones before it are kept.
"""

from itertools import pairwise

_CHUNK = 1_024  # numbers in one integer: noting one then copies 128 bytes, however large the window
_SHIFT = 10
_LOW = _CHUNK - 1
_FULL = (1 << _CHUNK) - 1
_FORMER_MAX = 2  # windows kept below the latest: what waits in stores is seldom of more than two lives ago


class _Window:
    __slots__ = ("before", "chunks", "first", "highest")

    def __init__(self, highest: int, first: int = 0, before: "_Window | None" = None) -> None:
        self.highest = highest
        self.chunks: dict[int, int] = {}  # number // _CHUNK -> one bit for each of its numbers that was noted
        self.first = first  # numbers below it belong to
        self.before = before  # the window of the source's former life, if that is known

    def of(self, seq: int) -> "_Window":
        """The window that a number belongs to."""
        known = self
        while seq < known.first and known.before is not None:
            known = known.before
        return known

    def shorten(self) -> None:
        """Keep no more former windows than we may."""
        last: _Window | None = self
        for _ in range(_FORMER_MAX):
            last = last and last.before
        if last is not None:
            last.before = None

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
        latest = self._sources.get(source)
        if latest is None:
            return False
        known = latest.of(seq)
        if seq > known.highest:
            return False
        return known.highest - seq >= self._window or bool(known.chunks.get(seq >> _SHIFT, 0) >> (seq & _LOW) & 1)

    def lowest_new(self, source: str, first: int, last: int, old_too: bool = False) -> int | None:
        """The lowest of these numbers that `has` denies, or that is too old to tell; quick, however many there are."""
        known = self._sources.get(source)
        if known is None:
            return first if first <= last else None
        if first > known.highest:
            return first if first <= last else None
        found: int | None = None
        while first < known.first and known.before is not None:  # the lowest are those of former lives
            lowest = self._lowest_in(known, known.first, last, old_too)
            found, last = found if lowest is None else lowest, min(last, known.first - 1)
            known = known.before
        lowest = self._lowest_in(known, first, last, old_too)
        return found if lowest is None else lowest

    def _lowest_in(self, known: _Window, first: int, last: int, old_too: bool) -> int | None:
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
        if seq - known.highest >= self._window:
            known = self._sources[source] = _Window(seq, seq - self._window + 1, known)
            known.shorten()
        elif seq < known.first:
            known = known.of(seq)
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
        is_new = known.highest < first and first >> _SHIFT >= (last >> _SHIFT) - 1
        is_new = is_new and last - known.highest < self._window  # without a leap
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

"""Put the events of two ways in order again: what a broker does behind a faulty broker and its replica.

Each way keeps the order of what goes by it, so an event with number s of a source says that nothing earlier will come
by the same way; a mark says so without an event. What both ways have passed is let go, in the order of numbers. The
paper releases all but the last message of each queue, which lets a later event overtake an earlier one
that is still on the slower way; a low-water mark per source does not.
"""

from collections.abc import Iterable, Sequence

from holdfast.model.messages import CopyProtocol, Publish
from holdfast.protocol.effects import Effect, Incident
from holdfast.protocol.replication.settings import ReplicationSettings


class _Stream:
    """One source."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[str, Publish]] = {}  # by number, with the way that it came by
        self.passed: dict[str, int] = {}  # way -> the highest number that it has passed


class Reordering:
    def __init__(self, hops: Sequence[str], unordered: str | None, held_max: int, sources_max: int) -> None:
        self._hops = tuple(hops)
        self._unordered = unordered  # a way whose events do not come in order: only its marks count
        self._held_max = held_max
        self._sources_max = sources_max
        self._streams: dict[str, _Stream] = {}  # the one heard of last comes last
        self._count = 0
        self.overflowed = 0  # events let through too early, since the last look

    def __len__(self) -> int:
        return self._count

    def on_event(self, hop: str, publish: Publish) -> list[tuple[str, Publish]]:
        """What can go on now, with the ways that it came by."""
        publication = publish.publication
        stream = self._stream(publication.source)
        if publication.seq not in stream.held:
            stream.held[publication.seq] = hop, publish
            self._count += 1
        if hop != self._unordered:
            stream.passed[hop] = max(stream.passed.get(hop, 0), publication.seq)
        released = self._release(stream) + self._forget_oldest()
        while self._count > self._held_max:
            fullest = max(self._streams.values(), key=lambda each: len(each.held))
            released += self._let_go(fullest, [min(fullest.held)])
            self.overflowed += 1
        return released

    def on_marks(self, hop: str, marks: Iterable[tuple[str, int]]) -> list[tuple[str, Publish]]:
        released = []
        for source, seq in marks:
            stream = self._stream(source)
            stream.passed[hop] = max(stream.passed.get(hop, 0), seq)
            released += self._release(stream)
        return released + self._forget_oldest()

    def _stream(self, source: str) -> _Stream:
        stream = self._streams[source] = self._streams.pop(source, _Stream())
        return stream

    def _forget_oldest(self) -> list[tuple[str, Publish]]:
        """Sources that were not heard of for longest: a mark says again how far they are when they go on."""
        released = []
        while len(self._streams) > self._sources_max:
            stream = self._streams.pop(next(iter(self._streams)))
            self.overflowed += len(stream.held)
            released += self._let_go(stream, sorted(stream.held))
        return released

    def _release(self, stream: _Stream) -> list[tuple[str, Publish]]:
        passed = min(stream.passed.get(hop, 0) for hop in self._hops)
        return self._let_go(stream, sorted(seq for seq in stream.held if seq <= passed))

    def _let_go(self, stream: _Stream, seqs: Sequence[int]) -> list[tuple[str, Publish]]:
        self._count -= len(seqs)
        return [stream.held.pop(seq) for seq in seqs]

    def flush(self) -> list[tuple[str, Publish]]:
        """A way is gone: everything, in order."""
        return [each for stream in self._streams.values() for each in self._let_go(stream, sorted(stream.held))]


class Reorderings:
    """Those of a broker, by each of the two whose events are put in order together."""

    def __init__(self, settings: ReplicationSettings) -> None:
        self._settings = settings
        self._by_hop: dict[str, Reordering] = {}

    def __bool__(self) -> bool:
        return bool(self._by_hop)

    @property
    def held(self) -> int:
        """Events in the fullest."""
        return max(map(len, self._by_hop.values()), default=0)

    def get(self, hop: str) -> Reordering | None:
        return self._by_hop.get(hop)

    def overflow(self, hop: str) -> list[Effect]:
        """What was let through since the last time, because too much waited."""
        of_it = self._by_hop.get(hop)
        if of_it is None or not of_it.overflowed:
            return []
        overflowed, of_it.overflowed = of_it.overflowed, 0
        return [Incident("reorder_buffer_overflow", hop, overflowed)]

    def begin(self, faulty: str, replica: str, copying: CopyProtocol) -> None:
        unordered = replica if copying == "incremental" else None
        made = Reordering((faulty, replica), unordered, self._settings.held_max, self._settings.sources_max)
        self._by_hop[faulty] = self._by_hop[replica] = made

    def end(self, hop: str) -> list[tuple[str, Publish]]:
        """One of two ways is gone: nothing waits for its order any more."""
        ended = self._by_hop.pop(hop, None)
        if ended is None:
            return []
        self._by_hop = {hop: each for hop, each in self._by_hop.items() if each is not ended}
        return ended.flush()

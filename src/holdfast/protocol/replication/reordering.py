"""Put the events of several ways in order again: what a broker does behind an overloaded broker and its replicas.

Each way keeps the order of what goes by it, so an event with number s of a source says that nothing earlier will come
by the same way; a mark says so without an event. What all ways have passed is let go, in the order of numbers. The
paper releases all but the last message of each queue, which lets a later event overtake an earlier one
that is still on the slower way; a low-water mark per source does not.
"""

from collections.abc import Iterable, Sequence

from holdfast.model.messages import Publish
from holdfast.protocol.effects import Effect, Incident
from holdfast.protocol.replication.settings import ReplicationSettings


class _Stream:
    """One source."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[str, Publish]] = {}  # by number, with the way that it came by
        self.passed: dict[str, int] = {}  # way -> the highest number that it has passed
        self.stalled = 0  # heartbeats since an event was last let go


class Reordering:
    def __init__(self, hop: str, held_max: int, sources_max: int) -> None:
        self._hops = {hop: True}  # whether its events come in order; of one that does not, only its marks count
        self._held_max = held_max
        self._sources_max = sources_max
        self._streams: dict[str, _Stream] = {}  # the one heard of last comes last
        self._count = 0
        self.overflowed = 0  # events let through too early, since the last look

    @property
    def is_over(self) -> bool:
        """Whether what comes is in order by itself, and nothing waits."""
        return len(self._hops) < 2 and not self._count

    def join(self, hop: str, in_order: bool) -> None:
        self._hops[hop] = in_order

    def leave(self, hop: str) -> list[tuple[str, Publish]]:
        """This way is gone, and nobody waits for it any more."""
        self._hops.pop(hop, None)
        for stream in self._streams.values():
            stream.passed.pop(hop, None)
        return [each for stream in self._streams.values() for each in self._release(stream)]

    def __len__(self) -> int:
        return self._count

    def on_event(self, hop: str, publish: Publish) -> list[tuple[str, Publish]]:
        """What can go on now, with the ways that it came by."""
        publication = publish.publication
        stream = self._stream(publication.source)
        if publication.seq not in stream.held:
            stream.held[publication.seq] = hop, publish
            self._count += 1
        if self._hops.get(hop):
            stream.passed[hop] = max(stream.passed.get(hop, 0), publication.seq)
        released = self._release(stream) + self._forget_oldest()
        while self._count > self._held_max:
            fullest = max(self._streams.values(), key=lambda each: len(each.held))
            released += self._let_go(fullest, [min(fullest.held)])
            self.overflowed += 1
        return released

    def on_heartbeat(self, stalled_max: int) -> list[tuple[str, Publish]]:
        """What nobody vouches for any more, because the broker that shared it between the ways is dead."""
        released = []
        for stream in self._streams.values():
            stream.stalled = stream.stalled + 1 if stream.held else 0
            if stream.stalled > stalled_max:
                self.overflowed += len(stream.held)
                released += self._let_go(stream, sorted(stream.held))
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
        if not stream.held:
            return []
        passed = min([stream.passed.get(hop, 0) for hop in self._hops], default=None)
        return self._let_go(stream, sorted(seq for seq in stream.held if passed is None or seq <= passed))

    def _let_go(self, stream: _Stream, seqs: Sequence[int]) -> list[tuple[str, Publish]]:
        self._count -= len(seqs)
        stream.stalled = 0 if seqs else stream.stalled
        return [stream.held.pop(seq) for seq in seqs]


class Reorderings:
    """Those of a broker, by each of the ways whose events are put in order together."""

    def __init__(self, settings: ReplicationSettings) -> None:
        self._settings = settings
        self._by_hop: dict[str, Reordering] = {}

    def __bool__(self) -> bool:
        return bool(self._by_hop)

    def __contains__(self, hop: str) -> bool:
        return hop in self._by_hop

    @property
    def held(self) -> int:
        """Events in the fullest."""
        return max(map(len, self._by_hop.values()), default=0)

    def on_event(self, hop: str, publish: Publish) -> list[tuple[str, Publish]]:
        return self._unless_over(self._by_hop[hop].on_event(hop, publish), hop)

    def on_marks(self, hop: str, marks: Iterable[tuple[str, int]]) -> list[tuple[str, Publish]]:
        return self._unless_over(self._by_hop[hop].on_marks(hop, marks), hop)

    def on_heartbeat(self, stalled_max: int) -> list[tuple[str, Publish]]:
        waiting = {id(each): (hop, each) for hop, each in self._by_hop.items()}
        return [
            released
            for hop, each in waiting.values()
            for released in self._unless_over(each.on_heartbeat(stalled_max), hop)
        ]

    def overflow(self) -> list[Effect]:
        """What was let through since the last time, because too much waited."""
        found: list[Effect] = []
        for hop, each in self._by_hop.items():
            if each.overflowed:
                found.append(Incident("reorder_buffer_overflow", hop, each.overflowed))
                each.overflowed = 0
        return found

    def join(self, holder: str, replica: str, in_order: bool = True) -> None:
        """From now on events come by the replica, too."""
        joined = self._by_hop.get(holder)
        if joined is None:
            joined = self._by_hop[holder] = Reordering(holder, self._settings.held_max, self._settings.sources_max)
        joined.join(replica, in_order)
        self._by_hop[replica] = joined

    def leave(self, hop: str) -> list[tuple[str, Publish]]:
        """This way is gone; those that are left are waited for, because they may have earlier events."""
        left = self._by_hop.pop(hop, None)
        if left is None:
            return []
        released = left.leave(hop)
        return self._unless_over(released, next((each for each, of in self._by_hop.items() if of is left), ""))

    def _unless_over(self, released: list[tuple[str, Publish]], hop: str) -> list[tuple[str, Publish]]:
        if hop in self._by_hop and self._by_hop[hop].is_over:
            del self._by_hop[hop]
        return released

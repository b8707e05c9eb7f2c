"""What a broker may state of a source's numbers: "from here to there, all that you want have been sent to you".

A publisher that keeps its events for recovery states it of what it sends. Each broker passes it on to the neighbours
that get events of that source, as far as it holds for them. So on links that lose nothing a subscriber knows at once
that nothing is missing, and when something is, which numbers it was not told of: a broker that crashed or dropped
something, or a connection that was replaced, leaves a hole in what is stated. Only then are records needed.

A statement is about what a neighbour wants. When it wants more, nothing older is stated for it any more; and what
comes from another broker counts for it only once that broker has confirmed our table with the new condition in it.
"""

from collections.abc import Iterable

import msgspec

from holdfast.model.messages import Batch

NEVER = 2**62  # the version of a table that has what is still to be told: none has
_SOURCES_MAX = 10_000  # whose streams are remembered, as many as a client remembers; a forgotten one begins anew
_CAUGHT_UP_MAX = 256  # streams that are stated to a neighbour before it wants more; the others leave a hole


class _Chain(msgspec.Struct, gc=False):
    """What one neighbour was told of a stream."""

    upto: int
    began: int  # the tick


class _Alone(msgspec.Struct):
    """Events of a source that were sent on outside of a batch, and about which nothing was stated yet."""

    began: int  # the tick of the first of them
    confirmed: int  # the version of our table that their sender had confirmed
    to: dict[str, None]  # neighbours


class GaplessStream(msgspec.Struct):
    """Numbers of a source that came without a hole."""

    sender: str
    first: int
    upto: int
    here: int  # from this number on, nothing that was stated last has been sent to anybody before
    began: int  # the tick when the first of them came,
    stated: int  # and when that was first stated
    confirmed: int  # the version of our table that the sender had confirmed when it began
    chains: dict[str, _Chain]  # by neighbour
    alone: dict[str, None]  # neighbours that got events about which the last statement came behind them

    def has_statements(self, name: str) -> bool:
        """Whether a neighbour was told of its last numbers."""
        return name in self.chains and self.chains[name].upto == self.upto


class _Neighbour(msgspec.Struct, gc=False):
    wants_since: int  # the tick when it last began to want more
    needs: dict[str, int]  # broker -> the version of our table that has what this neighbour wants


class Statements:
    def __init__(self) -> None:
        self._streams: dict[str, GaplessStream] = {}  # by source, in the order in which they began
        self._neighbours: dict[str, _Neighbour] = {}
        self._alone: dict[str, _Alone] = {}  # by source
        self._dropped: dict[str, int] = {}  # by source: the last event that went no further
        self._confirmed: dict[str, int] = {}  # broker -> the version of our table that it has
        self._tick = 0  # orders what happens

    def on_link_up(self, name: str) -> None:
        self._tick += 1
        self._neighbours[name] = _Neighbour(self._tick, {})
        self._confirmed.pop(name, None)

    def on_link_down(self, name: str) -> None:
        self._neighbours.pop(name, None)
        self._confirmed.pop(name, None)
        for stream in self._streams.values():
            stream.chains.pop(name, None)

    def on_confirmed(self, broker: str, version: int) -> None:
        """A broker says which version of our table it has; what it sends after that is matched with it."""
        self._confirmed[broker] = version

    def on_wants_more(self, name: str, versions: dict[str, int]) -> None:
        """A neighbour wants more than before, which brokers know from these versions of our tables on."""
        self._tick += 1
        self._neighbours[name] = _Neighbour(self._tick, versions)

    def on_telling(self, broker: str) -> None:
        """A broker is new here, and it takes a while until it is told all that our neighbours want."""
        for each in self._neighbours.values():
            each.needs[broker] = NEVER

    def on_table_sent(self, broker: str, version: int) -> None:
        """From this version of our table on, a broker knows what it was still to be told."""
        for each in self._neighbours.values():
            if each.needs.get(broker) == NEVER:
                each.needs[broker] = version

    def on_batch(self, sender: str, batch: Batch) -> GaplessStream | None:
        """The stream that the batch belongs to; None when it states nothing."""
        if batch.since > batch.upto or not batch.since:
            return None
        alone = self._alone.pop(batch.source, None)
        since = max(batch.since, self._dropped.get(batch.source, 0) + 1)  # publishers state their last number again
        if since > batch.upto:
            return None
        stream = self._streams.get(batch.source)
        begins = stream is None or stream.sender != sender or since == 1 or since > stream.upto + 1
        if stream is None or begins:
            self._tick += 1
            chains = {} if stream is None else stream.chains
            began, confirmed = self._tick, self._confirmed.get(sender, 0)
            if alone is not None:
                began, confirmed = alone.began, alone.confirmed
            self._streams.pop(batch.source, None)
            stream = GaplessStream(sender, since, batch.upto, since, began, self._tick, confirmed, chains, {})
            self._streams[batch.source] = stream
            if len(self._streams) > _SOURCES_MAX:
                del self._streams[next(iter(self._streams))]
        stream.upto = max(stream.upto, batch.upto)
        stream.here = since if alone is None else batch.seqs[0] if batch.seqs else batch.upto + 1
        stream.alone = {} if alone is None else alone.to
        return stream

    def on_alone(self, sender: str, source: str, names: Iterable[str]) -> None:
        """An event that travels alone was sent to these neighbours; the statement about it comes behind it."""
        alone = self._alone.get(source)
        if alone is None:
            if len(self._alone) >= _SOURCES_MAX:
                del self._alone[next(iter(self._alone))]
            self._tick += 1
            alone = self._alone[source] = _Alone(self._tick, self._confirmed.get(sender, 0), {})
        alone.to.update(dict.fromkeys(names))

    def on_dropped(self, source: str, seq: int) -> None:
        """An event that travels alone goes no further: what is stated of the numbers around it leaves it out."""
        if len(self._dropped) >= _SOURCES_MAX:
            del self._dropped[next(iter(self._dropped))]
        self._dropped[source] = max(seq, self._dropped.get(source, 0))

    def since_for(self, stream: GaplessStream, name: str) -> int | None:
        """From which number on everything up to the stream's last is now stated to a neighbour; None: nothing is."""
        neighbour, chain = self._neighbours[name], stream.chains.get(name)
        if chain is not None and chain.began >= max(neighbour.wants_since, stream.stated):
            since, chain.upto = chain.upto + 1, stream.upto
            return since
        needed = neighbour.needs.get(stream.sender, 0)
        if self._confirmed.get(stream.sender, 0) < needed:
            stream.chains.pop(name, None)
            return None
        self._tick += 1
        stream.chains[name] = _Chain(stream.upto, self._tick)
        is_older = stream.began > neighbour.wants_since and stream.confirmed >= needed
        since = stream.first if is_older else stream.here
        return since if since <= stream.upto else None

    def lagging(self, name: str) -> Iterable[tuple[str, GaplessStream]]:
        """Sources and streams of which a neighbour was not told the last numbers, up to a limit."""
        found: list[tuple[str, GaplessStream]] = []
        for source, stream in self._streams.items():
            chain = stream.chains.get(name)
            if chain is not None and chain.upto < stream.upto:
                found.append((source, stream))
                if len(found) == _CAUGHT_UP_MAX:
                    break
        return found

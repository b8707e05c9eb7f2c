"""The events that a broker keeps so that others can get them: those that its own clients published or wanted.

First in, first out, in a bounded number. They are found by id, by class, and by their number in a class.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from holdfast.model.messages import EventIds, Publication, Stamp

Id = tuple[str, int]  # source and sequence number
Stream = tuple[str, int, int]  # origin, its epoch, class


class BufferedEvent(NamedTuple):
    publication: Publication
    stamp: Stamp | None
    tags: tuple[int, ...]  # under which it can be found
    at_us: int


_NOTHING: Mapping[int, BufferedEvent] = MappingProxyType({})


class Buffer:
    def __init__(self, size: int, places_max: int, by_class: bool) -> None:
        self._size = size
        self._places_max = places_max
        self._by_class = by_class  # whether `ids` is going to be asked for
        self._events: dict[Id, BufferedEvent] = {}  # the oldest first
        self._classes: dict[int, dict[Id, None]] = {}
        self._streams: dict[Stream, dict[int, BufferedEvent]] = {}  # by number in each
        self._places = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def places(self) -> int:
        """The numbers by which they can be found."""
        return self._places

    def add(self, publication: Publication, stamp: Stamp | None, tags: Iterable[int], now_us: int) -> None:
        id_ = publication.source, publication.seq
        if id_ in self._events:
            return
        places = 0 if stamp is None else len(stamp.places)
        while self._events and (len(self._events) >= self._size or self._places + places > self._places_max):
            self._drop(next(iter(self._events)))
        kept = self._events[id_] = BufferedEvent(publication, stamp, tuple(tags) if self._by_class else (), now_us)
        for tag in kept.tags:
            self._classes.setdefault(tag, {})[id_] = None
        if stamp is not None:
            origin, epoch, streams = stamp.origin, stamp.epoch, self._streams
            for tag, number, _ in stamp.places:
                stream = streams.get((origin, epoch, tag))
                if stream is None:
                    stream = streams[origin, epoch, tag] = {}
                self._places += number not in stream
                stream[number] = kept

    def _drop(self, id_: Id) -> None:
        kept = self._events.pop(id_)
        for tag in kept.tags:
            of_class = self._classes[tag]
            del of_class[id_]
            if not of_class:
                del self._classes[tag]
        if kept.stamp is not None:
            origin, epoch, streams = kept.stamp.origin, kept.stamp.epoch, self._streams
            for tag, number, _ in kept.stamp.places:
                stream = streams.get((origin, epoch, tag))
                if stream is not None and stream.pop(number, None) is not None:
                    self._places -= 1
                    if not stream:
                        del streams[origin, epoch, tag]

    def drop_older(self, than_us: int) -> None:
        while self._events:
            id_ = next(iter(self._events))
            if self._events[id_].at_us >= than_us:
                return
            self._drop(id_)

    def event(self, source: str, seq: int) -> BufferedEvent | None:
        return self._events.get((source, seq))

    def numbers(self, origin: str, epoch: int, tag: int) -> Mapping[int, BufferedEvent]:
        """Those of a class that came in at this origin, by their numbers."""
        return self._streams.get((origin, epoch, tag), _NOTHING)

    def ids(self, tag: int, count_max: int) -> EventIds:
        """Those of a class, the newest if there are too many, by source."""
        found = list(self._classes.get(tag, ()))[-count_max:]
        by_source: dict[str, list[int]] = {}
        for source, seq in found:
            by_source.setdefault(source, []).append(seq)
        return tuple([(source, tuple(seqs)) for source, seqs in by_source.items()])

    def __iter__(self) -> Iterator[BufferedEvent]:
        return iter(self._events.values())

"""Brokers linked in a circle, where routing needs a tree: noticed by events that come a second time, and cut there.

On a tree, events of one source come from one neighbour, until something moves. So nothing is kept but who that is, as
long as it stays the same. Once events of a source have come from two neighbours, their numbers are noted, and one that
was noted before goes no further. Every broker then forwards an event once, or twice in the beginning, however many ways
there are to it. Control messages of recovery have no numbers, and are told apart by what they hold.
"""

from hashlib import blake2b

from holdfast.model.messages import Batch, Publication
from holdfast.protocol.duplicates import Seen

_SOURCES_MAX = 100_000  # whose neighbour is remembered: 20 MB; then all are forgotten, and noted again as they come
_WINDOW = 65_536  # numbers of a source
_TRACKED_MAX = 10_000  # sources that come from two neighbours
_CONTROL_MAX = 10_000  # control messages: more than are under way at a time


class Circles:
    def __init__(self) -> None:
        self.came_from: dict[str, str] = {}  # source -> the neighbour; empty: there were several
        self._seen = Seen(_WINDOW, _TRACKED_MAX)
        self._control: dict[tuple[str, int, bytes], None] = {}

    def is_first(self, sender: str, publication: Publication) -> bool:
        """Note an event; False when it has come before, from another neighbour."""
        if self._from_one(sender, publication.source):
            return True
        if publication.seq:
            return self._seen.first_time(publication.source, publication.seq)
        control = publication.source, publication.time_us, blake2b(publication.payload, digest_size=8).digest()
        if control in self._control:
            return False
        self._control[control] = None
        if len(self._control) > _CONTROL_MAX:
            del self._control[next(iter(self._control))]
        return True

    def first_of(self, sender: str, batch: Batch) -> list[int] | None:
        """Note the events of a batch; the places of those that have not come before, or None when all have not."""
        if not batch.seqs or self._from_one(sender, batch.source):
            return None
        are_new = self._seen.first_times(batch.source, batch.seqs)
        return None if all(are_new) else [at for at, is_new in enumerate(are_new) if is_new]

    def _from_one(self, sender: str, source: str) -> bool:
        known = self.came_from.get(source)
        if known == sender:
            return True
        if known is not None:
            self.came_from[source] = ""
            return False
        if len(self.came_from) >= _SOURCES_MAX:
            self.came_from.clear()
        self.came_from[source] = sender
        return True

"""What a publisher keeps so that it can be repaired: its last publications, bounded in number, bytes and age."""

from collections import deque

from holdfast.model.messages import Publication

_ENTRY_BYTES = 200  # the Python objects around an event's values
_VALUE_BYTES = 60  # a name and a value


class Cache:
    """Publications of one source, by ascending number."""

    def __init__(self, count_max: int, bytes_max: int, age_us: int) -> None:
        self.count_max = count_max
        self.bytes_max = bytes_max
        self._age_us = age_us
        self._kept: dict[int, Publication] = {}
        self._order: deque[int] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, publication: Publication, now_us: int) -> None:
        self._kept[publication.seq] = publication
        self._order.append(publication.seq)
        self.bytes += kept_bytes(publication)
        self.expire(now_us)
        while len(self._kept) > self.count_max or self.bytes > self.bytes_max:
            self._drop_oldest()

    def expire(self, now_us: int) -> None:
        while self._order and self._kept[self._order[0]].time_us < now_us - self._age_us:
            self._drop_oldest()

    def get(self, seq: int) -> Publication | None:
        return self._kept.get(seq)

    def _drop_oldest(self) -> None:
        self.bytes -= kept_bytes(self._kept.pop(self._order.popleft()))


def kept_bytes(publication: Publication) -> int:
    """About."""
    texts = sum([len(value) for value in publication.attributes.values() if type(value) is str])
    return _ENTRY_BYTES + _VALUE_BYTES * len(publication.attributes) + texts + len(publication.payload)

"""Keys that are not compiled yet, and so are matched by the index in Python."""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from holdfast.language.subscription import Filter
from holdfast.matching.index import Index
from holdfast.model.event import Attributes

K = TypeVar("K", bound=Hashable)
Filters = Sequence[Filter]


class Recent(Generic[K]):
    """Their index is made when an event first asks, unless it must be there by then."""

    def __init__(self, at_once: bool) -> None:
        self.filters: dict[K, Filters] = {}
        self.count = 0  # of filters
        self._index: Index[K] | None = Index() if at_once else None
        self._gone: dict[K, Filters] = {}  # removed, and still in the index: taking a filter out is as slow as adding

    def add(self, key: K, filters: Filters) -> None:
        self.filters[key] = filters
        self.count += len(filters)
        if self._index is not None:
            before = self._gone.pop(key, None)
            if before == filters:
                return
            if before is not None:
                self._index.remove(key, before)
            self._index.add(key, filters)

    def remove(self, key: K) -> bool:
        filters = self.filters.pop(key, None)
        if filters is None:
            return False
        self.count -= len(filters)
        if self._index is not None:
            self._gone[key] = filters
        return True

    def match(self, attributes: Attributes) -> list[K]:
        return self.match_each([attributes])[0]

    def match_each(self, events: Sequence[Attributes]) -> list[list[K]]:
        found = self.index().match_each(events)
        return [[key for key in keys if key not in self._gone] for keys in found] if self._gone else found

    def index(self) -> Index[K]:
        if self._index is None:
            self._index = Index()
            for key, filters in self.filters.items():
                self._index.add(key, filters)
        return self._index

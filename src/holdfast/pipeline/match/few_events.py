"""Few events and few conditions: asked of the index in Python, which has nothing to compile and no kernels to load."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from holdfast.language.subscription import Subscription
from holdfast.matching.index import Index
from holdfast.pipeline.match.tasks import Blocks, Found

EVENTS_MAX = 20_000  # a quarter of a second in Python, as long as numba takes to be imported
CONDITIONS_MAX = 256  # up to here the index in Python keeps up with the compiled one


@dataclass(frozen=True)
class FewEvents:
    by_id: Mapping[str | int, Subscription]
    id_type: pa.DataType

    def found(self, blocks: Blocks) -> Iterator[Found]:
        index: Index[str | int] = Index()
        for id_, subscription in self.by_id.items():
            index.add(id_, subscription.filters)
        for block in blocks:
            wanted = index.match_each(block.events.to_pylist())
            rows = pa.array((row for row, ids in enumerate(wanted) for _ in ids), pa.int32())
            ids = pa.array((each for ids in wanted for each in ids), self.id_type)
            yield Found(block.carried, rows, ids.dictionary_encode())

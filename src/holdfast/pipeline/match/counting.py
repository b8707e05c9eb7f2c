"""Count pairs instead of keeping them: how many events each subscription wants.

Of pairs that stand together in the index it is only noted where they begin and end. The loop over the others is
compiled because counting must not cost more than finding: NumPy's bincount first copies what it counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.pipeline.match.tasks import AnyFound, FoundRuns

_Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CountSink:
    id_type: pa.DataType

    def __call__(self, pairs: Iterator[AnyFound]) -> Iterator[pa.RecordBatch]:
        counts: dict[int, _OfIndex] = {}
        for found in pairs:
            counts.setdefault(_place(found.ids), _OfIndex(found.ids)).add(found)
        for each in counts.values():
            totals = each.totals()
            wanted = pa.array(np.flatnonzero(totals))
            columns = [each.ids.take(wanted).cast(self.id_type), pa.array(totals).take(wanted)]
            yield pa.RecordBatch.from_arrays(columns, names=["subscription", "events"])


class _OfIndex:
    """The counts of one index: of its subscriptions, and of slices of its entries."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self._counts = np.zeros(len(ids), np.int64)
        self._entries = np.zeros(0, np.int32)
        self._steps = np.zeros(1, np.int64)

    def add(self, found: AnyFound) -> None:
        if isinstance(found, FoundRuns):
            if not self._entries.size:
                self._entries = found.runs.entries
                self._steps = np.zeros(self._entries.size + 1, np.int64)
            found.runs.add_to(self._steps)
        else:
            _count(found.subscriptions.indices.to_numpy(), self._counts)

    def totals(self) -> _Counts:
        of_entries = np.cumsum(self._steps[:-1])
        found = self._counts.copy()
        np.add.at(found, self._entries, of_entries)
        return found


def _place(ids: pa.Array) -> int:
    """Where an index keeps its ids: two of one index share the memory, and `counts` keeps it from being used again."""
    return int(ids.buffers()[1].address)


@numba.njit(cache=True, nogil=True)
def _count(numbers: npt.NDArray[np.int32], counts: _Counts) -> None:
    for number in numbers:
        counts[number] += 1

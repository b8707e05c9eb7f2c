"""Count pairs instead of keeping them: how many events each subscription wants.

The loop is compiled because counting must not cost more than finding: NumPy's bincount first copies what it counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.pipeline.match.tasks import Found


@dataclass(frozen=True)
class CountSink:
    id_type: pa.DataType

    def __call__(self, pairs: Iterator[Found]) -> Iterator[pa.RecordBatch]:
        counts: dict[int, tuple[pa.Array, npt.NDArray[np.int64]]] = {}
        for found in pairs:
            ids = found.subscriptions.dictionary
            known = counts.setdefault(_place(ids), (ids, np.zeros(len(ids), np.int64)))
            _count(found.subscriptions.indices.to_numpy(), known[1])
        for ids, known_counts in counts.values():
            wanted = pa.array(np.flatnonzero(known_counts))
            columns = [ids.take(wanted).cast(self.id_type), pa.array(known_counts).take(wanted)]
            yield pa.RecordBatch.from_arrays(columns, names=["subscription", "events"])


def _place(ids: pa.Array) -> int:
    """Where an index keeps its ids: two of one index share the memory, and `counts` keeps it from being used again."""
    return int(ids.buffers()[1].address)


@numba.njit(cache=True, nogil=True)
def _count(numbers: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
    for number in numbers:
        counts[number] += 1

"""The publications of a trace as events for the matcher: what a task does with a batch of them, on either engine."""

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.match.tasks import Batches, Block, Blocks

KEYS = ("source", "seq", "published_us")


@dataclass(frozen=True)
class PublicationSource:
    """Batches of the three keys and then the attributes' columns, in the order of `attributes`.

    An attribute with values of several types has several columns; rows are then grouped so that in each group every
    attribute has one.
    """

    attributes: tuple[tuple[str, int], ...]  # name, and how many columns it has

    def __call__(self, batches: Batches) -> Blocks:
        others = sum(columns - 1 for _, columns in self.attributes)
        for batch in batches:
            if not others:
                yield self._block(batch, 0)
                continue
            codes = self._codes(batch)
            for code in pc.unique(codes).to_pylist():  # few: one per mixture of types
                yield self._block(batch.filter(pc.equal(codes, code)), code)

    def _codes(self, batch: pa.RecordBatch) -> pa.Array:
        """For each row, a bit for each further column of an attribute that holds its value."""
        filled = [pc.cast(pc.is_valid(batch.column(at)), pa.int64()) for at, first in self._columns() if not first]
        return reduce(lambda code, bit: pc.add(pc.multiply(code, 2), bit), filled)

    def _columns(self) -> list[tuple[int, bool]]:
        """Each attribute column's place in a batch, and whether it is the first of its attribute."""
        firsts = [number == 0 for _, columns in self.attributes for number in range(columns)]
        return list(enumerate(firsts, len(KEYS)))

    def _block(self, batch: pa.RecordBatch, code: int) -> Block:
        columns = self._columns()
        further = [at for at, first in columns if not first]
        used = {at for place, at in enumerate(reversed(further)) if code >> place & 1}
        chosen: dict[str, int] = {}
        at = len(KEYS)
        for name, count in self.attributes:
            chosen[name] = next((each for each in range(at, at + count) if each in used), at)
            at += count
        carried = pa.RecordBatch.from_arrays(batch.columns[: len(KEYS)], names=list(KEYS))
        # Without a column a batch has no length: hence the nameless one that no condition can mention.
        events = chosen or {"": 0}
        return Block(pa.RecordBatch.from_arrays([batch.column(at) for at in events.values()], names=[*events]), carried)


def use_once() -> None:
    """Load what tasks of an audit need. Here, because workers of a cluster need not have what the driver has."""
    from holdfast.matching.matcher import Matcher  # noqa: PLC0415 - loads numba
    from holdfast.pipeline.audit.pair_order import LAID_TOGETHER, placed  # noqa: PLC0415 - not for matching

    matcher = Matcher()
    matcher.add("one", "n = 1")
    matcher.match_batch(pa.table({"n": [1]}))
    row = {"run": "r", "subscriber": "s", "source": "p", "seqs": -1, "seq": 1, "arrived_us": 1, "number": 1}
    placed(pa.Table.from_pylist([row], LAID_TOGETHER))

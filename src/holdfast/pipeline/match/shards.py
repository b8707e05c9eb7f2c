"""More subscriptions than one worker should hold: several indexes, each within the budget, asked in turn.

Subscriptions are sorted into shards by access key (`routing`), and an event is shown only to the shards that its
own values lead to, and to the rest. Events are not moved for it: a task gathers many, then opens one shard after the
other and shows it the events that concern it. So no key, however many events share it, makes one task longer than the
others, and a worker holds one shard at a time. A shard that a hot key makes too large is split by subscription into
several that are asked alike.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.pipeline.match.index import IndexFile
from holdfast.pipeline.match.routing import REST, Shards, shards_of
from holdfast.pipeline.match.tasks import AnyFound, Block, Blocks, Slicing

_GATHERED_ROWS = 1 << 20  # events shown to a shard at a time: opening it then costs little in comparison
_GATHERED_BYTES = 256 << 20  # or so many, when they are wide


class Shard(NamedTuple):
    number: int  # REST, or the value of the access key's hash; several files may share one
    file: IndexFile


@dataclass(frozen=True)
class ShardedIndex:
    attributes: tuple[str, ...]  # whose values lead to shards
    shards: int
    files: tuple[Shard, ...]

    def found(self, blocks: Blocks) -> Iterator[AnyFound]:
        for gathered in _gathered(blocks):
            routes = [self._routes(block) for block in gathered]
            for number, file in self.files:
                parts = [self._part(block, route, number) for block, route in zip(gathered, routes, strict=True)]
                wanted = [part for part in parts if part.events.num_rows]
                if wanted:
                    slicing = Slicing(file.open())  # and let go of before the next one
                    for part in wanted:
                        yield from slicing.found(part)

    def _routes(self, block: Block) -> list[Shards]:
        names = block.events.schema.names
        places = (shards_of(name, block.events.column(name), self.shards) for name in self.attributes if name in names)
        return [each for each in places if each is not None]

    def _part(self, block: Block, routes: list[Shards], number: int) -> Block:
        if number == REST:
            return block
        wanted = np.zeros(block.events.num_rows, bool)
        for route in routes:
            wanted |= route == number
        rows = pa.array(np.flatnonzero(wanted))
        return Block(block.events.take(rows), block.carried.take(rows))


def _gathered(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    kept: list[Block] = []
    rows = size = 0
    for block in blocks:
        kept.append(block)
        rows += block.events.num_rows
        size += block.events.nbytes + block.carried.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield kept
            kept, rows, size = [], 0, 0
    if kept:
        yield kept

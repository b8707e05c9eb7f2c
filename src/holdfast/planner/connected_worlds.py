"""Whether brokers are connected, by drawing worlds: for networks that are too large for an exact answer.

A world is who is up at one moment. It falls into parts that hang together, and two brokers are connected when they
belong to the same one; so a world that was looked at once answers for all pairs. An end that is assumed up belongs to
the parts of its neighbours. Worlds are named after the seed alone: whichever pairs are asked for, and in which order,
each gets the same answer."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.planner.kernels.connected import count_reached, draw, packed
from holdfast.planner.overlay import Ints, Overlay

_BLOCK = 1_000  # worlds that are drawn at a time: 6 MB at 1,000 brokers
_KEPT_BYTES_MAX = 600_000_000  # of worlds that are remembered; more are drawn again for every target

Block = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], tuple[npt.NDArray[Any], ...], Ints, npt.NDArray[np.int32]]


class ConnectedWorlds:
    def __init__(self, overlay: Overlay, worlds: int, seed: str) -> None:
        self.worlds, self._seed = worlds, seed
        self._shares = np.array(overlay.availabilities)
        self._brokers = len(overlay.names)
        self._near, self._first = overlay.neighbour_arrays
        self._kept: list[Block] | None = None

    def reached(self, target: int, sources: Ints) -> Ints:
        """For each source, in how many worlds it is connected with the target: as they are, and with both ends up."""
        each, back = np.unique(sources, return_inverse=True)
        counts, row_of = np.zeros((len(each), 2), np.int64), np.full(self._brokers, -1)
        row_of[each] = np.arange(len(each))
        for block in self._blocks():
            count_reached(target, each, row_of, block, counts)
        return counts[back]

    def _blocks(self) -> Iterator[Block]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] = []
        size = 0
        for number, at in enumerate(range(0, self.worlds, _BLOCK)):
            name = f"{self._seed}/worlds/{number}"
            digits = int.from_bytes(blake2b(name.encode(), digest_size=4).digest())
            part, link_up = draw(
                min(_BLOCK, self.worlds - at), digits, self._shares, self._near, self._first, self._brokers
            )
            block = packed(part, link_up, self._near, self._first)
            size += _bytes(block)
            if size <= _KEPT_BYTES_MAX:
                kept.append(block)
            else:
                kept.clear()
            yield block
        if size <= _KEPT_BYTES_MAX:
            self._kept = kept


def _bytes(block: Block) -> int:
    inside, beside, circles, first, of = block
    return sum(each.nbytes for each in (inside, beside, *circles, first, of))

"""Whether brokers are connected, by drawing worlds: for networks that are too large for an exact answer.

A world is who is up at one moment. It falls into parts that hang together, and two brokers are connected when they
belong to the same one; so a world that was looked at once answers for all pairs. An end that is assumed up belongs to
the parts of its neighbours. Worlds are named after the seed alone: whichever pairs are asked for, and in which order,
each gets the same answer."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from holdfast.planner.kernels.connected import count_reached, draw
from holdfast.planner.overlay import Overlay

_BLOCK = 1_000  # worlds that are drawn at a time: 6 MB at 1,000 brokers
_KEPT_BYTES_MAX = 300_000_000  # of worlds that are remembered; more are drawn again for every target

Block = tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]


class ConnectedWorlds:
    def __init__(self, overlay: Overlay, worlds: int, seed: str) -> None:
        self.worlds, self._seed = worlds, seed
        self._shares = np.array(overlay.availabilities)
        self._brokers = len(overlay.names)
        self._near, self._first = overlay.neighbour_arrays
        size = worlds * (4 * self._brokers + len(overlay.links))
        self._kept: list[Block] | None = [] if size <= _KEPT_BYTES_MAX else None

    def reached(self, target: int, sources: Sequence[int]) -> npt.NDArray[np.int64]:
        """For each source, in how many worlds it is connected with the target: as they are, and with both ends up."""
        counts = np.zeros((len(sources), 2), np.int64)
        asked = np.array(sources, np.int64)
        for part, link_up in self._blocks():
            count_reached(target, asked, part, link_up, self._near, self._first, counts)
        return counts

    def _blocks(self) -> Iterator[Block]:
        if self._kept:
            yield from self._kept
            return
        for number, at in enumerate(range(0, self.worlds, _BLOCK)):
            name = f"{self._seed}/worlds/{number}"
            digits = int.from_bytes(blake2b(name.encode(), digest_size=4).digest())
            size = min(_BLOCK, self.worlds - at)
            block = draw(size, digits, self._shares, self._near, self._first, self._brokers)
            if self._kept is not None:
                self._kept.append(block)
            yield block

"""Pairs that are not written down one by one: what an event and a sorted run of the image have in common is a slice of
the run. Who counts pairs needs no more than where slices begin and end; who writes them copies slices as they are.

As `placing`, this imports nothing of ours, because numba looks for changes in this file alone.
"""

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]

_compiled = nb.njit(cache=True, nogil=True)


@dataclass(frozen=True)
class PairRuns:
    """Each row with the subscriptions that stand from `firsts` to before `ends` among `entries`; sorted by row."""

    rows: Ints
    firsts: Ints
    ends: Ints
    entries: Ints  # subscription numbers, those of the whole image

    @property
    def lengths(self) -> Ints:
        return self.ends - self.firsts

    def pairs(self) -> tuple[Ints, Ints]:
        """One by one: row number and subscription number."""
        count = int(self.lengths.sum())
        rows, numbers = np.empty(count, np.int32), np.empty(count, np.int32)
        _write(self.rows, self.firsts, self.ends, self.entries, rows, numbers)
        return rows, numbers

    def fill(self, room: npt.NDArray[np.uint16], entries: npt.NDArray[np.uint16], done: npt.NDArray[np.int64]) -> int:
        """Subscription numbers as two bytes, which `entries` has, as far as there is room; how many they were.

        `done` says where to go on: how many runs, and how many entries of the next one.
        """
        return int(_fill(self.firsts, self.ends, entries, room, done))

    def add_to(self, steps: npt.NDArray[np.int64]) -> None:
        """Count: the sum of `steps` up to an entry is in how many of the slices it is."""
        _add(self.firsts, self.ends, steps)


@_compiled
def _write(rows, firsts, ends, entries, out_rows, out):
    n = 0
    for run in range(rows.size):
        begin = n
        for entry in range(firsts[run], ends[run]):
            out[n] = entries[entry]
            n += 1
        for place in range(begin, n):
            out_rows[place] = rows[run]


@_compiled
def _fill(firsts, ends, entries, room, done):
    run, skipped, n = done[0], done[1], 0
    while run < firsts.size and n < room.size:
        first = firsts[run] + skipped
        some = min(ends[run] - first, room.size - n)
        for i in range(some):
            room[n + i] = entries[first + i]
        n += some
        skipped = skipped + some if first + some < ends[run] else 0
        run += skipped == 0
    done[0], done[1] = run, skipped
    return n


@_compiled
def _add(firsts, ends, steps):
    for run in range(firsts.size):
        steps[firsts[run]] += 1
        steps[ends[run]] -= 1

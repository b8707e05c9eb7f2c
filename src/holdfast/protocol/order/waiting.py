"""What one source is waiting for: the messages held back, and the missing numbers that they wait for.

A message is free when no missing number below it is awaited any more. So only the lowest missing number ever blocks,
and when it goes, everything up to the next one is free. Nothing at or below the `floor` is waited for: there a
message has been let go already, or its time has run out.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")


class AwaitedNumber(msgspec.Struct, gc=False):
    noticed_us: int
    deadline_us: int
    forced: bool = False  # given up because of a limit, which says nothing about the deadline


class Held(msgspec.Struct, Generic[Item], frozen=True):
    item: Item
    since_us: int


class Waiting(Generic[Item]):
    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.top = floor  # the highest number that has been let go; what comes later with a lower one is late
        self._held: dict[int, Held[Item]] = {}
        self._held_seqs: list[int] = []  # ascending
        self._missing: dict[int, AwaitedNumber] = {}
        self._missing_seqs: list[int] = []  # ascending; all above the floor
        self._given_up: dict[
            int, AwaitedNumber
        ] = {}  # in the order of giving up; it may come yet, and teach us something

    @property
    def held(self) -> int:
        return len(self._held)

    def held_items(self) -> Iterator[Item]:
        return (each.item for each in self._held.values())

    @property
    def missing(self) -> int:
        return len(self._missing)

    @property
    def highest_held(self) -> int | None:
        return self._held_seqs[-1] if self._held_seqs else None

    def due_us(self) -> int | None:
        """When the lowest missing number is no longer waited for."""
        return self._missing[self._missing_seqs[0]].deadline_us if self._missing_seqs else None

    def is_new(self, seq: int) -> bool:
        """This number is said to be missing, and we neither have it, nor wait for it, nor have stopped waiting."""
        return seq > self.floor and seq not in self._missing and seq not in self._held

    def await_missing(self, seq: int, missing: AwaitedNumber) -> None:
        insort(self._missing_seqs, seq)
        self._missing[seq] = missing

    def hold(self, seq: int, held: Held[Item]) -> None:
        insort(self._held_seqs, seq)
        self._held[seq] = held

    def awaits(self, seq: int) -> bool:
        return seq in self._missing

    def awaited_within(self, first: int, last: int) -> list[int]:
        return self._missing_seqs[bisect_left(self._missing_seqs, first) : bisect_right(self._missing_seqs, last)]

    def holds(self, seq: int) -> bool:
        return seq in self._held

    def oldest_above(self, seq: int) -> int:
        """Since when the message has been held that has waited longest among those above this number."""
        longest = next(iter(self._held))
        if longest > seq:  # nearly always
            return self._held[longest].since_us
        return min(self._held[each].since_us for each in self._held_seqs[bisect_left(self._held_seqs, seq) :])

    def end(self, seq: int) -> AwaitedNumber | None:
        """The wait for a number is over: it has come, or it never will. What was known of it, if it was awaited."""
        ended = self._missing.pop(seq, None)
        if ended is None:
            return self._given_up.pop(seq, None)
        del self._missing_seqs[bisect_left(self._missing_seqs, seq)]
        return ended

    def give_up_lowest(self, remembered_max: int, forced: bool) -> None:
        seq = self._missing_seqs.pop(0)
        missing = self._given_up[seq] = self._missing.pop(seq)
        missing.forced = forced
        self.floor = max(self.floor, seq)
        if len(self._given_up) > remembered_max:
            del self._given_up[next(iter(self._given_up))]

    def free(self) -> list[Held[Item]]:
        """Take out what nothing blocks any more, in order."""
        if not self._held_seqs:
            return []
        end = bisect_left(self._held_seqs, self._missing_seqs[0]) if self._missing_seqs else len(self._held_seqs)
        seqs = self._held_seqs[:end]
        if seqs:
            del self._held_seqs[:end]
            self.let_go(seqs[-1])
        return [self._held.pop(seq) for seq in seqs]

    def let_go(self, seq: int) -> None:
        """A message with this number is delivered now."""
        self.top = max(self.top, seq)
        self.floor = max(self.floor, seq)

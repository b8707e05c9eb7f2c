"""The agenda of a run gives things out as one sorted list would."""

from heapq import heappop, heappush
from random import Random

import pytest

from holdfast.sim.agenda import Agenda
from holdfast.sim.turns import Turns

DELAYS_US = (0, 0, 1, 700, 1_024, 5_000, 1_000_000)


class OneHeap:
    """The oracle: all in one heap, ordered by time and by who asked first."""

    def __init__(self) -> None:
        self.now_us = 0
        self._entries: list[tuple[int, int, str]] = []
        self._count = 0

    def add(self, time_us: int, name: str) -> None:
        self._count += 1
        heappush(self._entries, (time_us, self._count, name))

    def next_us(self) -> int | None:
        return self._entries[0][0] if self._entries else None

    def take(self, until_us: int) -> str | None:
        if not self._entries or self._entries[0][0] > until_us:
            self.now_us = until_us
            return None
        self.now_us, _, name = heappop(self._entries)
        return name


@pytest.mark.parametrize("seed", range(20))
def test_things_come_in_the_order_of_time_and_then_of_asking(seed: int) -> None:
    dice, agenda, expected = Random(seed), Agenda(Turns()), OneHeap()
    names = iter(range(100_000))

    def ask(base_us: int) -> None:
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            past_us = dice.choice((0, 0, 0, 0, 300, 3_000))  # compiled code tells of some things after a while
            time_us, name = max(0, base_us - past_us) + dice.choice(DELAYS_US), f"thing {next(names)}"
            agenda.add(time_us, name, 0)
            expected.add(time_us, name)

    until_us = taken = 0
    for _ in range(300):
        ask(until_us)
        assert agenda.next_us() == expected.next_us()
        until_us += dice.choice((0, 1, 500, 3_000, 400_000))
        for time_us, _, name, _ in agenda.things(until_us):
            assert (name, time_us, agenda.now_us) == (expected.take(until_us), expected.now_us, expected.now_us)
            taken += 1
            if taken < 5_000:
                ask(agenda.now_us)
        assert expected.take(until_us) is None
        assert agenda.now_us == until_us
    assert taken > 100

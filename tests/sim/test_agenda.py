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
    dice, turns, expected = Random(seed), Turns(), OneHeap()
    agenda, longest = Agenda(turns), 0
    names = iter(range(100_000))

    def ask(base_us: int) -> None:
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            past_us = dice.choice((0, 0, 0, 0, 300, 3_000))  # compiled code tells of some things after a while
            time_us, name = max(0, base_us - past_us) + dice.choice(DELAYS_US), f"thing {next(names)}"
            if dice.random() < 0.5:
                agenda.add_to_run(time_us, name, 0)  # several of these may be one thing
            else:
                agenda.add(time_us, name, 0)
            if dice.random() < 0.1:
                turns.last = turns.apart = turns.last + 1
            expected.add(time_us, name)

    until_us = taken = 0
    for _ in range(300):
        ask(until_us)
        assert agenda.next_us() == expected.next_us()
        until_us += dice.choice((0, 1, 500, 3_000, 400_000))
        for time_us, _, whose, _ in agenda.things(until_us):
            names_of_run = whose if isinstance(whose, list) else [whose]
            for name in names_of_run:
                assert (name, time_us, agenda.now_us) == (expected.take(until_us), expected.now_us, expected.now_us)
            taken, longest = taken + 1, max(longest, len(names_of_run))
            if taken < 5_000:
                ask(agenda.now_us)
        assert expected.take(until_us) is None
        assert agenda.now_us == until_us
    assert taken > 100
    assert longest > 1


def test_what_compiled_code_may_have_asked_for_in_between_keeps_things_apart() -> None:
    turns = Turns()
    agenda = Agenda(turns)
    agenda.add_to_run(5_000, "a", 0)
    agenda.add_to_run(5_000, "b", 0)
    turns.last = turns.apart = 7
    agenda.add_to_run(5_000, "c", 0)
    agenda.add_to_run(5_000, "d", 0)
    agenda.add(5_000, "e", 0)
    agenda.add_to_run(5_000, "f", 0)
    found = [(turns.current, whose) for _, _, whose, _ in agenda.things(5_000)]
    assert found == [(1, ["a", "b"]), (8, ["c", "d"]), (9, "e"), (10, ["f"])]

"""What a neighbour no longer wants is dropped in slices, and what it wants again stays."""

from itertools import islice
from random import Random

import pytest

from holdfast.model import large_map
from holdfast.model.large_map import LargeMap
from holdfast.protocol.ceased import Ceased


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_in_the_end_is_what_is_wanted_last(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_map, "_WHOLE_MAX", 10)
    dice, ceased = Random(seed), Ceased()
    wanted, held = set[str](), set[str]()  # by the neighbour; by its broker
    for _ in range(200):
        some = [f"x = {dice.randrange(60)}" for _ in range(dice.randrange(30))]
        match dice.randrange(4):
            case 0:
                gone = [each for each in some if each in wanted]
                wanted.difference_update(gone)
                ceased.put(gone)
            case 1 if dice.random() < 0.3:  # the link is down
                table: LargeMap[str, None] = LargeMap()
                table.update(dict.fromkeys(wanted))
                wanted.clear()
                ceased.put(table)
            case 2:
                wanted.update(some)
                held.update(some)
                ceased.wants_again(some)
            case _ if ceased:
                held.difference_update(ceased.take(lambda pending: list(islice(pending, 5))))
        assert held >= wanted
    while ceased:
        held.difference_update(ceased.take(lambda pending: list(islice(pending, 5))))
    assert held == wanted

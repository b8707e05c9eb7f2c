"""Brokers that a change does not concern are not looked at: the same is told as by a router that looks at all."""

from random import Random

import pytest

from holdfast.matching.shared_index import SharedIndex
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.tree import TreeRouter

CONDITIONS = [f"x = {number}" for number in range(12)] + ["x < 4", "x < 9"]


class LooksAtAll(TreeRouter):
    def _concerned_by(self, conditions: list[str]) -> list[str]:
        return list(self._peers)


@pytest.mark.parametrize("advertised", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_what_changes_tell_does_not_depend_on_who_was_looked_at(seed: int, advertised: bool) -> None:
    dice, book = Random(f"{seed}/concerned"), ConditionBook()
    routers = [
        kind(book, SharedIndex().view, advertised, 20, states=seed % 2 == 0) for kind in (TreeRouter, LooksAtAll)
    ]
    brokers, clients = ["p", "q", "r"], ["a", "b", "c"]
    wanted: dict[str, set[str]] = {name: set() for name in (*brokers, *clients)}
    for name in wanted:
        kind = "broker" if name in brokers else "client"
        assert len({repr(each.on_link_up(name, kind, 0)) for each in routers}) == 1  # type: ignore[arg-type]
    told = 0
    for now_us in range(1, 300):
        name = dice.choice(list(wanted))
        few = [each for each in CONDITIONS if each in wanted[name]]  # most of what somebody wants goes again soon
        some = few[:1] if few and dice.random() < 0.5 else dice.sample(CONDITIONS, dice.choice((1, 1, 1, 2)))
        if advertised and dice.random() < 0.2:
            found = [each.on_change(name, "advertisements", some[:1], (), now_us) for each in routers]
        else:
            added = [each for each in some if each not in wanted[name]]
            dropped = [each for each in some if each in wanted[name]]
            wanted[name] ^= set(some)
            found = [each.on_change(name, "subscriptions", added, dropped, now_us) for each in routers]
        assert found[0] == found[1]
        told += bool(found[0])
    assert told > 20
    assert routers[0].told() == routers[1].told()

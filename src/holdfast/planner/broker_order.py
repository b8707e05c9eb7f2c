"""An order of brokers in which few are in view at a time: those that have links both before and behind them.

The work of `connectivity.py` grows with the power of that number. Finding the best order is as hard as the question
itself, so we grow orders greedily from several beginnings, once for a network, and take for each pair the one that
promises least work: states are fewer while an end of the path has not come into view."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from holdfast.planner.overlay import Overlay

_TRIES = 60  # beginnings and draws among equals; about a tenth of a second at 30 brokers
_LARGE = 200  # brokers from which on one try must do: with so many the diagram is out of reach, or the graph a tree
_GROWTH = 4.0  # work of one more broker in view, and of an end in view: fitted to random graphs of degree 4
_OF_AN_END = 3.0

Neighbours = Sequence[frozenset[int]]


class BrokerOrder(NamedTuple):
    brokers: tuple[int, ...]
    view: tuple[int, ...]  # how many are in view when each comes


def good_order(overlay: Overlay, source: int, target: int) -> tuple[int, ...]:
    def work(order: BrokerOrder) -> float:
        first, last = sorted((order.brokers.index(source), order.brokers.index(target)))
        ends = ((at >= first) + (at >= last) for at in range(len(order.view)))
        return sum(_GROWTH**view * _OF_AN_END**each for view, each in zip(order.view, ends, strict=True))

    return min(_orders(overlay), key=work).brokers


@lru_cache(maxsize=8)  # every pair of one network asks again
def _orders(overlay: Overlay) -> list[BrokerOrder]:
    dice = Random("order of brokers")
    neighbours = [frozenset(other for other, _ in each) for each in overlay.neighbours]
    tries = _TRIES if len(neighbours) < _LARGE else 1
    grown = [_grown(neighbours, at % len(neighbours), dice) for at in range(tries)]
    return [BrokerOrder(each, in_view(each, neighbours)) for order in grown for each in (order, order[::-1])]


def _grown(neighbours: Neighbours, first: int, dice: Random) -> tuple[int, ...]:
    """Always the broker after which the fewest are in view."""
    left = [len(each) for each in neighbours]
    waiting = dict.fromkeys(range(len(neighbours)))
    near: set[int] = set()
    order = [first]
    while True:
        broker = order[-1]
        del waiting[broker]
        near.discard(broker)
        for other in neighbours[broker]:
            if other in waiting:
                near.add(other)
            else:
                left[broker] -= 1
                left[other] -= 1
        if not waiting:
            return tuple(order)
        order.append(
            min(sorted(near) or waiting, key=lambda each: (*_growth(each, neighbours, left, waiting), dice.random()))
        )


def _growth(broker: int, neighbours: Neighbours, left: Sequence[int], waiting: dict[int, None]) -> tuple[int, int]:
    seen = [other for other in neighbours[broker] if other not in waiting]
    closed = sum(left[other] == 1 for other in seen)
    return (left[broker] > len(seen)) - closed, -len(seen)


def in_view(order: Sequence[int], neighbours: Sequence[Iterable[int]]) -> tuple[int, ...]:
    """How many are in view when each comes."""
    place = {broker: at for at, broker in enumerate(order)}
    last = [max((place[other] for other in neighbours[broker]), default=0) for broker in order]
    return tuple(sum(last[before] >= at for before in range(at)) + 1 for at in range(len(order)))

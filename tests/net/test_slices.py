"""Floods share one slice of the event loop's time, however many there are."""

import asyncio
import re
from itertools import pairwise

import pytest

from holdfast.net.slices import SLICE_S, Slices
from tests.net.harness import live


def test_who_is_alone_has_a_whole_slice_and_floods_share_one() -> None:
    slices, floods = Slices(), [object() for _ in range(20)]
    assert slices.end_s(100.0) == pytest.approx(100.0 + SLICE_S)
    for turn in range(3):  # who is busy again and again counts once
        for each in floods:
            slices.used_up(each, 100.0 + turn / 100)
    assert slices.end_s(100.03) == pytest.approx(100.03 + SLICE_S / 20)


def test_who_is_quiet_again_is_forgotten() -> None:
    slices, loud, quiet = Slices(), object(), object()
    slices.used_up(quiet, 100.0)
    slices.used_up(loud, 100.0)
    slices.used_up(loud, 100.09)
    assert slices.end_s(100.09) == pytest.approx(100.09 + SLICE_S / 2)
    assert slices.end_s(100.18) == pytest.approx(100.18 + SLICE_S)
    assert slices.end_s(100.20) == pytest.approx(100.20 + SLICE_S)


@live
async def test_a_turn_takes_as_many_out_of_the_line_as_fit_into_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, order, turns = [0.0], list[str](), list[int]()
    monkeypatch.setattr("holdfast.net.slices.monotonic", lambda: now_s[0])
    slices = Slices()

    def flood(name: str, cost_s: float, left: int) -> None:
        def go_on() -> None:
            order.append(name)
            now_s[0] += cost_s
            flood(name, cost_s, left - 1)

        if left:
            slices.go_on_later(name, now_s[0], go_on)

    def count() -> None:
        turns.append(len(order))
        if len(turns) < 8:
            asyncio.get_running_loop().call_soon(count)

    flood("heavy", 0.03, 3)
    flood("light", 0.004, 3)
    flood("other", 0.004, 3)
    count()
    while len(turns) < 8:
        await asyncio.sleep(0)
    # A heavy frame has a turn to itself, and the next turn begins with those that it kept waiting.
    assert "".join(each[0] for each in order) == "hlohlohlo"
    assert all(later - before <= 3 for before, later in pairwise(turns))


@live
async def test_who_awaits_its_turn_stands_in_the_same_line() -> None:
    slices, order = Slices(), list[str]()
    slices.go_on_later("a", 0.0, lambda: order.append("a"))
    waiting = asyncio.create_task(slices.turn("b", 0.0))
    await asyncio.sleep(0)
    slices.go_on_later("c", 0.0, lambda: order.append("c"))
    await waiting
    order.append("b")
    while len(order) < 3:
        await asyncio.sleep(0)
    assert order[0] == "a" and sorted(order) == ["a", "b", "c"]


def test_another_event_loop_begins_with_an_empty_line() -> None:
    slices, done = Slices(), list[int]()

    async def first() -> None:
        slices.go_on_later("a", 0.0, lambda: done.append(1))  # and the loop ends

    async def second() -> None:
        slices.go_on_later("a", 0.0, lambda: done.append(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(first())
    asyncio.run(second())
    assert done[-1] == 2


@live
async def test_the_line_waits_while_somebody_delivers_but_not_for_ever() -> None:
    slices, order = Slices(), list[str]()

    async def deliver(turns: int) -> None:
        for _ in range(turns):
            order.append("d")
            await slices.deliver_on()

    def flood(left: int) -> None:
        def go_on() -> None:
            order.append("f")
            flood(left - 1)

        if left:
            slices.go_on_later("f", 0.0, go_on)

    delivering = asyncio.create_task(deliver(20))
    await asyncio.sleep(0)
    flood(3)
    await delivering
    while order.count("f") < 3:
        await asyncio.sleep(0)
    assert re.fullmatch("d{8,9}fd{8}fd*f", "".join(order))

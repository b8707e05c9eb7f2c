"""Faults are carried out one at a time on each target, also when one takes longer than the schedule has it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from holdfast.nemesis.attack import _strike
from holdfast.nemesis.schedule import PlannedFault


async def leave_while_leaving() -> tuple[int, list[str]]:
    lines: list[tuple[str, dict[str, Any]]] = []
    gone, started = asyncio.Event(), 0

    async def close(name: str) -> None:
        await gone.wait()  # its flush takes long

    async def start_again(name: str) -> None:
        nonlocal started
        started += 1

    arena: Any = SimpleNamespace(
        journal=SimpleNamespace(write=lambda what, **line: lines.append((what, line))),
        zero_us=0,
        struck=set(),
        close=close,
        start_again=start_again,
    )
    leave = PlannedFault(0, 0, "leave", "p2")
    first = asyncio.create_task(_strike(arena, 0, leave, lambda line: None))
    while not arena.struck:
        await asyncio.sleep(0)
    await _strike(arena, 1, leave, lambda line: None)
    gone.set()
    await first
    await _strike(arena, 2, leave, lambda line: None)
    return started, [kind for kind, _ in lines]


def test_who_has_not_left_yet_does_not_leave_a_second_time() -> None:
    """Both would start a process under the same name when it is gone (strict, seed 900)."""
    assert asyncio.run(leave_while_leaving()) == (2, ["strike", "left out", "over", "strike", "over"])

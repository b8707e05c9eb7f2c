"""One run: a network is started, the schedule is carried out against it, and it gets time to heal.

What was really done, and when, goes into the journal of the nemesis: a machine that is busy does things late, and the
judge goes by what happened.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.nemesis.arena import Arena, Ground
from holdfast.nemesis.journal import now_us
from holdfast.nemesis.schedule import PlannedFault

_STATE_S = 0.5  # between looks at who still waits for something
_QUIET_S = 2.0  # without a line in any client's journal nothing is on its way: two pauses between dials
_GOSSIP_QUIET_S = 12.0  # where brokers recover from each other: as long as they look for an event (`gossip_lost_s`)
_DRAIN_S = 30.0  # for the rest, beyond what recovery takes
_FLUSH_S = 20.0  # for publishers to hear that their broker has everything

_WEATHER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cut": ({"cut": True}, {"cut": False}),
    "stall": ({"stalled": True}, {"stalled": False}),
    "delay": ({}, {"delay_s": 0.0, "jitter_s": 0.0}),
    "throttle": ({}, {"bytes_per_s": 0.0}),
    "drop": ({}, {"drop": 0.0, "duplicate": 0.0}),
}


async def attack(ground: Ground, faults: Sequence[PlannedFault], progress: Callable[[str], None]) -> None:
    """Run it; the journals are in the ground's folder afterwards."""
    arena = Arena(ground)
    try:
        await arena.start()
        async with asyncio.TaskGroup() as striking:
            for number, fault in enumerate(faults):
                striking.create_task(_strike(arena, number, fault, progress))
            striking.create_task(_until(arena.zero_us + ground.duration_us))
        progress("no more faults; the network gets time to heal")
        await _drain(arena, ground)
    finally:
        await arena.stop()


async def _until(time_us: int) -> None:
    await asyncio.sleep(max(0, time_us - now_us()) / 1e6)


async def _strike(arena: Arena, number: int, fault: PlannedFault, progress: Callable[[str], None]) -> None:
    await _until(arena.zero_us + fault.at_us)
    if fault.kind == "full-disk" and not arena.can_fill_disks:
        arena.journal.write("left out", fault=number, kind=fault.kind, text="no disk can be mounted; that takes root")
        return
    if fault.target in arena.struck:
        arena.journal.write(
            "left out", fault=number, kind=fault.kind, text=f"{fault.target} is not yet done with another"
        )
        return
    arena.struck.add(fault.target)
    arena.journal.write("strike", fault=number, kind=fault.kind, target=fault.target, **fault.what)
    progress(f"{fault.at_us / 1e6:6.1f} s  {fault.kind} {fault.target} for {fault.for_us / 1e6:.1f} s")
    until_us = max(now_us(), arena.zero_us + fault.at_us) + fault.for_us
    try:
        await _do(arena, number, fault, until_us)
    finally:
        arena.struck.discard(fault.target)
        arena.journal.write("over", fault=number)


async def _do(arena: Arena, number: int, fault: PlannedFault, until_us: int) -> None:
    name = fault.target
    if fault.kind in _WEATHER:
        change, back = _WEATHER[fault.kind]
        arena.change(name, **change, **fault.what)
        await _until(until_us)
        arena.change(name, **back)
        return
    match fault.kind.split("-")[0]:
        case "kill" | "clock":
            await arena.kill(name)
            await _until(until_us)
            arena.node(name).offset_us += fault.what.get("by_us", 0)
            await arena.start_again(name)
        case "pause":
            node = arena.node(name)
            node.signal(signal.SIGSTOP)
            await _until(until_us)
            node.signal(signal.SIGCONT)
        case "leave":
            await arena.close(name)
            await _until(until_us)
            await arena.start_again(name)
        case "absence":
            await _absence(arena, name, until_us)
        case "burst":
            arena.node(name).tell(do="burst", events=fault.what["events"])
        case "slow":
            arena.node(name).tell(do="slow", for_us=fault.for_us)
            await _until(until_us)
        case "churn":
            arena.node(name).tell(do="subscribe", sub=f"churn-{number}", condition=fault.what["condition"])
            await _until(until_us)
            arena.node(name).tell(do="unsubscribe", sub=f"churn-{number}")
        case "full":
            arena.fill(name)
            await _until(until_us)
            arena.empty(name)


async def _absence(arena: Arena, name: str, until_us: int) -> None:
    """A durable subscriber ends, and comes back as another process; others go on where they were, if they can."""
    if arena.stores:
        await arena.close(name)
        await _until(until_us)
        await arena.start_again(name)
    else:
        arena.node(name).tell(do="detach")
        await _until(until_us)
        arena.node(name).tell(do="attach")


async def _drain(arena: Arena, ground: Ground) -> None:
    """Publishers stop; then until everybody has what it can have, and nothing has moved for a while."""
    nodes = list(arena.clients.values())
    await asyncio.gather(*[each.ask(_FLUSH_S, do="stop publishing") for each in nodes])
    recovery = ground.network.reliability.guarantees.recovery
    search_us = getattr(recovery, "search_us", 0)
    quiet_s = _QUIET_S if ground.network.reliability.gossip is None else _GOSSIP_QUIET_S
    end_us = now_us() + search_us + int(_DRAIN_S * 1e6)
    size, since_us = -1, now_us()
    while now_us() < end_us:
        states = await asyncio.gather(*[each.ask(_STATE_S * 4, do="state") for each in nodes])
        written = sum(each.stat().st_size for each in (ground.folder / "journals").glob("client-*"))
        if written != size or not all(each.get("settled") for each in states):
            size, since_us = written, now_us()
        elif now_us() - since_us > quiet_s * 1e6:
            break
        await asyncio.sleep(_STATE_S)
    arena.journal.write("drained", settled=[each.get("settled", False) for each in states])

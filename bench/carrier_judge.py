"""What became of each event of a burst, counted without any code of the clients."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import msgspec


class Named(msgspec.Struct, frozen=True):
    """A loss that a subscriber was told of: by numbers, or by the time in which it may have missed anything."""

    first: int  # of the numbers of its publisher; 0: by time
    last: int
    since_us: int
    until_us: int


@dataclass
class Came:
    """What one subscriber has got, in order: the numbers of the burst, and how late those were that were repaired."""

    numbers: list[int] = field(default_factory=list)
    last_s: float = 0.0  # when the last of them came, by `time.perf_counter`
    repaired_s: list[float] = field(default_factory=list)
    reachable_s: list[float] = field(default_factory=list)  # the same, from when its publisher could be asked at all
    named: list[Named] = field(default_factory=list)


@dataclass
class Left:
    """What the publisher knows: when each event left, by its number in the burst, and its first sequence number."""

    times_us: dict[int, int] = field(default_factory=dict)
    first_seq: int = 1
    messages: int = 0  # of the bus, of all clients
    bytes: int = 0


def judged(count: int, left: Left, all_came: Sequence[Came]) -> dict[str, Any]:
    owed = count * len(all_came)
    delivered = named = unnamed = twice = disordered = 0
    repaired: list[float] = []
    reachable: list[float] = []
    for came in all_came:
        seen: set[int] = set()
        highest = -1
        for number in came.numbers:
            twice += number in seen
            disordered += number not in seen and number < highest
            seen.add(number)
            highest = max(highest, number)
        missing = [number for number in range(count) if number not in seen]
        told = sum(_is_named(number, left, came.named) for number in missing)
        delivered, named, unnamed = delivered + len(seen), named + told, unnamed + len(missing) - told
        repaired += came.repaired_s
        reachable += came.reachable_s
    steps, later = _hundredths(repaired), _hundredths(reachable)
    each_later = [_hundredths(came.reachable_s) for came in all_came]
    return {
        "owed": owed,
        "delivered": delivered,
        "named": named,
        "unnamed": unnamed,
        "twice": twice,
        "out_of_order": disordered,
        "repaired": len(repaired),
        "repair_p50_s": steps[49],
        "repair_p99_s": steps[98],
        "reachable_p50_s": later[49],
        "reachable_p99_s": later[98],
        "subscribers": [{"reachable_p50_s": each[49], "reachable_p99_s": each[98]} for each in each_later],
        "messages": left.messages,
        "bytes": left.bytes,
    }


def _hundredths(values: Sequence[float]) -> list[float]:
    return quantiles(values, n=100) if len(values) > 1 else [0.0] * 99


def _is_named(number: int, left: Left, named: Sequence[Named]) -> bool:
    seq, time_us = left.first_seq + number, left.times_us.get(number, 0)
    for each in named:
        if each.first:
            if each.first <= seq <= each.last:
                return True
        elif each.since_us <= time_us <= each.until_us:
            return True
    return False

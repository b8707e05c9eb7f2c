"""Dice that are thrown by name: the same link, event and time always give the same numbers.

What becomes of an event on a link does then not depend on what else was sent there before. So events may be carried in
any order (sim/express.py), and two runs that differ in one setting meet the same luck wherever they do the same thing,
which makes their difference visible with fewer seeds. The mixing is that of splitmix64 (Steele, Lea and Flood 2014).
"""

from hashlib import blake2b

_WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: successive multiples spread evenly
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(word: int) -> int:
    """A word in which every bit depends on every bit of the given one."""
    word = (word ^ word >> 30) * MIX_1 & _WORD
    word = (word ^ word >> 27) * MIX_2 & _WORD
    return word ^ word >> 31


def key_of(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def source_key(seed: int, source: str) -> int:
    return key_of(f"{seed}/{source}/events")


def event_key(of_source: int, seq: int) -> int:
    return mix(of_source + seq * GOLDEN & _WORD)


class EventKeys:
    """The keys of events, with those of their sources remembered."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._sources: dict[str, int] = {}

    def of(self, source: str, seq: int) -> int:
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = source_key(self._seed, source)
        return event_key(known, seq)


def first_number(link_key: int, event: int, now_us: int) -> float:
    """The first of the numbers below, where no other is needed."""
    return (mix((link_key ^ (event + now_us * GOLDEN & _WORD)) + GOLDEN & _WORD) >> 11) * 2.0**-53


class KeyedDice:
    """The numbers for one event that is sent on one link at one time."""

    __slots__ = ("_state",)

    def __init__(self, link_key: int, event: int, now_us: int) -> None:
        self._state = link_key ^ (event + now_us * GOLDEN & _WORD)

    def random(self) -> float:
        self._state = mix(self._state + GOLDEN & _WORD)
        return (self._state >> 11) * 2.0**-53

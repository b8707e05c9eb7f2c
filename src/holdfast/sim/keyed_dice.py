"""Dice that are thrown by name: the same link, event and time always give the same numbers.

What becomes of an event on a link does then not depend on what else was sent there before. So events may be carried in
any order (sim/express.py), and two runs that differ in one setting meet the same luck wherever they do the same thing,
which makes their difference visible with fewer seeds. The mixing is that of splitmix64 (Steele, Lea and Flood 2014).
"""

from hashlib import blake2b

from holdfast.model.messages import Publication

WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: successive multiples spread evenly
BELOW_FRACTION = 64 - 53  # bits of a word that a random number has no room for: it has as many as Python's
UNIT = 2.0**-53
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(word: int) -> int:
    """A word in which every bit depends on every bit of the given one."""
    word = (word ^ word >> 30) * MIX_1 & WORD
    word = (word ^ word >> 27) * MIX_2 & WORD
    return word ^ word >> 31


def key_of(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def source_key(seed: int, source: str) -> int:
    return key_of(f"{seed}/{source}/events")


def event_key(of_source: int, seq: int) -> int:
    return mix(of_source + seq * GOLDEN & WORD)


_REMEMBERED_MAX = 1_024  # events on their way at one time


class EventLuck:
    """What the dice of links are thrown with for an event at a time; keys are remembered while events are passed on."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._sources: dict[str, int] = {}
        self._keys: dict[int, tuple[Publication, int]] = {}  # by identity; the event is kept, so no other has it

    def of(self, publication: Publication, now_us: int) -> int:
        known = self._keys.get(id(publication))
        key = self._new_key(publication) if known is None else known[1]
        return key + now_us * GOLDEN & WORD

    def _new_key(self, publication: Publication) -> int:
        source = publication.source
        if source not in self._sources:
            self._sources[source] = source_key(self._seed, source)
        if len(self._keys) >= _REMEMBERED_MAX:
            self._keys.clear()
        key = event_key(self._sources[source], publication.seq)
        self._keys[id(publication)] = publication, key
        return key


class KeyedDice:
    """The numbers for one event that is sent on one link at one time."""

    __slots__ = ("_state",)

    def __init__(self, link_key: int, luck: int) -> None:
        self._state = link_key ^ luck

    def random(self) -> float:
        self._state = mix(self._state + GOLDEN & WORD)
        return (self._state >> BELOW_FRACTION) * UNIT

"""Which events of a batch go to whom: from who wants each event to the events that each neighbour wants.

Neighbours are bits. Where most want most events, the bits are turned over, from a row for each event to one for each
neighbour, a byte of all rows at a time; where few want few, it is cheaper to look at each bit that is set.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from itertools import compress
from operator import or_
from struct import Struct

from holdfast.model.limits import BATCH_EVENTS_MAX
from holdfast.model.places import Stretches, stretches_of

_DENSE = 8  # to look at a set bit takes about so many times as long as a place of the turned table
_PLACES = list(range(BATCH_EVENTS_MAX))  # made once: most are too large for Python to have them at hand
_BITS = [bytes([byte >> bit & 1 for byte in range(256)]) for bit in range(8)]  # of each byte, as tables to translate by
_WORD = 64  # neighbours that fit into one


def picks(wanted: Sequence[int]) -> Mapping[Sequence[int], int]:
    """The places of events, in order, and who wants just these. `wanted` says who wants each event."""
    different = set(wanted)
    if len(different) == 1:
        return {Stretches([(0, len(wanted))], len(wanted)): wanted[0]} if wanted[0] else {}
    anybody = reduce(or_, different)
    rows, size = _rows(wanted, anybody.bit_length())
    turn_over = len(wanted) * anybody.bit_count() <= _DENSE * int.from_bytes(rows).bit_count()
    return _turned_over(rows, size, anybody) if turn_over else _bit_by_bit(wanted)


def _rows(wanted: Sequence[int], bits: int) -> tuple[bytes, int]:
    """Who wants each event as so many bytes, one event after the other."""
    if bits <= _WORD:
        return _packed(len(wanted))(*wanted), _WORD // 8
    size = (bits + 7) // 8
    return b"".join([each.to_bytes(size, "little") for each in wanted]), size


@cache
def _packed(count: int) -> Callable[..., bytes]:
    return Struct(f"<{count}Q").pack


def _turned_over(rows: bytes, size: int, anybody: int) -> dict[Sequence[int], int]:
    alike: dict[bytes, int] = {}  # by a byte for each event: whether it is wanted
    for at in range((anybody.bit_length() + 7) // 8):
        column = rows[at::size]
        for bit in range(8):
            who = 1 << 8 * at + bit
            if anybody & who:
                chosen = column.translate(_BITS[bit])
                alike[chosen] = alike.get(chosen, 0) | who
    return {stretches_of(chosen) or tuple(compress(_PLACES, chosen)): who for chosen, who in alike.items()}


def _bit_by_bit(wanted: Sequence[int]) -> dict[Sequence[int], int]:
    places: dict[int, list[int]] = {}
    for at, left in enumerate(wanted):
        while left:
            who = left & -left
            places.setdefault(who, []).append(at)
            left ^= who
    alike: dict[Sequence[int], int] = {}
    for who, chosen in places.items():
        alike[tuple(chosen)] = alike.get(tuple(chosen), 0) | who
    return alike

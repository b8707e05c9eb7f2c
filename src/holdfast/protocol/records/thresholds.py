"""Where to cut an attribute's values into bins, learned from those published last.

If there are few different values, each gets a bin of its own and equality is exact. Otherwise the frequent ones do,
and the others are cut at quantiles, so that no bin holds much more than its share: whatever a condition asks for, few
events fall into the same bin by chance. Numbers send few quantiles and interpolate; texts send the shortest texts
that separate.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import isinf

from holdfast.model.values import Kind, Value, canonical, kind_of
from holdfast.protocol.records.ordering import Key, key_of
from holdfast.protocol.records.scales import BOOLEAN, FIRST_BIN, OrderedScale

SEGMENTS = 16  # quantiles sent for numbers: with 32 the bins are hardly more even, and the book is longer
_POINT_CHARACTERS_MAX = 64  # a longer text is told by its beginning: it would make the book too long
_TEXT_CUTS_MAX = 128  # that texts are cut at: each takes about three bytes of the book
_HEAVY = 1.5  # a value gets its own bin when it is this much more frequent than a bin should be


def main_kind(values: Sequence[Value]) -> Kind:
    """The kind that most of the values have."""
    counts = Counter(kind_of(value).value for value in values)
    return Kind(min(counts, key=lambda kind: (-counts[kind], kind)))


def learned_scale(values: Sequence[Value], kind: Kind, width: int) -> OrderedScale:
    """The best bins for values like these, of a kind, with codes of `width` bits."""
    if kind is Kind.BOOLEAN:
        return BOOLEAN
    keys = sorted(_keys(values, kind))
    return _scale(keys, kind, (1 << width) - FIRST_BIN)


def even_thresholds(values: Sequence[Value], kind: Kind, count: int) -> OrderedScale:
    """At most `count` boundaries, with as many values between each two of them."""
    keys = sorted(_keys(values, kind))
    cuts = [keys[len(keys) * part // (count + 1)] for part in range(1, count + 1)] if keys else []
    return OrderedScale(kind, knots=tuple(dict.fromkeys(cuts)))


def crowding(scale: OrderedScale, values: Sequence[Value]) -> float:
    """How likely two of the values fall into one bin."""
    codes = Counter(map(scale.code, values))
    return sum(count * count for count in codes.values()) / max(1, len(values)) ** 2


def _keys(values: Sequence[Value], kind: Kind) -> list[Key]:
    """Those of the kind that a bin's edge can stand for: neither NaN nor infinite, whole numbers as integers."""
    keys = (key_of(canonical(value)) for value in values if kind_of(value) is kind and value == value)
    return [key for key in keys if not (type(key) is float and isinf(key))]


def _scale(keys: list[Key], kind: Kind, bins: int) -> OrderedScale:
    counts = Counter(keys)  # in the order of the keys
    short = [key for key in counts if not isinstance(key, str) or len(key) <= _POINT_CHARACTERS_MAX]
    if len(short) == len(counts) and 2 * len(counts) < min(bins, len(keys) + 2):  # seen twice each, on average
        return OrderedScale(kind, points=tuple(counts))
    share = max(1, _HEAVY * len(keys) / bins)
    heaviest = sorted((key for key in short if counts[key] > share), key=lambda key: -counts[key])
    chosen = dict.fromkeys(heaviest[: bins // 4])
    points = tuple(key for key in counts if key in chosen)
    bins_max = bins - 2 - 2 * len(points)
    rest = [key for key in keys if key not in chosen]
    if kind is Kind.STRING:
        return OrderedScale(kind, points, _separators([str(key) for key in rest], min(bins_max, _TEXT_CUTS_MAX)))
    segments = max(1, min(SEGMENTS, bins_max))
    knots = dict.fromkeys(_quantiles(rest, segments))
    return OrderedScale(kind, points, tuple(knots), max(1, bins_max // max(1, len(knots) - 1)))


def _quantiles(keys: Sequence[Key], segments: int) -> list[Key]:
    """The ends and what lies between: one more than there are segments."""
    last = len(keys) - 1
    return [keys[last * part // segments] for part in range(segments + 1)] if keys else []


def _separators(texts: list[str], bins_max: int) -> tuple[str, ...]:
    cuts: dict[str, None] = {}
    neighbours = [(low, high) for low, high in pairwise(dict.fromkeys(texts))]
    for part in range(1, min(bins_max, len(neighbours)) + 1):
        low, high = neighbours[(len(neighbours) - 1) * part // min(bins_max, len(neighbours))]
        cuts[_shortest_between(low, high)] = None
    return tuple(sorted(cuts))


def _shortest_between(low: str, high: str) -> str:
    """The shortest beginning of `high` that comes after `low`, cut off where it would be too long."""
    for length in range(1, min(len(high), _POINT_CHARACTERS_MAX) + 1):
        if high[:length] > low:
            return high[:length]
    return high[:_POINT_CHARACTERS_MAX]

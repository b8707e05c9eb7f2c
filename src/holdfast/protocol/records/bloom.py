"""The Bloom filter of paper 000, with its defects mended (`tags.py` has the rule that they broke).

An entry is a filter of 64, 128, 256 or 2,048 bits. Three quarters are hashed: every tag of the event sets a few of
them. The last quarter is direct: numbers and timestamps are compared with a few thresholds of the codebook, and each
comparison that holds sets a bit of its own, so that ranges are told without filling the hashed part. A condition asks
for the bits of the tags and comparisons that it implies.

Attributes named as optional also have tags for being there, with and without the kind, and for being missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import product

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Filter, Subscription, necessary
from holdfast.model.event import Attributes
from holdfast.model.values import Value
from holdfast.protocol.records import tags
from holdfast.protocol.records.bits import BitReader, BitWriter
from holdfast.protocol.records.digest import Alternative, Entry, Pattern, pattern_of
from holdfast.protocol.records.ordering import Stretch, points, stretches
from holdfast.protocol.records.scales import FIRST_BIN, OrderedScale
from holdfast.protocol.records.tags import Family

SIZES = (64, 128, 256, 2_048)  # the last for events of a hundred attributes, which fill the others
_MASKS_MAX = 16_384  # values whose bits are remembered: about 4 MB; then all are forgotten
_COUNT_K = 4  # for how many bits differ between two filters: between ten and sixty
_CHOICES_MAX = 64  # conditions that one filter's lists may expand to in a request; a longer list is left out


@dataclass(frozen=True)
class BloomLayout:
    bits: int
    hashes: int
    direct: bool = True  # keep a quarter of the bits for thresholds
    optional: tuple[str, ...] = ()
    texts: tuple[tuple[str, tuple[Family, ...]], ...] = ()  # attributes whose prefixes, suffixes or parts have tags
    only: tuple[str, ...] | None = None  # encode these alone; conditions on others pass
    thresholds: tuple[tuple[str, OrderedScale], ...] = ()

    @property
    def hashed_bits(self) -> int:
        return self.bits * 3 // 4 if self.direct else self.bits

    @property
    def direct_bits(self) -> int:
        return self.bits - self.hashed_bits


class BloomBook:
    reference: Entry = 0

    def __init__(self, layout: BloomLayout, data: bytes) -> None:
        """`data` is the layout as bytes, which `codebook_bytes` writes and reads."""
        self.layout = layout
        self.bits = layout.bits
        self.id = int.from_bytes(blake2b(data, digest_size=4).digest(), "big")
        self._data = data
        self._optional = dict.fromkeys(layout.optional)
        self._texts = dict(layout.texts)
        self._only = None if layout.only is None else dict.fromkeys(layout.only)
        self._masks: dict[tuple[str, bytes], int] = {}
        self._thresholds: dict[str, _Thresholds] = {}
        first = layout.hashed_bits
        for name, scale in layout.thresholds:
            self._thresholds[name] = _Thresholds(scale, first)
            first += 2 * len(scale.boundaries)

    def to_bytes(self) -> bytes:
        return self._data

    # Events --------------------------------------------------------------------------------------

    def entry(self, attributes: Attributes) -> Entry:
        entry, only = 0, self._only
        for name, value in attributes.items():
            if value is not None and (only is None or name in only):
                entry |= self._value_mask(name, value)
                thresholds = self._thresholds.get(name)
                if thresholds is not None:
                    entry |= thresholds.mask(value)
        for name in self._optional:
            if attributes.get(name) is None:
                entry |= self._hashed(tags.missing(_encoded(name)))
        return entry

    def _value_mask(self, name: str, value: Value) -> int:
        spelt = tags.spelling(value)
        key = name, spelt or (b"[" if type(value) is list else b"")
        known = self._masks.get(key)
        if known is None:
            if len(self._masks) >= _MASKS_MAX:
                self._masks.clear()
            known = self._masks[key] = self._all_hashed(self._tags(name, value, spelt))
        return known

    def _tags(self, name: str, value: Value, spelt: bytes | None) -> list[bytes]:
        encoded = _encoded(name)
        found = [] if spelt is None else [tags.equality(encoded, spelt)]
        if name in self._optional:
            found += tags.presence_tags(encoded, value)
        if type(value) is str and name in self._texts:
            found += tags.text_tags(encoded, value, self._texts[name])
        return found

    def _hashed(self, tag: bytes) -> int:
        digest = blake2b(tag, digest_size=4 * self.layout.hashes).digest()
        mask, size = 0, self.layout.hashed_bits
        for at in range(0, len(digest), 4):
            mask |= 1 << int.from_bytes(digest[at : at + 4], "big") % size
        return mask

    def _all_hashed(self, found: list[bytes]) -> int:
        mask = 0
        for tag in found:
            mask |= self._hashed(tag)
        return mask

    # Conditions ----------------------------------------------------------------------------------

    def knows(self, attribute: str) -> bool:
        return self._only is None or attribute in self._only

    def pattern(self, subscription: Subscription) -> Pattern:
        return pattern_of(map(self._alternative, map(necessary, subscription.filters)))

    def _alternative(self, filter_: Filter) -> Alternative:
        mask, choices = 0, []
        for each in filter_:
            sets = tuple(dict.fromkeys(self._bit_sets(each)))
            if len(sets) == 1:
                mask |= sets[0]
            elif 0 not in sets:
                choices.append(sets)
        return Alternative(mask, mask, (), tuple(choices))

    def _bit_sets(self, each: Constraint) -> Iterator[int]:
        """Sets of bits; an event that passes has all bits of at least one set."""
        name = each.attribute
        if self._only is not None and name not in self._only:
            yield 0
            return
        encoded, optional = _encoded(name), name in self._optional
        if each.op == "IS NULL":
            yield self._hashed(tags.missing(encoded)) if optional else 0
            return
        there = self._hashed(tags.existence(encoded, each.kind)) if optional else 0
        if each.op in ("=", "IN"):
            for value, stretch in zip(_listed(each), points(each), strict=True):
                yield (
                    there
                    | self._hashed(tags.equality(encoded, tags.spelling(value) or b""))
                    | self._direct(each, stretch)
                )
        elif each.op == "LIKE" and name in self._texts:
            direct = self._direct(each, *(stretches(each) or ()))
            for found in tags.like_tags(encoded, each.operand, self._texts[name]):
                yield there | direct | self._all_hashed(found)
        else:
            yield there | self._direct(each, *(stretches(each) or ()))

    def _direct(self, each: Constraint, stretch: Stretch = (None, None)) -> int:
        thresholds = self._thresholds.get(each.attribute)
        if thresholds is None or each.kind is not thresholds.scale.kind:
            return 0
        return thresholds.implied(stretch)

    # Changes -------------------------------------------------------------------------------------

    def change(self, entry: Entry, before: Entry) -> BitWriter | None:
        difference = entry ^ before
        if 3 * difference.bit_count() > self.bits:
            return None  # a list of so many is longer than the filter
        out = BitWriter()
        out.subset(_positions(difference), self.bits, _COUNT_K)
        return out if out.bits < self.bits else None

    def changed_untrusted(self, bits: BitReader, before: Entry) -> Entry:
        for position in bits.subset(self.bits, _COUNT_K):
            before ^= 1 << position
        return before

    # Requests ------------------------------------------------------------------------------------

    def request_attributes(self, entry: Entry) -> dict[str, Value]:
        """`b7 = TRUE` for each bit that is set; only that it is there counts."""
        return {f"b{position}": True for position in _positions(entry)}

    def request_condition(self, pattern: Pattern) -> list[str]:
        return [text for each in pattern for text in _bit_conditions(each)]


class _Thresholds:
    """One attribute's direct bits: for the j-th threshold one bit for "at least" and one for "below"."""

    def __init__(self, scale: OrderedScale, first: int) -> None:
        self.scale = scale
        self._first = first

    @cached_property
    def _by_bin(self) -> list[int]:
        count = len(self.scale.boundaries)
        return [
            sum(1 << self._first + 2 * at + (0 if at < number else 1) for at in range(count))
            for number in range(count + 1)
        ]

    def mask(self, value: Value) -> int:
        code = self.scale.code(value)
        return self._by_bin[code - FIRST_BIN] if code >= FIRST_BIN else 0

    def implied(self, stretch: Stretch) -> int:
        """The bits that every value of the stretch sets: those that its first and its last bin have in common."""
        first, last = self.scale.bins_meeting(stretch)
        return self._by_bin[first] & self._by_bin[last]


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _listed(each: Constraint) -> tuple[Value, ...]:
    return each.operand if isinstance(each.operand, tuple) else (each.operand,)


def _positions(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _bit_conditions(each: Alternative) -> list[str]:
    """One conjunction for each way to choose from the lists; a list that makes too many is left out, which is safe."""
    lists: list[tuple[int, ...]] = []
    combinations = 1
    for masks in each.choices:
        if combinations * len(masks) <= _CHOICES_MAX:
            combinations *= len(masks)
            lists.append(masks)
    chosen = []
    for combination in product(*lists):
        mask = each.mask
        for one in combination:
            mask |= one
        chosen.append(" AND ".join(f"b{position} IS NOT NULL" for position in _positions(mask)))
    return chosen

"""Compile subscriptions into an image.

Every filter becomes ranges of codes (see `slots`) and, where a range cannot say it, extra tests. One of them is its
access test: the one that splits events finest, judged by how many different constants the conditions use
there. Filters with the same access test share a bucket. Within a bucket, a filter that needs at most two more
equalities and one bound goes into a sorted run; the rest are checked, by bitmaps where there are many.

The work is done on whole columns: only the first step, in `gathering`, loops over constraints in Python.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.matching.bitmaps import build_bitmaps
from holdfast.matching.blocks import build_blocks
from holdfast.matching.gathering import Extra, Gathered, Ranges
from holdfast.matching.kernels import (
    AT_LEAST,
    AT_MOST,
    CODE_MAX,
    IN_RANGE,
    IN_SET,
    NO_SLOT,
    NOT_IN_RANGE,
    PATTERN,
    UNSORTED,
    Image,
    Ints,
)
from holdfast.matching.slots import PRESENT, Slot, SlotKind

_IN_ACCESS_MAX = 64  # a longer IN list would be copied into too many buckets
_DOORS_PER_CODE = 64  # on average, that prefixes may open: prefixes of words lie within each other this deep at most


@dataclass
class FilterEntries:
    """One row per filter and bucket that it is filed in."""

    filter: Ints
    bucket: Ints


def compile_image(gathered: Gathered) -> Image:
    ranges = gathered.ranges()
    extras = gathered.extras
    slots = gathered.slots
    _note_points(ranges, extras, slots)
    access = _choose_access(ranges, extras, slots, gathered)
    entries, keys = _file(ranges, extras, access, gathered)
    used_range = np.zeros(ranges.filter.size, bool)
    used_range[access.range[access.range >= 0]] = True
    left = ranges.where(~used_range)
    unused = [each for i, each in enumerate(extras) if access.extra[each.filter] != i]
    plain = _is_plain(left, unused, gathered)
    buckets = keys["bucket_count"]
    arrays: dict[str, npt.NDArray[Any]] = dict(keys["arrays"])
    arrays |= _sorted_runs(entries, left, plain, buckets, gathered.filter_subscription)
    arrays |= _tested(entries, left, unused, plain, buckets, gathered)
    codes = [slot.codes for slot in gathered.slots]
    arrays |= build_bitmaps(arrays, gathered.repeated, codes)
    arrays |= build_blocks(arrays, gathered.slots)
    arrays["repeated"] = gathered.repeated
    return frozen(arrays)


def _note_points(ranges: Ranges, extras: list[Extra], slots: list[Slot]) -> None:
    """Tell the slots of texts that are only compared for equality: their codes need no order."""
    equal = ranges.points & (ranges.low % 2 == 1)  # an even code lies between two constants
    ordered = set(np.unique(ranges.slot[~equal]).tolist())
    ordered |= {each.slot for each in extras if each.kind == NOT_IN_RANGE and each.codes[0] != each.codes[-1]}
    for at, slot in enumerate(slots):
        slot.points_only = slot.sort is SlotKind.STRING and at not in ordered


@dataclass
class Access:
    """Per filter: the range or the extra test that is its access test, -1 for none."""

    range: npt.NDArray[np.int64]
    extra: npt.NDArray[np.int64]


def _choose_access(ranges: Ranges, extras: list[Extra], slots: list[Slot], gathered: Gathered) -> Access:
    points = ranges.points
    distinct = np.zeros(len(slots) + 1)
    _, first = _number_rows(ranges.slot[points], ranges.low[points])
    distinct[: len(slots)] += np.bincount(ranges.slot[points][first], minlength=len(slots))
    prefixes = ranges.prefix & ~points
    prefixes[_too_wide(ranges, prefixes, slots)] = False
    _, first = _number_rows(ranges.slot[prefixes], ranges.low[prefixes])
    distinct_prefixes = np.bincount(ranges.slot[prefixes][first], minlength=len(slots))
    weight = np.where(points, distinct[ranges.slot], np.where(prefixes, distinct_prefixes[ranges.slot] / 2, 0.0))
    presence = np.array([slot.sort is SlotKind.PRESENCE for slot in slots], bool)
    if presence.any():
        weight[presence[ranges.slot] & (ranges.low == PRESENT)] = 0  # nearly every event has the attribute
    extra_weight = np.zeros(len(extras))
    for i, each in enumerate(extras):
        if each.kind == IN_SET and len(each.codes) <= _IN_ACCESS_MAX:
            extra_weight[i] = max(1.0, distinct[each.slot] / len(each.codes))
        elif each.kind == PATTERN:
            extra_weight[i] = gathered.patterns_on(each.slot) / 2
    count = gathered.filter_count
    owner = np.concatenate([ranges.filter, np.array([each.filter for each in extras], np.int32)]).astype(np.int64)
    weights = np.concatenate([weight, extra_weight])
    best = np.full(count, -1, np.int64)
    order = np.flatnonzero(weights > 0)
    order = order[np.lexsort((weights[order], owner[order]))]
    best[owner[order]] = order  # the last of each filter, and so the heaviest, stays
    is_range = (best >= 0) & (best < ranges.filter.size)
    return Access(
        np.where(is_range, best, -1),
        np.where(best >= ranges.filter.size, best - ranges.filter.size, -1),
    )


def _too_wide(ranges: Ranges, prefixes: npt.NDArray[np.bool_], slots: list[Slot]) -> Ints:
    """Prefixes that are not filed under, widest first, because with them the codes of a slot would open too many doors.

    Prefixes may lie within each other ('a%', 'aa%', 'aaa%' …), and then each opens for all the codes of those within.
    """
    rows = np.flatnonzero(prefixes).astype(np.int32)
    slot, low = ranges.slot[rows], ranges.low[rows]
    width = ranges.high[rows].astype(np.int64) - low + 1
    number, first = _number_rows(slot, width, low)
    doors = np.cumsum(width[first])
    begins = np.searchsorted(slot[first], slot[first])
    doors -= (doors - width[first])[begins]
    codes = np.array([each.codes for each in slots], np.int64)[slot[first]]
    return rows[(doors > _DOORS_PER_CODE * codes)[number]]


def _file(
    ranges: Ranges, extras: list[Extra], access: Access, gathered: Gathered
) -> tuple[FilterEntries, dict[str, Any]]:
    """Number the buckets, and make the maps from codes and patterns to them."""
    by_range = np.flatnonzero(access.range >= 0).astype(np.int32)
    chosen = access.range[by_range]
    filters, slots = [by_range], [ranges.slot[chosen]]
    lows, highs = [ranges.low[chosen]], [ranges.high[chosen]]
    pattern_filters, pattern_ids = [], []
    for filter_ in np.flatnonzero(access.extra >= 0).tolist():
        extra = extras[access.extra[filter_]]
        if extra.kind == PATTERN:
            pattern_filters.append(filter_)
            pattern_ids.append(extra.pattern)
            continue
        codes = np.array(extra.codes, np.int32)
        filters.append(np.full(codes.size, filter_, np.int32))
        slots.append(np.full(codes.size, extra.slot, np.int32))
        lows.append(codes)
        highs.append(codes)
    filed, slot, low, high = map(np.concatenate, (filters, slots, lows, highs))
    bucket, first = _number_rows(slot, low, high)
    arrays = _keys(slot[first], low[first], high[first], gathered.slots)
    pattern_buckets = np.full(len(gathered.pattern_columns), -1, np.int32)
    distinct = np.unique(np.array(pattern_ids, np.int32))
    pattern_buckets[distinct] = 1 + first.size + np.arange(distinct.size, dtype=np.int32)
    arrays["pattern_buckets"] = pattern_buckets
    arrays["pattern_columns"] = np.array(gathered.pattern_columns, np.int32)
    everywhere = np.flatnonzero((access.range < 0) & (access.extra < 0)).astype(np.int32)
    entries = FilterEntries(
        np.concatenate([everywhere, filed, np.array(pattern_filters, np.int32)]),
        np.concatenate(
            [
                np.zeros(everywhere.size, np.int32),
                (bucket + 1).astype(np.int32),
                pattern_buckets[np.array(pattern_ids, np.int32)],
            ]
        ),
    )
    return entries, {"arrays": arrays, "bucket_count": 1 + first.size + distinct.size}


def _keys(slot: Ints, low: Ints, high: Ints, slots: list[Slot]) -> dict[str, npt.NDArray[Any]]:
    """For each access slot, code -> buckets. Bucket i + 1 opens for the codes low[i] to high[i]; slots are in order."""
    access_slots, firsts = np.unique(slot, return_index=True)
    offsets, starts, buckets = [], [], []
    offset = keys = 0
    ends = [*firsts[1:].tolist(), slot.size][: firsts.size]  # without any access slot there is no end either
    for each, begin, end in zip(access_slots.tolist(), firsts.tolist(), ends, strict=True):
        width = high[begin:end] - low[begin:end] + 1
        codes = np.repeat(low[begin:end], width) + _count_up(width)
        owners = np.repeat(np.arange(begin + 1, end + 1, dtype=np.int32), width)
        per_code = np.bincount(codes, minlength=slots[each].codes)
        offsets.append(offset)
        starts.append(keys + np.concatenate([[0], np.cumsum(per_code)]))
        buckets.append(owners[np.argsort(codes, kind="stable")])
        offset += per_code.size + 1
        keys += codes.size
    return {
        "access_slots": access_slots.astype(np.int32),
        "key_offsets": np.array(offsets, np.int64),
        "key_starts": np.concatenate([np.zeros(0, np.int32), *starts]).astype(np.int32),
        "key_buckets": np.concatenate([np.zeros(0, np.int32), *buckets]),
    }


def _is_plain(left: Ranges, unused: list[Extra], gathered: Gathered) -> npt.NDArray[np.bool_]:
    """Which filters fit into a sorted run: at most two equalities and one bound are left to test."""
    count = gathered.filter_count
    points = left.points
    equalities = np.bincount(left.filter[points], minlength=count)
    bounds = np.bincount(left.filter[~points], minlength=count)
    both_ends = ~points & (left.low > 0) & (left.high < CODE_MAX)
    plain: npt.NDArray[np.bool_] = (equalities <= 2) & (bounds <= 1)
    plain[left.filter[both_ends]] = False
    plain[[each.filter for each in unused]] = False
    plain &= gathered.repeated[gathered.filter_subscription] == 0
    return plain


def _sorted_runs(
    entries: FilterEntries, left: Ranges, plain: npt.NDArray[np.bool_], buckets: int, subscription: Ints
) -> dict[str, npt.NDArray[Any]]:
    count = plain.size
    # Per filter: guard slot, code, guard slot, code, order slot, direction, and the bound.
    shape = np.full((count, 7), NO_SLOT, np.int32)
    shape[:, 5] = UNSORTED
    wanted = plain[left.filter]
    points = np.flatnonzero(wanted & left.points)
    owner = left.filter[points]
    second = np.concatenate([np.zeros(min(1, owner.size), bool), owner[1:] == owner[:-1]])
    for rows, column in ((points[~second], 0), (points[second], 2)):
        shape[left.filter[rows], column] = left.slot[rows]
        shape[left.filter[rows], column + 1] = left.low[rows]
    bounded = np.flatnonzero(wanted & ~left.points)
    at_least = left.high[bounded] == CODE_MAX
    shape[left.filter[bounded], 4] = left.slot[bounded]
    shape[left.filter[bounded], 5] = np.where(at_least, AT_LEAST, AT_MOST)
    shape[left.filter[bounded], 6] = np.where(at_least, left.low[bounded], left.high[bounded])

    mine = plain[entries.filter]
    filters, bucket = entries.filter[mine], entries.bucket[mine]
    rows = shape[filters]
    order = np.lexsort((rows[:, 6], rows[:, 5], rows[:, 4], rows[:, 3], rows[:, 2], rows[:, 1], rows[:, 0], bucket))
    rows, bucket, filters = rows[order], bucket[order], filters[order]
    changes = np.concatenate(
        [np.ones(min(1, filters.size), bool), (bucket[1:] != bucket[:-1]) | (rows[1:, :6] != rows[:-1, :6]).any(axis=1)]
    )
    first = np.flatnonzero(changes)
    end = np.append(first[1:], filters.size)
    return {
        "run_starts": _starts(bucket[first], buckets),
        "runs": np.column_stack([rows[first, :6], first, end[: first.size]]).astype(np.int32),
        "bounds": np.ascontiguousarray(rows[:, 6]),
        "subscriptions": subscription[filters],
    }


def _tested(
    entries: FilterEntries,
    left: Ranges,
    unused: list[Extra],
    plain: npt.NDArray[np.bool_],
    buckets: int,
    gathered: Gathered,
) -> dict[str, npt.NDArray[Any]]:
    mine = np.flatnonzero(~plain[entries.filter])
    near = _neighbourhood(left, plain.size, gathered.slots)[entries.filter[mine]]
    mine = mine[np.lexsort((near[:, 1], near[:, 0], entries.bucket[mine]))]
    filters, bucket = entries.filter[mine], entries.bucket[mine]
    sets: list[int] = []
    owners = np.array([each.filter for each in unused], np.int32)
    more = np.array([each.test(sets) for each in unused], np.int32).reshape(-1, 4)[np.argsort(owners, kind="stable")]
    per_filter = np.bincount(left.filter, minlength=plain.size), np.bincount(owners, minlength=plain.size)
    ranges, extras = per_filter[0][filters], per_filter[1][filters]
    starts = np.concatenate([[0], np.cumsum(ranges + extras)])
    tests = np.empty((starts[-1], 4), np.int32)
    rows, chosen = _spread(starts[:-1], ranges), _spread(_begins(per_filter[0])[filters], ranges)
    tests[rows, 0] = IN_RANGE
    for column, values in ((1, left.slot), (2, left.low), (3, left.high)):
        tests[rows, column] = values[chosen]
    tests[_spread(starts[:-1] + ranges, extras)] = more[_spread(_begins(per_filter[1])[filters], extras)]
    return {
        "checked_starts": _starts(bucket, buckets),
        "checked_subscriptions": gathered.filter_subscription[filters],
        "test_starts": starts.astype(np.int32),
        "tests": tests,
        "sets": np.array(sets, np.int32),
    }


def _neighbourhood(left: Ranges, filters: int, slots: list[Slot]) -> npt.NDArray[np.int64]:
    """For each filter its narrowest range: the slot and the middle.

    Filters that lie close together there match the same events, so a bitmap has their bits in the same few words.
    """
    near = np.zeros((filters, 2), np.int64)
    if not left.filter.size:
        return near
    codes = np.array([slot.codes for slot in slots], np.int32)[left.slot]
    high = np.minimum(left.high, codes - 1)
    width = (high - left.low) / codes
    first = np.flatnonzero(np.diff(left.filter, prepend=-1))
    narrowest = np.minimum.reduceat(width, first)
    rows = np.flatnonzero(width == np.repeat(narrowest, np.diff(first, append=width.size)))
    near[left.filter[rows], 0] = left.slot[rows]
    near[left.filter[rows], 1] = (left.low[rows].astype(np.int64) + high[rows]) // 2
    return near


def _starts(owners: npt.NDArray[Any], count: int) -> Ints:
    """For sorted owners, where each one's part begins, and the end."""
    return np.searchsorted(owners, np.arange(count + 1)).astype(np.int32)


def _begins(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Where each part begins, for parts of these sizes end to end."""
    begins: npt.NDArray[Any] = np.cumsum(counts) - counts
    return begins


def _spread(begins: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each part its positions: begins[0], begins[0] + 1, … and so on for each."""
    return np.asarray(np.repeat(begins, lengths) + _count_up(lengths), np.int64)


def _count_up(lengths: npt.NDArray[Any]) -> Ints:
    """0, 1, … lengths[0] - 1, 0, 1, … lengths[1] - 1, …"""
    ends = np.cumsum(lengths)
    ups = np.arange(ends[-1] if ends.size else 0, dtype=np.int32)
    ups -= np.repeat((ends - lengths).astype(np.int32), lengths)
    return ups


def _number_rows(*columns: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number the distinct rows; the number of each row, and one row of each number."""
    order = np.lexsort(columns[::-1])
    changed = np.zeros(order.size, bool)
    changed[:1] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    numbers = np.empty(order.size, np.int64)
    numbers[order] = np.cumsum(changed) - 1
    return numbers, order[changed]


def frozen(arrays: dict[str, npt.NDArray[Any]]) -> Image:
    """An image of read-only, contiguous arrays: mapped and freshly built ones are then the same type to numba."""
    contiguous = {name: np.ascontiguousarray(each) for name, each in arrays.items()}
    for each in contiguous.values():
        each.flags.writeable = False
    return Image(**contiguous)

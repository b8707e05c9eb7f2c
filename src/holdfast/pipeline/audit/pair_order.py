"""What a pair's other events say of each: its place in the source's order and in that of arrival, and who passed it.

Rows of what was wanted and of what arrived come in, all of a pair's or all of one range of its sequence numbers; facts
come out. Plain Arrow and NumPy, the same on both engines: a pair is sorted twice, by number and by arrival, and
everything else is a running sum or minimum along one of the two. A database does this with half a dozen windows, each
of which takes longer.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_LAST = np.iinfo(np.int64).max  # sorts behind every time; what has none is not there
_FIRST = np.iinfo(np.int64).min

_TEXT, _LONG, _FLAG = pa.string(), pa.int64(), pa.bool_()
GROUP = ("run", "subscriber", "source", "seqs")
_OF_EVENT = {"published_us": np.maximum, "wanted_us": np.minimum, "settled_us": np.maximum, "lasting_us": np.maximum}
LAID_TOGETHER = pa.schema(
    [
        *((name, _TEXT) for name in GROUP[:3]),
        *((name, _LONG) for name in ("seqs", "seq", *_OF_EVENT)),
        *((name, _FLAG) for name in ("owed", "expired")),
        *((name, _LONG) for name in ("arrived_us", "held_us", "number")),
        ("via", _TEXT),
    ]
)
PLACED = pa.schema(
    [
        *LAID_TOGETHER,
        *((name, _FLAG) for name in ("first", "again", "overtaken", "behind")),
        *((name, _LONG) for name in ("sent_place", "came_place", "came", "since_us")),
    ]
)


def placed(rows: pa.Table) -> pa.Table:
    """One row per delivery and per owed event that never came, of columns `LAID_TOGETHER`, with those of `PLACED`.

    first, again         not a duplicate; handed over more than once
    overtaken, behind    a later event was handed over before it; reached its subscriber before it
    sent_place           its number among the group's events that came, in the source's order; and
    came_place           in the order of arrival, where duplicates count as nothing
    came                 how many events of the group came
    since_us             how long after the group's first delivery it came
    """
    if not rows.num_rows:
        return PLACED.empty_table()
    return _with_places(rows, _kept(rows.combine_chunks()))


def in_turn(rows: pa.Table) -> pa.Table:
    """The same rows, now by slices of the time of arrival: `came_place` has what came before the slice, and goes on."""
    rows = rows.combine_chunks()
    group = _codes(rows)
    order = np.lexsort((_numbers(rows, "number", _LAST), _numbers(rows, "arrived_us", _LAST), group))
    group = group[order]
    begins, sizes = _runs(group)
    place = _numbers(rows, "came_place", 0).copy()
    place[order] += _running(_flags(rows, "first")[order], begins, sizes)
    return rows.set_column(PLACED.get_field_index("came_place"), "came_place", pa.array(place)).cast(PLACED)


def _kept(rows: pa.Table) -> "_PairFacts":
    """What the wanted rows of an event know goes to its deliveries; of those that never came one row stays."""
    group, seq, came = _codes(rows), _numbers(rows, "seq", 0), pc.is_valid(rows["arrived_us"]).to_numpy()
    # What never came is last: so each event is a run of rows, and its first row is the first delivery, if there is one.
    order = np.lexsort((_numbers(rows, "number", _LAST), _numbers(rows, "arrived_us", _LAST), seq, group))
    group, seq, came = group[order], seq[order], came[order]
    leads = np.concatenate(([True], (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])))
    starts, event = np.flatnonzero(leads), np.cumsum(leads) - 1
    owed, expired = (np.logical_or.reduceat(_flags(rows, name)[order], starts) for name in ("owed", "expired"))
    times = np.add.reduceat(came.astype(np.int64), starts)
    kept = np.flatnonzero(came | owed[event] & leads)
    event, came = event[kept], came[kept]
    columns = {"owed": pa.array(owed[event]), "expired": pa.array(expired[event])}
    for name, best in _OF_EVENT.items():
        nothing = _FIRST if best is np.maximum else _LAST
        known = best.reduceat(_numbers(rows, name, nothing)[order], starts)[event]
        columns[name] = pa.array(known, _LONG, mask=known == nothing)
    first, again = came & leads[kept], came & (times[event] > 1)
    return _PairFacts(order[kept], group[kept], seq[kept], columns, came, first, again)


@dataclass(frozen=True)
class _PairFacts:
    """Rows that are facts, by group, number and arrival, and what is known of their events."""

    which: Numbers
    group: Numbers
    seq: Numbers
    columns: dict[str, pa.Array]
    came: Flags
    first: Flags
    again: Flags


def _with_places(laid_together: pa.Table, kept: _PairFacts) -> pa.Table:
    rows, group = laid_together.take(kept.which), kept.group
    arrived, number, held = (
        _numbers(rows, *each) for each in (("arrived_us", _LAST), ("number", _LAST), ("held_us", 0))
    )
    by_arrival = np.lexsort((number, arrived, group))
    overtaken = _passed(_ranks(by_arrival), kept.came)
    behind = overtaken
    if held.any():
        reached = np.where(kept.came, arrived - held, _LAST)
        ranks = _ranks(np.lexsort((number, reached, group)))
        in_turn = np.lexsort((ranks, kept.seq, group))
        behind = np.empty_like(overtaken)
        behind[in_turn] = _passed(ranks[in_turn], kept.came[in_turn])
    begins, sizes = _runs(group)
    came_place = np.empty_like(group)
    came_place[by_arrival] = _running(kept.first[by_arrival], begins, sizes)
    since = np.where(kept.came, arrived - np.repeat(np.minimum.reduceat(arrived, begins), sizes), 0)
    found = {
        **kept.columns,
        "first": pa.array(kept.first),
        "again": pa.array(kept.again),
        "overtaken": pa.array(overtaken),
        "behind": pa.array(behind),
        "sent_place": pa.array(_running(kept.first, begins, sizes)),
        "came_place": pa.array(came_place),
        "came": pa.array(np.repeat(np.add.reduceat(kept.first.astype(np.int64), begins), sizes)),
        "since_us": pa.array(since, _LONG, mask=~kept.came),
    }
    columns = [found[name] if name in found else rows[name] for name in PLACED.names]
    return pa.table(columns, PLACED.names).cast(PLACED)


def _passed(ranks: Numbers, came: Flags) -> Flags:
    """Of rows by group and number: whether one behind it came earlier.

    Ranks are by group first, so those of later groups are larger; and copies of an event are in their order.
    """
    there = np.where(came, ranks, _LAST)
    earliest = np.minimum.accumulate(there[::-1])[::-1]
    found: Flags = came & (np.append(earliest[1:], _LAST) < there)
    return found


def _ranks(order: Numbers) -> Numbers:
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _runs(group: Numbers) -> tuple[Numbers, Numbers]:
    """Where each group begins, and how long it is, of rows by group."""
    begins = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    return begins, np.diff(np.append(begins, len(group)))


def _running(flags: Flags, begins: Numbers, sizes: Numbers) -> Numbers:
    """How many so far, in each group."""
    sums = np.cumsum(flags)
    before: Numbers = sums[begins] - flags[begins]
    found: Numbers = sums - np.repeat(before, sizes)
    return found


def _codes(rows: pa.Table) -> Numbers:
    """A number for each group."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in GROUP:
        column = pc.dictionary_encode(rows[name].combine_chunks())
        if int(codes.max()) > _LAST // max(1, len(column.dictionary)) - 1:
            codes = np.unique(codes, return_inverse=True)[1]
        codes = codes * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
    return codes


def _numbers(rows: pa.Table, name: str, nothing: int) -> Numbers:
    found: Numbers = pc.fill_null(rows[name], nothing).to_numpy()
    return found


def _flags(rows: pa.Table, name: str) -> Flags:
    found: Flags = pc.fill_null(rows[name], False).to_numpy()
    return found

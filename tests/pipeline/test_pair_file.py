"""Files of pairs as other readers see them: DuckDB, Polars and Arrow, against rows put together one by one."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.matching.pair_runs import PairRuns
from holdfast.pipeline.match import pair_file
from holdfast.pipeline.match.tasks import AnyFound, Found, FoundRuns
from holdfast.pipeline.match.write import write_pairs

EVENTS = 60
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "i8": (pa.int8(), lambda dice: dice.randrange(-128, 128)),
    "i16": (pa.int16(), lambda dice: dice.randrange(-(2**15), 2**15)),
    "i32": (pa.int32(), lambda dice: dice.randrange(-(2**31), 2**31)),
    "i64": (pa.int64(), lambda dice: dice.randrange(-(2**63), 2**63)),
    "f32": (pa.float32(), lambda dice: float(dice.randrange(1_000)) / 8),
    "f64": (pa.float64(), lambda dice: dice.uniform(-1e300, 1e300)),
    "day": (pa.date32(), lambda dice: date(1969, 6, 1) + timedelta(days=dice.randrange(20_000))),
    "at": (pa.timestamp("us"), lambda dice: datetime(1960, 1, 1) + timedelta(microseconds=dice.randrange(2**50))),
    "utc": (
        pa.timestamp("us", "UTC"),
        lambda dice: datetime(1960, 1, 1, tzinfo=UTC) + timedelta(microseconds=dice.randrange(2**50)),
    ),
    "text": (pa.string(), lambda dice: dice.choice(["", "a", "längeres", "x" * 300]) + str(dice.randrange(9))),
    "bytes": (pa.binary(), lambda dice: bytes(dice.randrange(256) for _ in range(dice.randrange(5)))),
}
OTHERS: dict[str, tuple[pa.DataType, Any]] = {
    "list": (pa.list_(pa.int64()), lambda dice: [dice.randrange(9)] * dice.randrange(3)),
    "flag": (pa.bool_(), lambda dice: dice.random() < 0.5),
}


def column(kind: pa.DataType, value: Any, dice: Random, nulls: float) -> pa.Array:
    return pa.array([None if dice.random() < nulls else value(dice) for _ in range(EVENTS)], kind)


def found(dice: Random, types: dict[str, tuple[pa.DataType, Any]], ids: pa.Array, pairs: int) -> AnyFound:
    """Rows mostly in order, as the matcher has them, and sometimes not, as it may."""
    nulls = dice.choice([0, 0.3, 1])
    columns = {name: column(kind, value, dice, nulls) for name, (kind, value) in types.items()}
    if dice.random() < 0.5:
        return FoundRuns(pa.record_batch(columns), slices(dice, len(ids), pairs), ids)
    rows = [dice.randrange(EVENTS) for _ in range(pairs)]
    if dice.random() < 0.7:
        rows.sort()
    codes = pa.array([dice.randrange(len(ids)) for _ in range(pairs)], pa.int32())
    return Found(
        pa.record_batch(columns), pa.array(rows, pa.int32()), pa.DictionaryArray.from_arrays(codes, ids, safe=False)
    )


def slices(dice: Random, ids: int, count: int) -> PairRuns:
    """Of an index whose entries are its subscriptions in the order of their numbers, backwards."""
    rows = sorted(dice.randrange(EVENTS) for _ in range(count))
    firsts = [dice.randrange(ids) for _ in rows]
    ends = [dice.randrange(first, ids) + 1 for first in firsts]
    return PairRuns(*(np.array(each, np.int32) for each in (rows, firsts, ends, range(ids - 1, -1, -1))))


def expected(parts: list[AnyFound], keys: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        carried, events, subscriptions = part.one_by_one()
        if isinstance(part, FoundRuns):
            runs = zip(part.runs.rows.tolist(), part.runs.firsts.tolist(), part.runs.ends.tolist(), strict=True)
            pairs = [(row, len(part.ids) - 1 - entry) for row, first, end in runs for entry in range(first, end)]
            assert [
                (row, code.as_py()) for row, code in zip(events.to_pylist(), subscriptions.indices, strict=True)
            ] == pairs
        lines = [tuple(line.values()) for line in carried.to_pylist()]
        for event, id_ in zip(events.to_pylist(), subscriptions.to_pylist(), strict=True):
            rows.append((*lines[event][:keys], id_, *lines[event][keys:]))
    return rows


def read(path: Path) -> Iterator[list[tuple[Any, ...]]]:
    for rows in (pq.read_table(path).to_pylist(), polars.read_parquet(path).to_dicts()):
        yield [tuple(row.values()) for row in rows]
    session = duckdb.connect()
    session.sql("SET TimeZone = 'UTC'")
    yield session.sql(f"SELECT * FROM '{path}'").fetchall()


@pytest.mark.parametrize("seed", range(12))
def test_every_reader_finds_the_pairs_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """With few rows in a group and on a page, so that there are many of both; and with few ids and many."""
    dice = Random(f"{seed}/pair file")
    monkeypatch.setattr(pair_file, "_ROW_GROUP_ROWS", dice.choice([1, 100, 10_000]))
    monkeypatch.setattr(pair_file, "_PAGE_ROWS", dice.choice([8, 64, 4_096]))
    monkeypatch.setattr(pair_file, "_TWO_BYTES", dice.choice([3, 1 << 16]))
    kind, count = dice.choice([pa.int64(), pa.large_string()]), dice.choice([1, 2, 700])
    indexes = [pa.array(range(at, at + count)).cast(kind) for at in (0, 5)]  # two shards
    names = dice.sample([*TYPES], dice.randrange(1, len(TYPES)))
    types = {name: TYPES[name] for name in names} | (OTHERS if seed % 4 == 3 else {})
    parts = [found(dice, types, indexes[at // 3 % 2], dice.choice([0, 1, 7, 500])) for at in range(7)]
    parts.insert(0, found(dice, types, indexes[0], 9))
    keys = dice.randrange(len(types) + 1)
    path = tmp_path / "pairs.parquet"
    wanted = expected(parts, keys)
    assert write_pairs(path, iter(parts), keys) == len(wanted)
    for rows in read(path):
        assert rows == wanted


def test_the_least_and_greatest_values_of_a_row_group_let_readers_skip_it(tmp_path: Path) -> None:
    ids = pa.array(["a", "b"], pa.large_string())
    carried = pa.record_batch({"row": [7, 3, -2, 9], "text": ["x", None, "y", "z"]})
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int32()), ids)
    assert write_pairs(tmp_path / "f.parquet", [Found(carried, pa.array([0, 1, 1], pa.int32()), codes)], 1, True) == 3
    about = pq.read_metadata(tmp_path / "f.parquet")
    row, subscription, text = (about.row_group(0).column(at).statistics for at in range(3))
    assert (row.min, row.max, row.null_count) == (3, 7, 0), "of the events that are wanted, and of no others"
    assert (subscription.has_min_max, text.has_min_max, text.null_count) == (False, False, 2)
    assert [about.schema.column(at).max_definition_level for at in range(3)] == [0, 0, 1], "only texts may be null"
    judged = duckdb.connect().sql(f"SELECT min(row), max(row), count(text) FROM '{tmp_path}/f.parquet'")
    assert judged.fetchall() == [(3, 7, 1)]

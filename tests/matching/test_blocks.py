"""Blocks of wide ranges answer like the scan and like DuckDB, however few or many filters are in one."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import duckdb
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from holdfast import Matcher
from holdfast.matching import bitmaps, blocks, columns
from holdfast.matching.few import Few
from holdfast.matching.kernels import BLOCK_ROOM
from tests.language.generators import conditions, events
from tests.matching.test_agreement import Event, Pair

ATTRIBUTES = 12


FEW = 200  # filters that a bucket needs for blocks where a test asks DuckDB, which takes its time for each condition


LINES, COLUMNS = 1_000_000, 1  # events of a bucket from which on they are tested side by side
both_ways = pytest.mark.parametrize("abreast", [LINES, COLUMNS])


@contextmanager
def blocks_from(filters: int, abreast: int = LINES) -> Iterator[None]:
    """Buckets of so many filters have blocks."""
    with (
        mock.patch.object(blocks, "FILTERS_MIN", filters),
        mock.patch.object(bitmaps, "FILTERS_MIN", filters),
        mock.patch.object(columns, "COLUMN_EVENTS_MIN", abreast),
        mock.patch.object(columns, "COLUMN_EVENTS", 256),
    ):
        yield


@contextmanager
def small_blocks(abreast: int) -> Iterator[None]:
    """Every bucket with a checked filter has blocks, of eight filters each, with two cells a slot and few lines."""
    with (
        blocks_from(1, abreast),
        mock.patch.object(blocks, "BLOCK", 8),
        mock.patch.object(blocks, "_CELLS", 2),
        mock.patch.object(blocks, "_MATCHES_SHARE", 0.0),
    ):
        yield


def wide(dice: random.Random, share: float = 0.4, constraints: int = 6) -> str:
    parts = []
    for number in sorted(dice.sample(range(ATTRIBUTES), constraints)):
        low = dice.randrange(1_000 - int(share * 1_000))
        parts.append(f"a{number} BETWEEN {low} AND {low + int(share * 1_000)}")
    return " AND ".join(parts)


def odd(dice: random.Random) -> str:
    """Wide ranges beside what a range cannot say, with several filters, of other kinds, with one end."""
    return dice.choice(
        [
            lambda: f"{wide(dice, 0.7, 3)} OR {wide(dice, 0.7, 3)}",
            lambda: f"{wide(dice, 0.7, 3)} AND a0 <> {dice.randrange(1_000)}",
            lambda: f"{wide(dice, 0.7, 2)} AND s NOT LIKE '%{dice.choice('abc')}%'",
            lambda: f"{wide(dice, 0.7, 2)} AND s >= '{dice.choice('abc')}' AND s <= 'bz'",
            lambda: f"{wide(dice, 0.7, 2)} AND NOT a1 IN ({', '.join(str(dice.randrange(1_000)) for _ in range(80))})",
            lambda: f"a0 > {dice.randrange(500)} AND a1 < {dice.randrange(500, 1_000)} AND a2 >= {dice.random()}",
            lambda: f"{wide(dice, 0.7, 2)} AND a{dice.choice([1, 4, 7])} IS NOT NULL",
        ]
    )()


def table_of(dice: random.Random, rows: int) -> pa.Table:
    """Some values are missing, some are NaN, some columns are doubles."""

    def number(column: int) -> int | float | None:
        if dice.random() < 0.1:
            return None
        if column % 3 == 0:
            return float("nan") if dice.random() < 0.05 else dice.random() * 1_000
        return dice.randrange(1_000)

    found = {f"a{at}": [number(at) for _ in range(rows)] for at in range(ATTRIBUTES)}
    words = [dice.choice(["", "a", "ab", "bc", "c", None]) for _ in range(rows)]
    return pa.table(found | {"s": pa.array(words, pa.string())})


def pairs(matcher: Matcher, table: pa.Table) -> list[tuple[int, int]]:
    found = matcher.match_batch(table)
    return sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))


def by_duckdb(texts: list[str], table: pa.Table) -> list[tuple[int, int]]:
    numbered = table.append_column("event", pa.array(range(table.num_rows)))
    for at, name in enumerate(
        numbered.column_names
    ):  # DuckDB orders NaN above all numbers; to us it compares as unknown
        if pa.types.is_floating(numbered.schema.field(name).type):
            values = numbered[name].to_numpy()
            numbered = numbered.set_column(at, name, pa.array(values, mask=np.isnan(values)))
    connection = duckdb.connect(config={"threads": 1})
    connection.register("events", numbered)
    found: list[tuple[int, int]] = []
    for first in range(0, len(texts), 250):
        tests = ", ".join(f"({text}) AS t{number}" for number, text in enumerate(texts[first : first + 250]))
        held = connection.sql(f"SELECT {tests} FROM events ORDER BY event").to_arrow_table()
        for number, column in enumerate(held.columns):
            found += [(row, first + number) for row, holds in enumerate(column.to_pylist()) if holds]
    return sorted(found)


@both_ways
@settings(max_examples=80)
@given(st.lists(conditions(), min_size=1, max_size=60), st.lists(events(), min_size=1, max_size=12))
def test_small_blocks_answer_like_the_scan(abreast: int, texts: list[str], asked: list[Event]) -> None:
    pair = Pair()
    for text in texts:
        pair.add(text)
    with small_blocks(abreast):
        pair.agree_batch(asked)


@both_ways
@pytest.mark.parametrize(
    ("seed", "number"), [(0, 2 * FEW), *(pytest.param(seed, 1_500, marks=pytest.mark.slow) for seed in range(1, 4))]
)
def test_many_wide_ranges_answer_like_duckdb(seed: int, number: int, abreast: int) -> None:
    dice = random.Random(seed)
    texts = [wide(dice) if dice.random() < 0.8 else odd(dice) for _ in range(number)]
    table = table_of(dice, 300)
    matcher = Matcher()
    for at, text in enumerate(texts):
        matcher.add(at, text)
    with blocks_from(FEW, abreast):
        assert pairs(matcher, table) == by_duckdb(texts, table)


@pytest.mark.parametrize(("abreast", "rows"), [(LINES, 200), (COLUMNS, 2_000)])
def test_a_bucket_behind_an_equality_has_blocks_of_its_own(abreast: int, rows: int) -> None:
    """With many events, more of a bucket than stand side by side."""
    dice = random.Random(5)
    texts = [f"s = '{dice.choice(['a', 'ab'])}' AND {wide(dice, 0.6)}" for _ in range(3 * FEW)]
    table = table_of(dice, rows)
    matcher = Matcher()
    for number, text in enumerate(texts):
        matcher.add(number, text)
    with blocks_from(FEW, abreast):
        found = pairs(matcher, table)
    assert found == by_duckdb(texts, table)
    (level,) = matcher._index.levels
    assert len(level.columns.image.wides) == 2


@pytest.mark.parametrize("odd_share", [0.0, 0.2])
def test_runs_are_answered_like_tables(odd_share: float) -> None:
    """Up to 63 events meet lines, more stand side by side; blocks with tests that are no ranges always have lines."""
    dice = random.Random(10)
    texts = [odd(dice) if dice.random() < odd_share else wide(dice) for _ in range(3 * FEW)]
    table = table_of(dice, 120)
    matcher = Matcher()
    for number, text in enumerate(texts):
        matcher.add(number, text)
    with blocks_from(FEW):
        expected = pairs(matcher, table)
    (level,) = matcher._index.levels
    assert len(level.columns.image.wides) == 1
    events = [{name: value for name, value in event.items() if value is not None} for event in table.to_pylist()]
    few = Few(level.columns)
    for size in (20, 63, 64, 120):
        found = {
            (first + row, number)
            for first in range(0, 120, size)
            for row, number in zip(*map(np.ndarray.tolist, few.match(events[first : first + size])), strict=True)
        }
        assert sorted(found) == expected


@both_ways
def test_more_pairs_than_a_buffer_holds_are_all_found(abreast: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_PAIRS", 1)
    dice = random.Random(6)
    texts = [wide(dice, 0.95, 3) for _ in range(2 * FEW)]
    table = table_of(dice, 60)
    matcher = Matcher()
    for number, text in enumerate(texts):
        matcher.add(number, text)
    with blocks_from(FEW, abreast):
        found = pairs(matcher, table)
    assert len(found) > 4 * len(texts)  # a buffer has room for four times as many as the bucket has filters
    assert len(found) > BLOCK_ROOM
    assert found == by_duckdb(texts, table)


def test_other_kinds_of_ranges_fill_blocks_too() -> None:
    dice = random.Random(7)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    pair = Pair()
    for _ in range(1_300):
        day, word = dice.randrange(1, 20), dice.choice("abcde")
        since = f"since > TIMESTAMP '2026-01-{day:02} 00:00:00Z' AND since < TIMESTAMP '2026-01-{day + 8:02} 00:00:00Z'"
        pair.add(f"{since} AND name BETWEEN '{word}' AND '{word}zz' AND x BETWEEN {dice.random()} AND 2")
    asked: list[Event] = [
        {"since": start.replace(day=dice.randrange(1, 28)), "name": dice.choice("abcde") + "q", "x": dice.random()}
        for _ in range(60)
    ]
    pair.agree_batch(asked)


def test_blocks_are_saved_and_opened(tmp_path: Path) -> None:
    dice = random.Random(8)
    matcher = Matcher()
    for number in range(1_500):
        matcher.add(number, wide(dice))
    table = table_of(dice, 100)
    matcher.save(tmp_path / "m")
    assert pairs(Matcher.open(tmp_path / "m"), table) == pairs(matcher, table)


_EDGES: list[int | float] = [
    *(2**53 + step for step in range(-2, 4)),
    *(-(2**53) - step for step in range(3)),
    *(2**63 - 1, 2**63, -(2**63), 0.1, 0.30000000000000004, 0.3, -0.5, 1e308, -1e308, 0, 7, 8, 9),
]


@both_ways
@pytest.mark.parametrize("cells", [251, 3])
def test_edges_of_blocks_are_exact(cells: int, abreast: int) -> None:
    """Points, empty ranges, ranges with one end, integers beyond doubles, infinities, missing values."""
    dice = random.Random(9)

    def bounds(name: str) -> str:
        low, high = dice.choice(_EDGES), dice.choice(_EDGES)
        return dice.choice(
            [
                f"{name} BETWEEN {low} AND {high}",
                f"{name} BETWEEN {low} AND {low}",
                f"{name} > {min(low, high)} AND {name} < {max(low, high)}",
                f"{name} >= {low}",
                f"{name} < {high}",
            ]
        )

    pair = Pair()
    for _ in range(700):
        pair.add(" AND ".join(bounds(name) for name in dice.sample("abcd", 2)))
    values = [*_EDGES, None, float("inf"), float("-inf"), float("nan")]
    asked: list[Event] = [
        {name: value for name in "abcd" if (value := dice.choice(values)) is not None} for _ in range(150)
    ]
    with blocks_from(1, abreast), mock.patch.object(blocks, "_CELLS", cells):
        pair.agree_batch(asked)

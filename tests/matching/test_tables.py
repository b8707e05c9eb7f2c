"""Every kind of Arrow column means in a batch what the same value means in a single event."""

import decimal
import math
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from holdfast import HoldfastError, Matcher
from holdfast.matching.matcher import match_grouped
from holdfast.matching.scan import Scan
from holdfast.model.errors import InputError, MisuseError


def batch_pairs(conditions: list[str], table: pa.Table) -> set[tuple[int, int]]:
    matcher = Matcher()
    for number, condition in enumerate(conditions):
        matcher.add(number, condition)
    pairs = list(
        zip(*(matcher.match_batch(table)[name].to_pylist() for name in ("event", "subscription")), strict=True)
    )
    assert len(pairs) == len(set(pairs)), "a pair appears twice"
    assert sorted(grouped_pairs(matcher, table)) == sorted(pairs)
    return set(pairs)


def grouped_pairs(matcher: Matcher, table: pa.Table) -> list[tuple[int, int]]:
    grouped = match_grouped(matcher, table)
    ids = grouped.ids.to_pylist()
    found = [(line["event"], line["subscription"]) for line in grouped.pairs.to_pylist()]
    for runs in grouped.runs:
        assert (runs.lengths > 0).all()
        assert (np.diff(runs.rows) >= 0).all()
        found += [(row, ids[number]) for row, number in zip(*(each.tolist() for each in runs.pairs()), strict=True)]
    return found


def scan_pairs(conditions: list[str], events: list[dict[str, object]]) -> set[tuple[int, int]]:
    scan = Scan()
    for number, condition in enumerate(conditions):
        scan.add(number, condition)
    return {(row, found) for row, event in enumerate(events) for found in scan.match(event)}


COMPARISONS = [
    "x = 5",
    "x <> 5",
    "x < 5",
    "x <= 5",
    "x > 5",
    "x >= 5",
    "x = 2.5",
    "x > 2.5",
    "x < 2.5",
    "x IN (5, 2.5, 7)",
]
COMPARISONS += ["x NOT IN (5, 7)", "x IS NULL", "x IS NOT NULL", "x BETWEEN 2 AND 5", "x = -1", "x > -1", "x <> -1"]
COMPARISONS += ["x = 'five'", "NOT (x = 5 OR x IS NULL)", "x = TRUE", "TRUE", "FALSE"]


@pytest.mark.parametrize(
    "kind",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float", "double"],
)
def test_all_number_types_compare_alike(kind: str) -> None:
    values = [0, 1, 2, 3, 5, 7, None, 100]
    table = pa.table({"x": pa.array(values, kind)})
    assert batch_pairs(COMPARISONS, table) == scan_pairs(COMPARISONS, [{"x": value} for value in values])


def test_integers_compare_exactly_beyond_doubles() -> None:
    big = 2**53
    conditions = [f"x {op} {value}" for op in ("=", "<", "<=", ">", ">=", "<>") for value in (big, big + 1, big + 2)]
    conditions += [f"x {op} 9007199254740993.0" for op in ("=", "<", ">")]
    values = [big - 1, big, big + 1, big + 2, big + 3]
    expected = scan_pairs(conditions, [{"x": value} for value in values])
    for kind in ("int64", "uint64"):
        assert batch_pairs(conditions, pa.table({"x": pa.array(values, kind)})) == expected


def test_the_ends_of_the_integer_ranges_meet_constants_beyond_them() -> None:
    constants = [-(2**63), -(2**63) + 1, 0, 2**63 - 1, 2**63, 2**64 - 1, "1e30", "-1e30", "0.5", "-0.5"]
    conditions = [f"x {op} {value}" for op in ("=", "<", "<=", ">", ">=", "<>") for value in constants]
    for kind, values in (
        ("int64", [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]),
        ("uint64", [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
        ("double", [-1e300, -(2.0**63), -0.0, 0.25, 2.0**63, 2.0**64, 1e300]),
    ):
        table = pa.table({"x": pa.array(values, kind)})
        assert batch_pairs(conditions, table) == scan_pairs(conditions, [{"x": value} for value in values]), kind


def test_nan_infinities_and_negative_zero() -> None:
    values = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5]
    conditions = [f"x {op} {value}" for op in ("=", "<", "<=", ">", ">=", "<>") for value in (0, 1.5)]
    conditions += ["x IS NULL", "x IS NOT NULL", "x IN (0, 1.5)", "x NOT IN (0, 1.5)"]
    expected = scan_pairs(conditions, [{"x": value} for value in values])
    assert batch_pairs(conditions, pa.table({"x": pa.array(values)})) == expected


TEXTS = ["", "a", "ab", "abc", "b", "Ünïcode", "日本", "日本語", "🙂", "a🙂b", "\uffff", "%", "a_b", None]
TEXT_CONDITIONS = ["x = ''", "x = 'ab'", "x > 'a'", "x <= 'ab'", "x LIKE 'a%'", "x LIKE '%b'", "x LIKE '%本%'"]
TEXT_CONDITIONS += [
    "x LIKE '_'",
    "x LIKE '__'",
    "x LIKE 'a_b'",
    "x LIKE 'a!_b' ESCAPE '!'",
    "x LIKE '%'",
    "x LIKE '日%'",
]
TEXT_CONDITIONS += ["x NOT LIKE 'a%'", "x NOT LIKE '%b'", "x <> 'ab'", "x IN ('', '🙂')", "x NOT IN ('', '🙂')"]
TEXT_CONDITIONS += ["x IS NULL", "x < 5", "x = 5 OR x = 'ab'", "x LIKE '%a%' OR x LIKE '%b%'", "x < ''", "x >= '🙂'"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_all_string_types_compare_alike(kind: pa.DataType) -> None:
    table = pa.table({"x": pa.array(TEXTS, pa.string()).cast(kind)})
    assert batch_pairs(TEXT_CONDITIONS, table) == scan_pairs(TEXT_CONDITIONS, [{"x": text} for text in TEXTS])


def test_a_dictionary_may_hold_a_null_or_numbers() -> None:
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), pa.array(["a", None, "b"]))
    conditions = ["x = 'a'", "x IS NULL", "x <> 'a'"]
    events = [{"x": value} for value in ("a", None, None, "b")]
    assert batch_pairs(conditions, pa.table({"x": with_null})) == scan_pairs(conditions, events)
    no_index_is_null = with_null.take(pa.array([0, 1, 3]))
    assert batch_pairs(conditions, pa.table({"x": no_index_is_null})) == {(0, 0), (1, 1), (2, 2)}
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array([5, 7]))
    assert batch_pairs(["x = 5"], pa.table({"x": numbers})) == {(0, 0), (2, 0)}


def test_timestamps_of_every_unit_and_zone_and_dates() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    conditions = [f"x {op} TIMESTAMP '2026-01-31 12:00:00'" for op in ("=", "<", "<=", ">", ">=", "<>")]
    conditions += ["x = '2026-01-31'", "x > 5", "x IS NULL"]
    values = [noon, datetime(1969, 12, 31, tzinfo=UTC), None, datetime(2030, 1, 1, tzinfo=UTC)]
    expected = scan_pairs(conditions, [{"x": value} for value in values])
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Asia/Tokyo"):
            column = pa.array(values, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
            assert batch_pairs(conditions, pa.table({"x": column})) == expected, (unit, zone)
    days = [date(2026, 1, 31), date(2026, 2, 1), None]
    expected = scan_pairs(conditions, [{"x": day} for day in days])
    assert batch_pairs(conditions, pa.table({"x": pa.array(days)})) == expected


def test_nanoseconds_round_down_also_before_1970() -> None:
    column = pa.array([1, 1_000, -1, -1_000], pa.timestamp("ns"))
    assert batch_pairs(["x = TIMESTAMP '1970-01-01'"], pa.table({"x": column})) == {(0, 0)}
    assert batch_pairs(["x < TIMESTAMP '1970-01-01'"], pa.table({"x": column})) == {(2, 0), (3, 0)}


def test_a_timestamp_out_of_range_is_refused_by_name() -> None:
    column = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(InputError, match="column x: a timestamp is out of range"):
        batch_pairs(["x > TIMESTAMP '1970-01-01'"], pa.table({"x": column}))


def test_booleans() -> None:
    conditions = [
        "x",
        "NOT x",
        "x = TRUE",
        "x <> TRUE",
        "x IS NULL",
        "x = 1",
        "x IN (TRUE, FALSE)",
        "x NOT IN (TRUE, FALSE)",
    ]
    values = [True, False, None]
    expected = scan_pairs(conditions, [{"x": value} for value in values])
    assert batch_pairs(conditions, pa.table({"x": pa.array(values)})) == expected


def test_missing_columns_null_columns_and_empty_batches() -> None:
    conditions = ["x IS NULL", "x = 1", "x IS NOT NULL", "y = 2", "TRUE", "x IS NULL AND y = 2"]
    table = pa.table({"y": [2, 3]})
    assert batch_pairs(conditions, table) == scan_pairs(conditions, [{"y": 2}, {"y": 3}])
    table = pa.table({"x": pa.nulls(2), "y": [2, 3]})
    assert batch_pairs(conditions, table) == scan_pairs(conditions, [{"y": 2}, {"y": 3}])
    assert batch_pairs(conditions, table.slice(0, 0)) == set()
    assert batch_pairs(conditions, pa.table({})) == set()
    assert batch_pairs([], table) == set()


def test_struct_columns_flatten_to_dotted_names() -> None:
    table = pa.table({"home": [{"team": "Yankees", "at": {"city": "NY"}}, None]})
    assert batch_pairs(["home.team LIKE 'Yan%'", "home.at.city = 'NY'", "home.team IS NULL"], table) == {
        (0, 0),
        (0, 1),
        (1, 2),
    }


def test_an_unsupported_column_is_refused_by_name_only_when_a_condition_needs_it() -> None:
    table = pa.table({"x": [1], "money": [decimal.Decimal("1.50")], "tags": [[{"a": 1}]]})
    assert batch_pairs(["x = 1"], table) == {(0, 0)}
    with pytest.raises(InputError, match=r"column money: .*decimal128.*cast it to double"):
        batch_pairs(["money > 1"], table)
    with pytest.raises(InputError, match="column tags"):
        batch_pairs(["tags IS NULL"], table)


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(InputError, match="given twice: x"):
        batch_pairs(["x = 1"], table)


def test_what_is_not_a_table_is_refused_with_a_hint() -> None:
    with pytest.raises(MisuseError, match="use match for one event"):
        Matcher().match_batch({"x": 1})  # type: ignore[arg-type]
    with pytest.raises(HoldfastError, match="threads"):
        Matcher().match_batch(pa.table({"x": [1]}), threads=0)


def test_record_batches_and_chunked_tables_count_rows_through() -> None:
    part = pa.record_batch({"x": [1, 2]})
    matcher = Matcher()
    matcher.add("two", "x = 2")
    assert matcher.match_batch(part)["event"].to_pylist() == [1]
    chunked = pa.Table.from_batches([part, part.slice(0, 0), part])
    assert matcher.match_batch(chunked)["event"].to_pylist() == [1, 3]


def test_more_rows_than_are_encoded_at_a_time_and_more_pairs_than_a_buffer_holds() -> None:
    rows = 150_000
    conditions = ["TRUE"] * 12 + ["x >= 0 OR x < 5"] * 3 + [f"x = {rows - 1}"]
    matcher = Matcher()
    for number, condition in enumerate(conditions):
        matcher.add(number, condition)
    for threads in (1, 3):
        pairs = matcher.match_batch(pa.table({"x": range(rows)}), threads=threads)
        assert pairs.num_rows == 15 * rows + 1
        assert pa.compute.sum(pairs["event"]).as_py() == 15 * rows * (rows - 1) // 2 + rows - 1


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
def test_a_dictionary_may_be_indexed_by_unsigned_integers_with_nulls(kind: pa.DataType) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], kind), pa.array(["a", "b"]))
    assert batch_pairs(["x = 'a'", "x IS NULL"], pa.table({"x": column})) == {(0, 0), (1, 1)}


def test_chunks_may_have_dictionaries_of_their_own_with_a_null_in_them() -> None:
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["b", "a"])),
    ]
    table = pa.table({"x": pa.chunked_array(chunks)})
    assert batch_pairs(["x = 'a'", "x IS NULL"], table) == {(0, 0), (1, 1), (2, 1), (4, 0)}


def test_a_table_without_columns_still_has_its_rows_and_no_more() -> None:
    table = pa.table({"x": [1, 2, 3]}).select([])
    assert batch_pairs(["TRUE", "x IS NULL", "x = 1"], table) == {(row, n) for row in range(3) for n in range(2)}


def test_rows_are_taken_in_smaller_steps_where_conditions_name_many_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.matching.columns._CODES_MAX", 10)
    table = pa.table({"a0": range(20), "a3": range(20)})
    conditions = [f"a{n} = {n}" for n in range(4)]
    assert batch_pairs(conditions, table) == {(0, 0), (3, 3)}


def test_pairs_that_stand_together_are_grouped_and_after_changes_they_are_still_the_same() -> None:
    matcher = Matcher()
    for number in range(500):
        matcher.add(number, f"x >= {number}" + (" OR y = 1" if number % 50 == 0 else ""))
    table = pa.table({"x": [250, None, -1, 499], "y": [1, 1, None, 2]})
    expected = [(row, number) for row, event in enumerate(table.to_pylist()) for number in matcher.match(event)]
    assert sum(int(runs.lengths.sum()) for runs in match_grouped(matcher, table).runs) > 700
    assert sorted(grouped_pairs(matcher, table)) == sorted(expected)
    matcher.remove(7)
    matcher.add(1_000, "x > 300")
    wanted = {(row, number) for row, number in expected if number != 7} | {(3, 1_000)}
    assert set(grouped_pairs(matcher, table)) == wanted


def test_an_answer_of_few_pairs_is_small() -> None:
    matcher = Matcher()
    matcher.add(1, "x = 7")
    matcher.add(2, "x = 70000 AND y IS NULL OR x = 8")
    before = pa.total_allocated_bytes()
    found = matcher.match_batch(pa.table({"x": range(200_000)}), threads=2)
    assert found.num_rows == 3
    assert pa.total_allocated_bytes() - before < 2**20

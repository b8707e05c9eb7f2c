"""Conditions that no person would write: prefixes within prefixes, thousands of attributes."""

import ast
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from holdfast import Matcher, parse
from holdfast.matching import block_columns, clustering, filling, kernels, placing, vectors
from holdfast.matching.columns import Columns
from holdfast.matching.layout import _DOORS_PER_CODE
from holdfast.matching.scan import Scan


def pairs(matcher: Matcher, events: list[dict[str, object]]) -> set[tuple[int, str]]:
    found = matcher.match_batch(pa.Table.from_pylist(events))
    return set(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))


def test_prefixes_within_each_other_match_as_any_others() -> None:
    conditions = [
        *[f"a LIKE '{'x' * size}%'" for size in range(1, 400)],
        *[f"a LIKE '{'x' * size}%' AND n > {size % 5}" for size in range(1, 400, 3)],
        *[f"a = '{'x' * size}y'" for size in range(0, 400, 7)],
        "a LIKE 'b%'",
        "a NOT LIKE 'xx%'",
    ]
    events: list[dict[str, object]] = [
        {"a": "x" * size + end, "n": n}
        for size in (0, 1, 2, 7, 199, 200, 399, 400)
        for end in ("", "y", "z")
        for n in (0, 3)
    ]
    events += [{"a": "bb", "n": 1}, {"a": None, "n": 1}]
    matcher, scan = Matcher(), Scan()
    for condition in conditions:
        matcher.add(condition, condition)
        scan.add(condition, condition)
    expected = {(row, id_) for row, event in enumerate(events) for id_ in scan.match(event)}
    assert pairs(matcher, events) == expected
    assert {(row, id_) for row, event in enumerate(events) for id_ in matcher.match(event)} == expected


def test_the_index_of_prefixes_within_each_other_grows_no_faster_than_their_number() -> None:
    def doors_per_code(prefixes: int) -> float:
        filters = [parse(f"a LIKE '{'x' * (number + 1)}%'").filters for number in range(prefixes)]
        columns = Columns.of(filters)
        return columns.image.key_buckets.size / columns.slots[0].codes

    assert doors_per_code(50) > 10  # few are all filed
    assert doors_per_code(1_000) <= _DOORS_PER_CODE


def test_a_condition_on_one_of_thousands_of_attributes_is_found() -> None:
    matcher = Matcher()
    for number in range(3_000):
        matcher.add(str(number), f"a{number} = {number} AND b{number} LIKE 'z%'")
    seven, last = {"a7": 7, "b7": "zz"}, {"a2999": 2999, "b2999": "z"}
    events: list[dict[str, object]] = [{**seven, "a2999": None, "b2999": None}, {**seven, "a7": 8}, last]
    assert pairs(matcher, events) == {(0, "7"), (2, "2999")}


@pytest.mark.parametrize("module", [kernels, vectors, clustering, filling, placing, block_columns])
def test_what_kernels_are_compiled_from_stands_in_their_own_file(module: ModuleType) -> None:
    """Numba keeps compiled code until the file of the function changes; it does not look at what that imports."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert imported
    with_checksum = {"holdfast.matching.vectors", "holdfast.matching.block_columns"}  # see test_vectors
    assert not [name for name in imported if name and name.startswith("holdfast") and name not in with_checksum]

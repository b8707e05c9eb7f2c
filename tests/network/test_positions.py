"""The line of a key in a TOML text. The judge is the text: each key is written so that its line can be looked up."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.network.positions import lines_of
from holdfast.network.problems import KeyPath
from holdfast.network.writing import to_toml

TEXT = '''\
# a comment with = and [brackets]
top = 1
dotted.key.below = 2
"quoted = key" = 3
'literal' = """
several = lines
[not a table]
""""
after = 4

[table]   # a header
list = [
    1,  # one
    [2, 3],
    { inner = 5, other = "a # b" },
]
text = 'C:\\path'
empty = []
[table.sub."x.y"]
z = 1979-05-27 07:32:00

[[entry]]
name = "first"
[[entry.part]]
n = 1
[[entry.part]]
n = 2
[[entry]]
name = "second"
[entry.detail]
deep = true
[[entry.part]]
n = 3
'''

EXPECTED: dict[KeyPath, int] = {
    ("top",): 2,
    ("dotted", "key", "below"): 3,
    ("dotted",): 3,
    ("quoted = key",): 4,
    ("literal",): 5,
    ("after",): 9,
    ("table",): 11,
    ("table", "list"): 12,
    ("table", "list", 0): 13,
    ("table", "list", 1): 14,
    ("table", "list", 1, 1): 14,
    ("table", "list", 2): 15,
    ("table", "list", 2, "inner"): 15,
    ("table", "list", 2, "other"): 15,
    ("table", "text"): 17,
    ("table", "empty"): 18,
    ("table", "sub", "x.y"): 19,
    ("table", "sub", "x.y", "z"): 20,
    ("entry", 0): 22,
    ("entry", 0, "name"): 23,
    ("entry", 0, "part", 0, "n"): 25,
    ("entry", 0, "part", 1): 26,
    ("entry", 0, "part", 1, "n"): 27,
    ("entry", 1): 28,
    ("entry", 1, "name"): 29,
    ("entry", 1, "detail", "deep"): 31,
    ("entry", 1, "part", 0, "n"): 33,
}


@pytest.mark.parametrize(("path", "line"), EXPECTED.items(), ids=str)
def test_a_key_is_found_on_its_line(path: KeyPath, line: int) -> None:
    tomllib.loads(TEXT)  # the example is TOML
    assert lines_of(TEXT)[path] == line


keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(codec="utf-8"))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


def paths(data: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    if isinstance(data, dict):
        for key, each in data.items():
            yield from paths(each, (*path, key))
    elif isinstance(data, list):
        for number, each in enumerate(data):
            yield from paths(each, (*path, number))


@given(st.dictionaries(keys, values, max_size=5))
def test_every_key_of_any_text_has_a_line_and_no_other_has(data: dict[str, Any]) -> None:
    text = to_toml(data)
    assert set(lines_of(text)) - {()} == set(paths(tomllib.loads(text))) - {()}


@given(st.dictionaries(keys, values, max_size=5))
def test_what_is_written_reads_back_as_it_was(data: dict[str, Any]) -> None:
    def shown(found: object) -> str:  # by its text, because nan differs from itself
        return json.dumps(found, sort_keys=True)

    assert shown(tomllib.loads(to_toml(data))) == shown(data)

"""Small buckets of ranges, tested on all events of a table that opened them, and texts found by their hashes."""

import numpy as np
import pyarrow as pa
import pytest

from holdfast import Matcher
from holdfast.matching import columns


@pytest.mark.parametrize("rows", [1, 3, 9, 10_000])
def test_filters_of_ranges_are_tested_on_many_events_at_once(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two buckets, one of them with more events than stand side by side, and filters on more slots than columns."""
    monkeypatch.setattr(columns, "_PAIRS", 1_000)  # answers come in several buffers
    dice = np.random.default_rng(rows)
    names = [f"a{at}" for at in range(11)]
    kinds = np.where(dice.random(rows) < 0.9, "much", "rare")
    values = {name: dice.integers(0, 100, rows) for name in names}
    missing = dice.random(rows) < 0.1
    table = pa.table({"kind": kinds, **values, "b": pa.array(np.where(missing, 0, 7), mask=missing)})
    matcher, expected = Matcher(), set[tuple[int, int]]()
    for number in range(30):
        kind, most = ("much", "rare")[number % 5 == 0], 30 + number % 11
        one, two = names[number % 11], names[(3 * number + 1) % 11]
        matcher.add(number, f"kind = '{kind}' AND {one} < {most} AND {two} BETWEEN 20 AND {most + 30} AND b > 5")
        inside = (values[one] < most) & (values[two] >= 20) & (values[two] <= most + 30) & (kinds == kind) & ~missing
        expected |= {(row, number) for row in np.flatnonzero(inside).tolist()}
    for threads in (1, 2):
        found = matcher.match_batch(table, threads=threads)
        pairs = list(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
        assert len(pairs) == len(expected)
        assert set(pairs) == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_are_found_whatever_their_length_and_place(kind: pa.DataType) -> None:
    texts = ["", "a", "a\0", "a\0\0", "é", "straße 12", "12345678", "123456789", "x" * 40, "x" * 41, "1234567", "ß" * 9]
    matcher = Matcher()
    for number, text in enumerate(texts[::2]):
        matcher.add(number, f"t = '{text}'")
    asked = [None, "before", *texts, None, *texts[::-1], "behind"]
    column = pa.array(asked, kind)[1:-1]  # neither begins nor ends where its memory does
    found = matcher.match_batch(pa.table({"t": column}))
    wanted = {(row, texts.index(text) // 2) for row, text in enumerate(asked[1:-1]) if text in texts[::2]}
    assert set(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)) == wanted
    assert found.num_rows == len(wanted) == 12

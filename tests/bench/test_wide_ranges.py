"""Every matcher of wide ranges finds the pairs that a loop over boxes finds."""

import pytest

from bench.wide_peers import PEERS, Boxes, Shape, Timed, rows_of
from bench.wide_ranges import columns_of, filters_of, measured, shapes
from holdfast.matching.columns import Columns

SHAPES = [Shape(1_500, 8, 4, 0.5), Shape(1_200, 6, 6, 0.8), Shape(40, 5, 2, 0.1)]


def by_hand(boxes: Boxes, events: list[list[int]]) -> int:
    conditions = list(zip(boxes.slots.tolist(), boxes.lows.tolist(), boxes.highs.tolist(), strict=True))
    return sum(
        all(low <= event[slot] <= high for slot, low, high in zip(*condition, strict=True))
        for event in events
        for condition in conditions
    )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: each.title)
@pytest.mark.parametrize("peer", PEERS, ids=lambda each: each.name)
def test_a_peer_finds_the_pairs_of_a_loop(peer: type[Timed], shape: Shape) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    boxes = Boxes(shape)
    events = boxes.events(12)
    assert peer(boxes, events).run() == by_hand(boxes, rows_of(events).tolist())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda each: each.title)
def test_holdfast_finds_them_from_filters_and_from_arrays(shape: Shape) -> None:
    boxes = Boxes(shape)
    events = boxes.events(12)
    expected = by_hand(boxes, rows_of(events).tolist())
    for columns in (columns_of(boxes), Columns.of(filters_of(boxes))):
        assert sum(rows.size for rows, _ in columns.match(events)) == expected
    assert measured(boxes, 12, 1, objects=True)[0]["pairs_per_event"] * 12 == expected


def test_shapes_are_possible() -> None:
    assert all(each.constraints <= each.attributes for each in shapes(10))

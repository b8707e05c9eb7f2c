"""Every contestant, in every shape, finds the pairs that the NumPy scan finds."""

from collections.abc import Callable

import pytest

from bench.columnar import pairs, prepared
from bench.contestants import Contestant, HoldfastBatch, ScanEach
from bench.rounds import Disagreement, Entry, compare, settle
from bench.workloads import Workload, equality, ranges, strings

every_workload = pytest.mark.parametrize("make", [equality, ranges, strings])
Make = Callable[[int, int], Workload]


def count(contestant: Contestant, work: Workload) -> int:
    contestant.prepare(work)
    return contestant.run().pairs


@every_workload
@pytest.mark.parametrize("shape", ["join", "filters"])
def test_duckdb_agrees(make: Make, shape: str) -> None:
    pytest.importorskip("duckdb")
    from bench.duckdb_peer import DuckDB

    work = make(1_000, 200)
    assert count(DuckDB(shape, 1), work) == len(pairs(work.table, prepared(work))[0])


@every_workload
@pytest.mark.parametrize("shape", ["join", "masks", "filters"])
def test_polars_agrees(make: Make, shape: str) -> None:
    pytest.importorskip("polars")
    from bench.polars_peer import Polars

    work = make(1_000, 200)
    assert count(Polars(shape), work) == len(pairs(work.table, prepared(work))[0])


@every_workload
def test_holdfast_and_the_scan_agree(make: Make) -> None:
    work = make(200, 200)
    expected = len(pairs(work.table, prepared(work))[0])
    counts = [count(each, work) for each in (HoldfastBatch(1), HoldfastBatch(2), ScanEach())]
    assert counts == [expected] * 3


class Miscounting(ScanEach):
    name = "liar"

    def run(self):  # type: ignore[no-untyped-def]
        outcome = super().run()
        return type(outcome)(outcome.seconds, outcome.pairs + 1)


def test_a_contestant_that_counts_differently_stops_the_run_and_both_counts_are_named() -> None:
    work = ranges(100, 50)
    expected = len(pairs(work.table, prepared(work))[0])
    holdfast, liar = HoldfastBatch(1), Miscounting()
    holdfast.prepare(work)
    liar.prepare(work)
    with pytest.raises(Disagreement, match=rf"liar  found {expected + 1:,} pairs, holdfast {expected:,}"):
        compare(work, holdfast, [Entry(liar, work)], rounds_min=1)


def test_a_part_is_compared_with_that_part_and_its_time_is_scaled_to_the_whole() -> None:
    work = ranges(400, 50)
    few = work.part(100, 50)
    holdfast, scan = HoldfastBatch(1), ScanEach()
    holdfast.prepare(work)
    scan.prepare(few)
    _, row = compare(work, holdfast, [Entry(scan, few)], rounds_min=1)
    assert (row.measured_events, row.events, row.whole) == (100, 400, False)
    assert row.events_per_second == pytest.approx(400 / row.seconds)
    assert row.pairs == len(pairs(few.table, prepared(few))[0])


class Sleeper:
    """Pretends to take the seconds it is told, per subscription."""

    threads = 1

    def __init__(self, shape: str, seconds_each: float) -> None:
        self.name, self.shape, self._each = "sleeper", shape, seconds_each

    def prepare(self, work: Workload) -> None:
        self._size = work.size[1]

    def run(self):  # type: ignore[no-untyped-def]
        from bench.contestants import Outcome

        return Outcome(self._each * self._size, 0)


def test_the_fastest_shape_is_kept_and_cut_down_to_the_time_allowed() -> None:
    work = equality(10, 4_000)
    quick = settle(work, [lambda: Sleeper("slow", 0.01), lambda: Sleeper("fast", 0.001)])
    assert (quick.contestant.shape, quick.part.size) == ("fast", (10, 4_000))
    slow = settle(work, [lambda: Sleeper("only", 0.006)])
    assert slow.part.size == (10, 2_000)

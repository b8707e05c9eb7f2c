"""The workloads are the same every time, Holdfast reads them, and they match as often as they say."""

from collections.abc import Callable

import numpy as np
import pytest

from bench.columnar import pairs, prepared
from bench.workloads import SELECTIVITY, SHARED, Workload, equality, load_stock, ranges, stock, strings
from holdfast import parse
from holdfast.matching.scan import Scan

EVENTS, SUBSCRIPTIONS = 3_000, 600


def shared_stock(events: int, subscriptions: int) -> Workload:
    module = load_stock(SHARED)
    if module is None:
        pytest.skip("the shared workloads are not beside the repository")
    return stock(module, events, subscriptions)


every_workload = pytest.mark.parametrize("make", [shared_stock, equality, ranges, strings])
Make = Callable[[int, int], Workload]


@every_workload
def test_a_workload_is_the_same_every_time(make: Make) -> None:
    first, second = make(EVENTS, SUBSCRIPTIONS), make(EVENTS, SUBSCRIPTIONS)
    assert first.table.equals(second.table)
    assert first.texts == second.texts


@every_workload
def test_every_condition_parses_and_can_match(make: Make) -> None:
    warnings = [found for text in make(10, SUBSCRIPTIONS).texts for found in parse(text).warnings]
    # A range may come out empty at the end of its attribute; anything else is a mistake of the workload.
    assert len(warnings) <= SUBSCRIPTIONS // 100


@every_workload
def test_conditions_match_the_share_of_events_that_the_workload_states(make: Make) -> None:
    work = make(EVENTS, SUBSCRIPTIONS)
    rows, _ = pairs(work.table, prepared(work))
    least, most = SELECTIVITY[work.name]
    assert least <= len(rows) / (EVENTS * SUBSCRIPTIONS) <= most


@every_workload
def test_the_numpy_scan_finds_the_pairs_that_the_oracle_finds(make: Make) -> None:
    work = make(100, SUBSCRIPTIONS)
    rows, numbers = pairs(work.table, prepared(work))
    oracle = Scan()
    for number, text in enumerate(work.texts):
        oracle.add(number, text)
    events = enumerate(work.table.to_pylist())
    expected = {(i, number) for i, event in events for number in oracle.match(event)}
    assert set(zip(rows.tolist(), numbers.tolist(), strict=True)) == expected


def test_most_ranges_match_between_a_thousandth_and_two_hundredths() -> None:
    work = ranges(20_000, 300)
    _, numbers = pairs(work.table, prepared(work))
    shares = np.bincount(numbers, minlength=300) / 20_000
    # Three standard errors at the lower end, where 20 events are expected.
    assert np.mean((shares > 0.0003) & (shares < 0.025)) > 0.95


def test_stock_conditions_are_written_as_the_shared_workload_writes_them() -> None:
    work = shared_stock(10, SUBSCRIPTIONS)
    module = load_stock(SHARED)
    assert module is not None
    _, filters = module.generate(10, SUBSCRIPTIONS, 7)
    assert work.texts == [module.condition(each) for each in filters]

"""The live bench: every contestant can be started, ratios compare like with like, and the page shows what was found."""

from typing import Any

import pytest

from bench.live import CASES, TARGETS, WITH_DELAY, Case, Found, as_data, checks
from bench.live_events import MATCHING, condition, events, others
from bench.live_report import plain, section
from bench.live_systems import SYSTEMS
from bench.live_worker import role_of
from bench.page import PAGE
from bench.results import load, saved_at
from holdfast import parse

FOUND = {
    Case("holdfast"): Found([100.0, 300.0, 200.0], [200.0, 100.0, 300.0], [900.0, 900.0, 900.0]),
    Case("raw"): Found([100.0, 600.0, 1_000.0]),
    Case("activemq"): Found([10.0, 10.0, 10.0], [400.0, 400.0, 400.0], [900.0, 900.0, 900.0]),
}
OVERLOAD: dict[str, Any] = {
    "oldest dropped": {
        "published": 10,
        "published_per_second": 5.0,
        "delivered": 7,
        "dropped_by_broker": 2,
        "dropped_by_client": 0,
        "lost_without_a_trace": 1,
        "delay_max_ms": 12.0,
    }
}


def test_every_case_has_its_server_its_roles_and_something_to_be_compared_with() -> None:
    assert {case.system for case in CASES} == set(SYSTEMS)
    for case in CASES:
        for role in ("pub", "sub", *(["hold"] if case.subscriptions > 1 else [])):
            assert callable(role_of(case.system, role))
    compared = {case for ours, other, _ in TARGETS for case in (ours, other)}
    assert compared <= set(CASES)
    assert set(CASES) >= WITH_DELAY


def test_of_the_conditions_one_matches_every_event_and_the_others_none() -> None:
    sample = events()[:200]
    assert all(parse(MATCHING).matches(event) for event in sample)
    symbols = {event["symbol"] for event in events()}
    for symbol, exchange in others(20):
        assert symbol in symbols
        assert not any(parse(condition(symbol, exchange)).matches(event) for event in sample)


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    found = {check.name: check for check in checks(FOUND, OVERLOAD)}
    assert found["deliveries/s: holdfast, 1 subscriber, to raw"].measured == pytest.approx(0.5)  # of 1, 1/2 and 1/5
    assert found["p50 delay at 1,000 events/s: holdfast to activemq"].measured == pytest.approx(0.5)
    assert found["deliveries/s: holdfast, 1 subscriber, to activemq"].holds


def test_an_event_that_is_lost_without_a_trace_fails_the_run() -> None:
    (lost,) = [check for check in checks(FOUND, OVERLOAD) if check.name.startswith("lost")]
    assert not lost.holds


def test_text_and_page_show_every_row_and_every_check() -> None:
    data = as_data(FOUND, ["rabbitmq: not installed"], OVERLOAD, 3)
    for shown in (plain(data), section(data)):
        for case in FOUND:
            assert case.system in shown
        assert "0.50x" in shown
        assert "2 dropped by the broker" in shown
        assert "NO" in shown
    assert "left out: rabbitmq" in plain(data)


def test_the_page_is_what_the_saved_results_make() -> None:
    saved = load(saved_at("live"))
    if saved is None:
        pytest.skip("the live bench has not been saved yet")
    assert section(saved).strip() in PAGE.read_text()

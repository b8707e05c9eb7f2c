"""Closed forms of loss-driven recovery against values worked out by hand and in the specification's table."""

from math import exp

import pytest

from holdfast.network.load import parse_text
from holdfast.planner.loss import by_digests, by_push, by_records, forecasts, on_links, unrepaired
from holdfast.planner.plan import case_of
from holdfast.planner.records import detection_probability
from holdfast.planner.shared_repairs import Row, lost_too, noticed

TEXT = """
[topology]
kind = "line"
brokers = 3

[links]
loss = 0.1

[[client]]
id = "source"
broker = "b1"
publish = [{ every_s = 1, attributes = { kind = "a" } }, { every_s = 1, attributes = { kind = "b" } }]

[[client]]
id = "desk"
broker = "b3"
subscriptions = ["kind = 'a'"]
"""


def test_requests_that_all_fail() -> None:
    assert unrepaired(0.05, 4) == pytest.approx(9e-5, rel=0.02)  # shared/spec/oracles.md
    assert unrepaired(0.0, 1) == 0.0


def test_a_link_s_own_repairs() -> None:
    assert on_links([0.1], tries=0) == pytest.approx(0.9)
    assert on_links([0.1, 0.1], tries=1) == pytest.approx((1 - 0.1 * 0.19) ** 2)
    assert on_links([]) == 1.0


def test_recovery_from_end_to_end() -> None:
    assert by_digests(0.0, 2) == 1.0
    assert by_digests(0.2, 2, tries=0) == pytest.approx(0.8)
    assert by_digests(0.2, 16, tries=50) == pytest.approx(1.0, abs=1e-9)
    # Of the 0.01 that is lost, .398 is noticed (Eq. 1 in shared/spec/oracles.md) and then repaired.
    assert by_records(detection_probability(0.05, 0.01, 10), 0.01) == pytest.approx(0.99 + 0.01 * 0.398, abs=1e-5)


def test_push_gossip_has_the_shape_of_the_specification() -> None:
    assert by_push(0.25, 4, 3.0, 0.03, 70, 0.5) == pytest.approx(1 - 0.25 * exp(-4 * 3 / 2.1 * 0.5))
    assert by_push(0.25, 0, 3.0, 0.03, 70, 0.5) == 0.75


def test_a_forecast_weighs_pairs_by_what_is_owed() -> None:
    found = {each.mechanism: each for each in forecasts(case_of(parse_text(TEXT)), told=2, record=10)}
    assert found["best effort"].delivered == pytest.approx(0.81)
    assert found["nack"].overhead == pytest.approx(0.1 / 0.9)
    # desk wants every second event of its publisher.
    assert found["end-to-end, records"].delivered == pytest.approx(
        by_records(detection_probability(0.5, 0.19, 10), 0.19)
    )
    assert forecasts(case_of(parse_text(TEXT.replace("loss = 0.1", "loss = 0"))), 2, 10) == []


def test_who_loses_an_event_together() -> None:
    near, far = Row(0, 0.5, 1.0, {1: 0.1}), Row(0, 0.5, 1.0, {1: 0.1, 2: 0.2})
    apart = Row(0, 0.5, 1.0, {3: 0.3})
    assert lost_too(near, far) == pytest.approx(1.0)  # what the first link loses, the second cannot carry
    assert lost_too(far, near) == pytest.approx(0.1 / 0.28)
    assert lost_too(near, apart) == pytest.approx(0.3)


def test_what_one_notices_is_repaired_for_all_who_lost_it() -> None:
    alone = Row(0, 0.5, 0.5, {1: 0.1})
    [by_himself] = noticed([alone], 1)
    assert by_himself == pytest.approx(detection_probability(0.5, 0.1, 1))
    # Three at the same broker, of whom each wants half of the events: one more than himself on average.
    [together] = noticed([Row(0, 0.5, 1.5, {1: 0.1})], 1)
    assert together == pytest.approx(1 - (1 - by_himself) ** 2)
    [sure] = noticed([Row(0, 1.0, 2.0, {})], 10)
    assert sure <= 1.0

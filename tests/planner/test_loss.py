"""Closed forms of loss-driven recovery against values worked out by hand and in the specification's table."""

from itertools import product
from math import exp, prod

import pytest

from holdfast.network.load import parse_text
from holdfast.planner.loss import by_digests, by_push, by_records, forecasts, on_links, unrepaired
from holdfast.planner.plan import case_of
from holdfast.planner.shared_repairs import Row, noticed
from holdfast_papers.end_to_end.records import detection_probability

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
    assert on_links([], tries=1) == 1.0


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
    found = {each.mechanism: each for each in forecasts(case_of(parse_text(TEXT)), digests=2, record=10, link_tries=30)}
    assert found["best effort"].delivered == pytest.approx(0.81)
    assert found["nack"].delivered == pytest.approx((1 - 0.1 * 0.19**30) ** 2, abs=1e-15)
    assert found["nack"].overhead == pytest.approx(0.1 / 0.9)
    # desk wants every second event of its publisher.
    assert found["end-to-end, records"].delivered == pytest.approx(
        by_records(detection_probability(0.5, 0.19, 10), 0.19)
    )
    assert forecasts(case_of(parse_text(TEXT.replace("loss = 0.1", "loss = 0"))), 2, 10, 30) == []


def nobody_notices(rows: list[Row], record: int, at: int) -> float:
    """By trying every outcome: P(nobody notices | a subscriber of row `at` wanted the event and lost it)."""
    links = {link: loss for row in rows for link, loss in row.losses.items()}
    people = [row for row in rows for _ in range(round(row.interested / row.match))]
    one = next(number for number, row in enumerate(people) if row is rows[at])
    total = missed = 0.0
    for passes in product(product((False, True), repeat=record + 1), repeat=len(links)):
        come = dict(zip(links, passes, strict=True))
        chance = prod(1 - links[link] if each else links[link] for link in links for each in come[link])
        reached = [[all(come[link][n] for link in row.losses) for n in range(record + 1)] for row in people]
        if reached[one][0]:
            continue
        total += chance
        for number, row in enumerate(people):
            unaware = (1 - row.match) ** sum(reached[number][1:])
            wanted = 1.0 if number == one else row.match
            chance *= 1 - (not reached[number][0]) * wanted * (1 - unaware)
        missed += chance
    return missed / total


# One link for all, then two brokers apart; at the first broker there are two alike and one who wants little.
TREE = [
    Row(0, 0.5, 1.0, {1: 0.3, 2: 0.2}),
    Row(0, 0.1, 0.1, {1: 0.3, 2: 0.2}),
    Row(0, 0.7, 0.7, {1: 0.3, 3: 0.4}),
    Row(0, 0.9, 0.9, {1: 0.3}),
]


@pytest.mark.parametrize("record", [1, 2])
def test_who_loses_an_event_together_stays_ignorant_together(record: int) -> None:
    found = noticed(TREE, record)
    for at in range(len(TREE)):
        assert found[at] == pytest.approx(1 - nobody_notices(TREE, record, at)), at


def test_what_one_notices_is_repaired_for_all_who_lost_it() -> None:
    alone = Row(0, 0.5, 0.5, {1: 0.1})
    [by_himself] = noticed([alone], 1)
    assert by_himself == pytest.approx(detection_probability(0.5, 0.1, 1))
    far, near = Row(0, 0.5, 0.5, {1: 0.1, 2: 0.1}), Row(0, 0.5, 0.5, {1: 0.1})
    elsewhere = Row(7, 0.5, 0.5, {1: 0.1})  # what another source has lost tells nothing of this one's
    with_help, _, without = noticed([far, near, elsewhere], 1)
    assert with_help > detection_probability(0.5, far.loss, 1)
    assert without == pytest.approx(by_himself)
    assert noticed([Row(0, 1.0, 2.0, {})], 10) == [1.0]  # nothing is lost

"""What the demo expects of its network, worked out by hand, and how it is set beside what was measured."""

from dataclasses import dataclass
from math import isclose
from typing import Any

import pytest

from holdfast.books.live import LiveBooks
from holdfast.cli.up import hosts, impairments
from holdfast.demo.prediction import beside, predict
from holdfast.demo.process_start import measured_start_us
from holdfast.net.clock import Clock
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.pipeline.audit.expectations import share_and_error
from holdfast.pipeline.audit.failover import AuditedFailover, Became
from tests.net.harness import live

SECOND_US = 1_000_000
LINE: dict[str, Any] = {
    "routing": "advertisements",
    "duration_s": 20.0,
    "topology": {"kind": "line", "brokers": ["b1", "b2", "b3"]},
    "links": {"loss": 0.1},
    "reliability": {"recovery": "end-to-end"},
    "replication": {"suspect_s": 0.5, "start_s": 1.5},
    "fault": [{"at_s": 5, "kind": "crash", "broker": "b2"}],
    "client": [
        {"id": "p", "broker": "b1", "publish": [{"every_s": 0.1, "attributes": {"n": 1}}]},
        {"id": "near", "broker": "b1", "subscriptions": ["n = 1"]},
        {"id": "middle", "broker": "b2", "subscriptions": ["n = 1"]},
        {"id": "far", "broker": "b3", "subscriptions": ["n = 1", "n > 0"]},
    ],
}


def test_each_link_takes_its_share_and_a_dead_broker_holds_up_what_touches_it() -> None:
    found = predict(parse_text(LINE))
    assert isclose(found.unaided, (1 + 0.9 + 0.81) / 3)
    assert 0.99 < found.in_the_end < 1
    assert found.outage_us == 2 * SECOND_US
    assert isclose(found.held_up, (0.9 + 0.81) * 10 * 2, rel_tol=0.02)  # to two of three, ten a second, for two seconds


def test_a_replica_takes_as_long_as_a_process_was_measured_to_take() -> None:
    found = predict(parse_text(LINE), start_us=3 * SECOND_US)
    assert found.outage_us == 3_500_000  # with half a second until somebody asks for it
    assert isclose(found.held_up, (0.9 + 0.81) * 10 * 3.5, rel_tol=0.02)


def test_what_clients_of_the_dead_broker_publish_waits_with_them_and_is_not_counted() -> None:
    publisher = {"id": "p2", "broker": "b2", "publish": [{"every_s": 0.1, "attributes": {"n": 1}}]}
    more = parse_text({**LINE, "client": [*LINE["client"], publisher]})
    assert isclose(predict(more).held_up, predict(parse_text(LINE)).held_up)


@live
async def test_the_start_of_a_broker_is_measured_and_the_broker_is_gone_again() -> None:
    network, clock = parse_text(LINE), Clock()
    books = LiveBooks(None)
    started: list[str] = []
    inner = hosts(network, None, impairments(1), clock, books)

    def new_host(name: str, role: Any, on_wanted: Any) -> Any:
        started.append(name)
        return inner(name, role, on_wanted)

    took_us = await measured_start_us(network, new_host)
    assert 0 < took_us < 60 * SECOND_US
    assert started == ["start-time"]


def test_without_recovery_replication_or_a_fault_nothing_of_the_kind_is_expected() -> None:
    found = predict(parse_text({**LINE, "reliability": {}, "fault": []}))
    assert found.in_the_end == found.unaided < 1
    assert found.outage_us is None


def test_the_demos_network_loses_about_a_tenth() -> None:
    found = predict(parse_text(preset_text("demo-12")))
    assert 0.85 < found.unaided < 0.95
    assert found.in_the_end > 0.9999


@dataclass
class Seen:
    """As much of an audit as a prediction is held against."""

    slices: list[dict[str, int]]
    failovers: list[AuditedFailover]
    slice_s: int = 1


class Run:
    class outcome:
        delivery_ratio = 0.75


def test_losses_are_measured_in_seconds_without_a_failover() -> None:
    calm = {"owed": 100, "delivered": 99, "recovered": 9}
    torn = {"owed": 100, "delivered": 90, "recovered": 80}
    slices = [{"second": at, **(torn if 5 <= at <= 7 else calm)} for at in range(10)]
    during, otherwise = Became(300, 30, 200, 70, 0), Became(700, 630, 0, 63, 7)
    times = (5_100_000, 5_200_000, 6_000_000, 6_900_000, 7_100_000)
    seen: Any = Seen(slices, [AuditedFailover("b2", "b2+1", *times, during, otherwise)])
    run: Any = Run()
    found = {each.what: each for each in beside(predict(parse_text(LINE)), run, seen)}
    assert (found["without recovery"].measured, found["without recovery"].error) == (0.9, 0.0)
    assert found["in the end"].measured == 0.75
    assert found["replacing the broker"].measured == 1_800_000
    assert found["delayed by it"].measured == pytest.approx(200 + 70 - 300 * 0.09)
    assert found["without recovery"].measured_words == "90.00 % ± 0.00 %"


def test_the_interval_of_a_share_comes_from_how_much_seconds_differ() -> None:
    """With equal seconds it is Student's interval of their mean, here of 0.8, 0.9 and 1.0."""
    rows = [{"got": got, "owed": 10} for got in (8, 9, 10)]
    share, error = share_and_error(rows, "got", "owed")
    assert share == 0.9
    assert error == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-6)  # t for two degrees of freedom, from a table
    assert share_and_error([{"got": 0, "owed": 0}], "got", "owed") == (None, None)
    assert share_and_error(rows[:1], "got", "owed") == (0.8, None)

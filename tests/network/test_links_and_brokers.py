"""What each broker and link gets: the settings of all, its own on top, and its own draw from [low, high]."""

from statistics import mean, variance

import pytest

from holdfast.network.load import parse_text
from holdfast.network.schema import BrokerSpec, Burst, LinkSpec
from tests.network.examples import FULL, TREE


def test_units_become_microseconds_and_ratios() -> None:
    tree = TREE | {
        "brokers": {"service_ms": 1.5, "queue": 7, "mtbf_s": 10, "mttr_s": 0.5},
        "links": {"delay_ms": 2.5, "jitter_ms": 0.5, "loss": 0.1, "bytes_per_s": 1000, "queue": 3, "duplicate": 0.25},
    }
    network = parse_text(tree)
    assert network.brokers[0] == BrokerSpec("b1", 1_500, "fixed", 7, 10_000_000, 500_000)
    assert network.links[0] == LinkSpec("b1", "b2", 2_500, 500, 0.1, None, 1_000, 3, 0.25)


def test_one_link_differs_and_the_others_do_not() -> None:
    links = {(link.a, link.b): link for link in parse_text(FULL).links}
    assert links["c", "d"].mtbf_us == 990_000_000 and links["c", "d"].mttr_us == 10_000_000
    assert links["a", "b"].mtbf_us is None
    assert links["c", "d"].burst == links["a", "b"].burst == Burst(0.01, 0.3, 0.5)


def test_how_one_fails_replaces_how_all_fail() -> None:
    tree = TREE | {
        "brokers": {"availability": 0.9, "cycle_s": 100},
        "broker": [{"id": "b2", "mtbf_s": 7, "mttr_s": 1}, {"id": "b3", "availability": 1, "cycle_s": 100}],
    }
    brokers = parse_text(tree).brokers
    assert (brokers[0].mtbf_us, brokers[0].mttr_us) == (90_000_000, 10_000_000)
    assert (brokers[1].mtbf_us, brokers[1].mttr_us) == (7_000_000, 1_000_000)
    assert (brokers[2].mtbf_us, brokers[2].mttr_us) == (None, None)  # it is always up


def test_each_link_draws_its_own_delay_evenly() -> None:
    network = parse_text({"topology": {"kind": "tree", "brokers": 3_000}, "links": {"delay_ms": [25, 75]}})
    delays = [link.delay_us / 1_000 for link in network.links]
    assert min(delays) >= 25 and max(delays) <= 75
    error = 50 / 12**0.5 / len(delays) ** 0.5
    assert abs(mean(delays) - 50) < 3 * error
    assert variance(delays) == pytest.approx(50**2 / 12, rel=0.1)


def test_availability_is_drawn_and_its_two_times_add_up() -> None:
    tree = TREE | {"brokers": {"availability": [0.90, 0.95], "cycle_s": 60_000}}
    for broker in parse_text(tree).brokers:
        assert broker.mtbf_us is not None and broker.mttr_us is not None
        assert broker.mtbf_us + broker.mttr_us == pytest.approx(60_000e6, abs=1)
        assert 0.90 <= broker.mtbf_us / 60_000e6 <= 0.95


def test_one_more_broker_does_not_change_what_the_others_drew() -> None:
    def delays(brokers: int) -> list[int]:
        file = {"topology": {"kind": "line", "brokers": brokers}, "links": {"delay_ms": [1, 100]}}
        return [link.delay_us for link in parse_text(file).links]

    assert delays(11)[:9] == delays(10)


@pytest.mark.parametrize(("transport", "lossy"), [("udp", True), ("tcp", False)])
def test_links_lose_control_messages_unless_the_transport_repeats_them(transport: str, lossy: bool) -> None:
    assert parse_text(TREE | {"transport": {"kind": transport}}).lossy_control is lossy
    told = TREE | {"transport": {"kind": transport}, "links": {"lossy_control": not lossy}}
    assert parse_text(told).lossy_control is not lossy


def test_a_delay_that_is_not_nothing_does_not_become_nothing() -> None:
    assert parse_text(TREE | {"links": {"delay_ms": 0.000_1}}).links[0].delay_us == 1

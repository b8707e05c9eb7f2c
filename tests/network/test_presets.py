"""Each preset is accepted, explains itself and has the settings of its paper."""

import tomllib
from itertools import islice

import pytest

from holdfast.model.errors import InputError
from holdfast.network.load import parse_text
from holdfast.network.presets import PRESETS, preset_text
from holdfast.network.schema import Network
from holdfast.network.summary import summarize
from holdfast.network.workload.patterns import Patterns


def network(name: str) -> Network:
    return parse_text(preset_text(name), name)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_accepted_and_publishes(name: str) -> None:
    found = network(name)
    assert (found.name, found.warnings) == (name, ())
    drawn = list(islice(found.publications(), 1_000))
    assert len(drawn) == 1_000
    rate = summarize(found).publications_per_s
    seconds = (drawn[-1].at_us - drawn[0].at_us) / 1_000_000
    assert rate is not None and 0.3 < 1_000 / seconds / rate < 3


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_explains_itself(name: str) -> None:
    lines = preset_text(name).splitlines()
    assert lines[0].startswith("# ")
    assert sum("#" in line for line in lines) >= 6
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_reads_back_from_its_data(name: str) -> None:
    assert parse_text(tomllib.loads(preset_text(name)), name) == network(name)


@pytest.mark.parametrize(
    ("name", "brokers", "links", "diameter", "clients", "publishers", "subscriptions"),
    [
        ("wan-12", 12, 11, 5, 60, 6, 54),
        ("wan-46", 46, 45, 11, 230, 10, 220),
        ("epidemic-100", 100, 99, 8, 100, 100, 200),
        ("replication-star", 3, 2, 2, 300, 100, 200),
    ],
)
def test_a_preset_has_the_size_of_its_paper(
    name: str, brokers: int, links: int, diameter: int, clients: int, publishers: int, subscriptions: int
) -> None:
    found = summarize(network(name))
    assert (found.brokers, found.links, found.diameter) == (brokers, links, diameter)
    assert (found.clients, found.publishers, found.subscriptions) == (clients, publishers, subscriptions)


def test_wan_links_are_those_of_paper_000() -> None:
    for link in network("wan-12").links:
        assert 25_000 <= link.delay_us <= 75_000
        assert (link.jitter_us, link.loss_ratio) == (5_000, 0.01)
    for link in network("wan-46").links:
        assert link.loss_ratio == 0.01


def test_the_epidemic_workload_is_that_of_paper_001() -> None:
    found = network("epidemic-100")
    assert isinstance(found.workload, Patterns)
    assert (found.workload.patterns, found.workload.per_event, found.workload.per_client) == (70, 3, 2)
    assert found.workload.traffic.rate_per_s == 50
    assert {link.loss_ratio for link in found.links} == {0.1}
    assert found.duration_us == 25_000_000


def test_planning_availabilities_are_those_of_paper_004() -> None:
    found = network("planning-10")
    assert sum(len(each) for each in found.neighbours().values()) / 10 == 4
    for broker in found.brokers:
        assert broker.mtbf_us is not None and broker.mttr_us is not None
        assert 0.90 <= broker.mtbf_us / (broker.mtbf_us + broker.mttr_us) <= 0.95
    for link in found.links:
        assert (link.mtbf_us, link.mttr_us) == (59_400_000_000, 600_000_000)
    assert next(found.publications()).lifetime_us == 3_600_000_000


def test_an_unknown_preset_gets_the_list() -> None:
    with pytest.raises(InputError) as caught:
        preset_text("epidemic")
    assert 'did you mean "epidemic-100"?' in str(caught.value)
    assert all(name in str(caught.value) for name in PRESETS)

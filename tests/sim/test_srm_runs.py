"""The paper's recovery in a small network that loses one message in twenty on every link."""

from dataclasses import replace
from functools import cache
from math import sqrt

import pytest

from holdfast.books.outcome import Outcome
from holdfast.network.schema import BrokerSpec, ClientSpec, LinkSpec, Network, SubscriptionSpec
from holdfast.network.workload.listed import Scheduled
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.settings import Guarantees, Reliability
from holdfast.sim.simulator import Simulation
from tests.sim.networks import SECOND, network

LOSS = 0.05
pytestmark = pytest.mark.xdist_group("srm runs")  # two of them serve several tests, and are made once in a process


def star(settings: SrmSettings | None, seconds: int) -> Network:
    """A publisher at one arm of a star, two subscribers at each of the four others: half of the events for each."""
    arms = [f"b{number}" for number in range(5)]
    links = [LinkSpec("hub", arm, delay_us=20_000, jitter_us=2_000, loss_ratio=LOSS) for arm in arms]
    published = (
        Scheduled(SECOND, {"x": 1, "y": 0}, every_us=40_000),
        Scheduled(SECOND + 20_000, {"x": 1, "y": 1}, every_us=40_000),
    )
    subscribers = [
        ClientSpec(f"{arm}-{y}", arm, (SubscriptionSpec("s", f"x = 1 AND y = {y}"),))
        for arm in arms[1:]
        for y in (0, 1)
    ]
    made = network(
        [BrokerSpec("hub"), *map(BrokerSpec, arms)],
        links,
        [ClientSpec("p", arms[0], publishes=True, schedule=published), *subscribers],
        duration_us=(1 + seconds) * SECOND,
    )
    return replace(made, reliability=Reliability(guarantees=Guarantees(settings)))


@cache
def run(settings: SrmSettings | None) -> Outcome:
    return run_anew(settings, seed=1, seconds=12)


def run_anew(settings: SrmSettings | None, seed: int, seconds: int) -> Outcome:
    return Simulation(star(settings, seconds), seed=seed).run()


def test_most_losses_are_recovered_and_nothing_is_delivered_twice() -> None:
    plain, outcome = run(None), run(SrmSettings(kept_first=50))
    assert outcome.owed == plain.owed == 2_400
    # A loss on the first link is everybody's: nobody can repair it. One on the second link is one arm's alone.
    shared = LOSS / (1 - (1 - LOSS) ** 2)
    assert outcome.recovered["repair"] > 0.8 * (1 - shared) * plain.lost
    assert outcome.duplicates == outcome.unowed == 0
    assert outcome.recovery["repairs sent"] > 0
    assert set(outcome.incidents) <= {"duplicate", "unrecoverable"}


def test_with_the_publisher_nearly_all_are() -> None:
    outcome = run(SrmSettings(publisher_cache=True))
    assert outcome.lost < 0.1 * run(None).lost
    assert outcome.duplicates == outcome.unowed == 0


@pytest.mark.parametrize(("record", "chances"), [(1, 0), (2, 1), (4, 2)])
def test_a_loss_is_found_if_one_of_the_next_events_for_us_arrives(record: int, chances: int) -> None:
    """Every second event is for us: so many of the next R, and each passes two links."""
    lost = run(None).lost
    expected = 1 - (1 - (1 - LOSS) ** 2) ** chances
    found = 1 - run(SrmSettings(record=record, publisher_cache=True)).lost / lost
    error = sqrt(expected * (1 - expected) / lost)
    assert abs(found - expected) <= 3 * error + 0.02  # requests and repairs fail now and then as well


@pytest.mark.parametrize("settings", [SrmSettings(), SrmSettings(publisher_cache=True, soft_state_us=SECOND)])
def test_a_run_is_the_same_twice(settings: SrmSettings) -> None:
    first, again, other = (run_anew(settings, seed, seconds=4) for seed in (7, 7, 8))
    assert first.as_json() == again.as_json()
    assert first.as_json() != other.as_json()

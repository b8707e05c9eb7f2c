"""What a broker only passes on is sent without effects around it; nothing else about a run changes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.model.messages import Deliver, Heartbeat, Message, Publication, Publish
from holdfast.network.schema import Network
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.effects import PassedOn
from holdfast.sim.simulator import Simulation
from holdfast.sim.swarm_scenarios import reliable_scenario, scenario
from holdfast.wire.codec import encode, size_of, size_passed_on
from tests.sim.networks import SECOND, line

Draw = Callable[[int], Network]
_DRAWN: list[Draw] = [scenario, reliable_scenario]
_TABLES = ("deliveries", "messages", "incidents")


def told(network: Network, folder: Path) -> list[object]:
    """Everything that a run writes, in the order in which it does."""
    outcome = Simulation(network, 7, TraceWriter(folder, {"name": "test", "seed": 7}), express=False).run()
    return [outcome, *[Run(folder).table(name).to_pydict() for name in _TABLES]]


def both_ways(
    network: Network, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[object], list[object], int]:
    """With brokers that say what they pass on, and that never do; and how often they did."""
    passes_on, count = CoreBroker.passes_on, 0

    def counted(self: CoreBroker, sender: str, message: Message, now_us: int) -> PassedOn | None:
        nonlocal count
        passed = passes_on(self, sender, message, now_us)
        count += passed is not None
        return passed

    monkeypatch.setattr(CoreBroker, "passes_on", counted)
    quick = told(network, folder / "quick")
    monkeypatch.setattr(CoreBroker, "passes_on", lambda *_: None)
    return quick, told(network, folder / "slow"), count


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("draw", _DRAWN)
def test_drawn_scenarios_with_faults_write_the_same_trace(
    draw: Draw, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow, count = both_ways(draw(seed), tmp_path, monkeypatch)
    assert quick == slow
    assert count > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 155))
@pytest.mark.parametrize("draw", _DRAWN)
def test_many_drawn_scenarios_write_the_same_trace(
    draw: Draw, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow, _ = both_ways(draw(seed), tmp_path, monkeypatch)
    assert quick == slow


def test_what_has_expired_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = line(4, 50_000, 4 * SECOND, lifetime_us=35_000, loss_ratio=0.1, delay_us=9_000, jitter_us=4_000)
    quick, slow, count = both_ways(network, tmp_path, monkeypatch)
    assert quick == slow
    assert count > 0


@pytest.mark.parametrize("homes", [(), ("b1",), tuple(f"broker-{n}" for n in range(40))])
@pytest.mark.parametrize("hops", [0, 127, 128])
def test_the_size_of_what_is_passed_on_follows_from_that_of_what_came(homes: tuple[str, ...], hops: int) -> None:
    publication = Publication("p", 5, 1_000, None, {"x": 1, "y": "text"}, b"payload")
    came = Publish(publication, ("b1", "b2"), 127)
    for message in (Publish(publication, homes, hops), Deliver(publication)):
        assert size_passed_on(len(encode(came)), came, message) == size_of(message) == len(encode(message))


def test_a_broker_leaves_to_receive_what_needs_more() -> None:
    network = line(1, 50_000, SECOND)
    simulation = Simulation(network, 1)
    broker = simulation.hosts["b0"].machine
    publication = Publication("stranger", 1, 0, None, {"x": 1})
    assert broker.passes_on("publisher", Publish(publication), 0) is None  # it is not the publisher's own
    assert broker.passes_on("nobody", Publish(publication), 0) is None
    assert broker.passes_on("b1", Heartbeat(0, ((0, 0), (0, 0))), 0) is None

"""Heartbeats that say nothing new are only noted: the same scenarios, and every heartbeat looked at in full."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from holdfast.books.outcome import Outcome
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.matching.shared_index import SharedIndex
from holdfast.model.messages import Heartbeat, Outage
from holdfast.network.schema import Network
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Absence, LinkUp, Received, SubscribeCall, Wake
from holdfast.protocol.node import Node
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.stack import new_client, new_router
from holdfast.sim.simulator import Simulation
from holdfast.sim.swarm_scenarios import hopping_scenario, scenario

SECOND = 1_000_000


def traced(network: Network, run: Path, express: bool, ahead_us: dict[str, int]) -> tuple[Outcome, dict[str, object]]:
    outcome = Simulation(network, 7, TraceWriter(run, {"name": "test", "seed": 7}), express, ahead_us).run()
    tables = ("deliveries", "incidents", "messages", "publications", "samples", "subscriptions")
    return outcome, {table: Run(run).table(table).to_pydict() for table in tables}


def looks_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in (CoreBroker, CoreClient):
        monkeypatch.setattr(machine, "beat", lambda self, now_us: None)
        monkeypatch.setattr(machine, "hears", lambda self, sender, heartbeat, now_us: False)


def drawn(seed: int) -> tuple[Network, bool, dict[str, int]]:
    """Crashes, moves, absences and churn; on some, control messages are lost, clocks differ, or links repair losses."""
    dice = Random(f"{seed}/heartbeats")
    network = (hopping_scenario if seed % 3 == 0 else scenario)(seed)
    names = [each.id for each in (*network.brokers, *network.clients)]
    ahead_us = {name: dice.randrange(300_000) for name in names} if seed % 4 == 1 else {}
    return replace(network, lossy_control=seed % 2 == 0), seed % 5 != 0, ahead_us


@pytest.mark.parametrize("seed", range(12))
def test_drawn_scenarios_leave_the_same_trace(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, express, ahead_us = drawn(seed)
    outcome, tables = traced(network, tmp_path / "noted", express, ahead_us)
    looks_at_all(monkeypatch)
    expected, expected_tables = traced(network, tmp_path / "all", express, ahead_us)
    assert tables == expected_tables
    assert outcome == expected
    assert outcome.messages["Heartbeat"]["received"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 200))
def test_many_drawn_scenarios_leave_the_same_trace(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_drawn_scenarios_leave_the_same_trace(seed, tmp_path, monkeypatch)


def machines(name: str) -> Node:
    """One of two that are alike: a broker with three clients, or one of them."""
    book, settings = ConditionBook(), ProtocolSettings(heartbeat_us=SECOND, lease_us=2 * SECOND)
    own = settings, book, SharedIndex().view, 0, Random(name)
    if name != "broker":
        return new_client(name, *own)
    parts = BrokerParts(name, "subscriptions", *own)
    return CoreBroker(parts, new_router(parts, states=True), tells_outages=True)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("name", ["broker", "client"])
def test_a_machine_that_is_asked_first_does_the_same(name: str, seed: int) -> None:
    dice, one, other = Random(f"{seed}/{name}"), machines(name), machines(name)
    noted = 0
    senders = ("a", "b", "c") if name == "broker" else ("broker",)
    heard = [((0, 0), (0, 0)), ((0, 0), (5, 7))]
    for sender in senders:
        up = LinkUp(sender, "client" if name == "broker" else "broker")
        assert one.handle(up, 0) == other.handle(up, 0)
    now_us = 0
    for _ in range(400):
        now_us += dice.choice((1, 1_000, 400_000, 1_000_000, 5_000_000 if dice.random() < 0.02 else 1_000))
        sender, what = dice.choice(senders), dice.random()
        if what < 0.3:
            expected = other.handle(Wake(), now_us)
            beat = one.beat(now_us)
            found = one.handle(Wake(), now_us) if beat is None else None
            noted += beat is not None
            if found is None:
                assert [(each.to, each.message) for each in expected] == [beat]  # type: ignore[union-attr]
                found = expected
        elif what < 0.9:
            epoch = 1 if dice.random() < 0.03 else 0
            heartbeat = Heartbeat(epoch, dice.choice(heard), kind="client" if name == "broker" else "broker")
            expected = other.receive(sender, (heartbeat,), now_us)
            is_noted = one.hears(sender, heartbeat, now_us)
            noted += is_noted
            found = [] if is_noted else one.receive(sender, (heartbeat,), now_us)
        elif name == "broker":
            up = LinkUp(sender, "client")
            found, expected = one.handle(up, now_us), other.handle(up, now_us)
        else:
            given = dice.choice(
                [
                    SubscribeCall(f"s{now_us}", f"x = {dice.randrange(3)}"),
                    Absence(now_us - 1, now_us, "test"),
                    Received("broker", Outage("broker", "far", 10, lasts=True)),
                    LinkUp("broker", "broker"),
                ]
            )
            found, expected = one.handle(given, now_us), other.handle(given, now_us)
            wanted = [each.message for each in found if hasattr(each, "message") and hasattr(each.message, "add")]
            if wanted:  # from now on the broker has it, or has not
                table = one._sent_tables["subscriptions"]  # type: ignore[attr-defined]
                heard = [((table.version, table.digest), (0, 0)), *heard][:3]
        assert found == expected
        assert one.next_due_us() == other.next_due_us()
    assert noted > 20

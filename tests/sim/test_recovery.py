"""End-to-end recovery and order in small simulated networks: what is owed arrives, once, in order, or is said lost."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.books.outcome import Outcome
from holdfast.books.promises import check, same_trace
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import Guarantees
from holdfast.sim.simulator import Simulation

SECOND = 1_000_000


def market(
    routing: str = "subscriptions",
    loss: float = 0.1,
    duration_s: float = 10,
    order: str = "none",
    recovery: str = "end-to-end",
    **tables: Any,
) -> Network:
    """Seven brokers, two publishers with many prices, five subscribers who want different ones."""
    dice = Random(7)
    wanted = ["price < 20", "symbol = 'A'", "symbol IN ('B', 'C') AND price >= 50", "TRUE", "volume IS NULL"]
    clients: list[dict[str, Any]] = [
        {"id": f"s{number}", "broker": f"b{2 + number}", "subscriptions": [condition]}
        for number, condition in enumerate(wanted)
    ]
    for name in ("p1", "p2"):
        events = [
            {
                "at_s": round(0.5 + dice.random() * 0.2, 6),
                "every_s": 0.2,
                "attributes": {"symbol": dice.choice("ABC"), "price": dice.randrange(100)}
                | ({"volume": 5} if dice.random() < 0.5 else {}),
            }
            for _ in range(20)
        ]
        clients.append({"id": name, "broker": "b1", "publish": events, "advertisements": ["symbol IS NOT NULL"]})
    return parse_text(
        {
            "duration_s": duration_s,
            "routing": routing,
            "topology": {"kind": "tree", "brokers": 7, "degree": 3},
            "links": {"delay_ms": 10, "jitter_ms": 4, "loss": loss},
            "client": clients,
            "reliability": {"recovery": recovery, "order": order},
            **tables,
        }
    )


def run(network: Network, seed: int = 1) -> Outcome:
    return Simulation(network, seed).run()


@pytest.mark.parametrize("routing", ["subscriptions", "advertisements", "destinations"])
@pytest.mark.parametrize("loss", [0.02, 0.2])
def test_everything_owed_arrives_although_links_lose_much_of_it(routing: str, loss: float) -> None:
    before = run(market(routing, loss, recovery="none"))
    after = run(market(routing, loss))
    assert before.lost > 50
    assert (after.lost, after.duplicates, after.unowed) == (0, 0, 0)
    assert after.owed == before.owed
    assert after.recovered["repair"] >= before.lost * 0.5


def test_the_promises_hold_and_two_runs_are_alike(tmp_path: Path) -> None:
    network = market(loss=0.2, order="strict", duration_s=5)
    for name in ("one", "other"):
        Simulation(network, trace=TraceWriter(tmp_path / name, {"name": network.name})).run()
    verdicts = check(tmp_path / "one", strict_order=True)
    assert {name: verdict.holds for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, True)
    assert verdicts["P4"].broken == 0
    assert verdicts["P7"].checked > 0
    assert same_trace(tmp_path / "one", tmp_path / "other").holds
    kinds = set(Run(tmp_path / "one").table("messages")["kind"].to_pylist())
    assert {"Digest", "Greeting", "Request", "Repair"} <= kinds


@pytest.mark.parametrize("faults", [0.0, 0.1])
def test_the_last_event_of_all_is_recovered(faults: float) -> None:
    """Nothing comes after it that could show the gap."""
    network = market(loss=faults, fault=[{"at_s": 3.0, "kind": "link-down", "link": ["b1", "b2"], "for_s": 20}])
    client = next(each for each in network.clients if each.id == "p1")
    short = replace(client, schedule=tuple(replace(each, until_us=int(3.2 * SECOND)) for each in client.schedule))
    others = [replace(each, schedule=()) for each in network.clients if each.id != "p1"]
    quiet = replace(network, clients=(*others, short), duration_us=30 * SECOND)
    assert run(replace(quiet, reliability=replace(quiet.reliability, guarantees=Guarantees()))).lost > 10
    assert run(quiet).lost == 0


def test_who_was_away_gets_what_it_missed() -> None:
    away = [{"at_s": 3.0, "kind": "client-detach", "client": "s3", "for_s": 2.0}]
    before = run(market(loss=0, recovery="none", fault=away))
    after = run(market(loss=0, fault=away))
    assert before.lost > 50
    assert after.lost == 0


def test_a_late_subscriber_is_not_owed_what_was_before() -> None:
    late = [{"at_s": 6.0, "kind": "subscribe", "client": "s0", "condition": "symbol = 'B'", "id": "late"}]
    outcome = run(market(loss=0, fault=late))
    assert outcome.lost == 0
    # Only what was on its way while the subscription travelled is asked for, not the six seconds before.
    assert outcome.messages.get("Repair", {"sent": 0})["sent"] <= 40
    assert outcome.unowed <= 20


def test_nothing_is_asked_for_when_nothing_is_lost() -> None:
    outcome = run(market(loss=0))
    assert outcome.lost == 0
    assert "Repair" not in outcome.messages or outcome.messages["Repair"]["sent"] <= 20
    assert not outcome.incidents.get("unrecoverable")


def with_settings(network: Network, **settings: Any) -> Network:
    guarantees = Guarantees(RecoverySettings(**settings), network.reliability.guarantees.order)
    return replace(network, reliability=replace(network.reliability, guarantees=guarantees))


def test_what_the_publisher_no_longer_keeps_is_said_to_be_lost() -> None:
    outcome = run(with_settings(market(loss=0.2), kept_max=3))
    assert outcome.lost > 0
    assert outcome.incidents["unrecoverable"] >= outcome.lost * 0.8


def test_a_dead_publisher_is_given_up() -> None:
    network = with_settings(market(loss=0.2, duration_s=60), forget_us=200 * SECOND)
    simulation = Simulation(network)
    for name in ("p1", "p2"):
        simulation.at(5 * SECOND + 50_000, lambda *_, name=name: simulation.crash(name))
    outcome = simulation.run()
    assert outcome.incidents["unrecoverable"] > 0
    # Of what it published in its last moments nobody has been told.
    assert outcome.lost - outcome.incidents["unrecoverable"] < outcome.owed * 0.1
    subscribers = [host for host in simulation.hosts.values() if host.name.startswith("s")]
    assert all(host.has_settled(simulation.now_us) for host in subscribers)


def test_limits_are_kept_when_more_is_missing_than_may_be_looked_for(tmp_path: Path) -> None:
    network = with_settings(market(loss=0.2), missing_max=5, kept_max=50)
    Simulation(network, trace=TraceWriter(tmp_path / "run", {"name": "limits"})).run()
    verdicts = check(tmp_path / "run")
    assert verdicts["P7"].holds
    assert verdicts["P2"].holds
    told = Run(tmp_path / "run").table("incidents").select(["kind", "reason"]).to_pylist()
    assert {"kind": "unrecoverable", "reason": "too many events are missing"} in told


@pytest.mark.parametrize(("recovery", "duration_s"), [("none", 30), ("end-to-end", 15)])
def test_fifo_removes_most_of_the_violations(recovery: str, duration_s: float) -> None:
    links = {"delay_ms": 10, "jitter_ms": 9, "loss": 0.02}
    before = run(market(recovery=recovery, links=links, duration_s=duration_s))
    after = run(market(recovery=recovery, order="fifo", links=links, duration_s=duration_s))
    assert before.fifo_violations > 200
    # Of two thousand neighbours that overtake each other the target leaves ten, and the first second some more.
    assert after.fifo_violations <= before.fifo_violations * (0.05 if recovery == "none" else 0)
    assert after.held > 0


def test_strict_order_has_no_violation_at_all() -> None:
    outcome = run(market(order="strict", loss=0.1))
    assert (outcome.lost, outcome.fifo_violations, outcome.duplicates) == (0, 0, 0)
    assert outcome.held > 100


def test_ones_own_events_are_not_held_back() -> None:
    """The publisher, who also subscribes, has nobody to tell it what is missing before each of its events."""
    mine = {"id": "me", "broker": "b1", "subscriptions": ["n >= 3"]}
    events = [{"at_s": 0.5 + n / 10, "attributes": {"n": n}} for n in range(10)]
    network = {
        "duration_s": 5,
        "topology": {"kind": "line", "brokers": 2},
        "client": [{**mine, "publish": events}],
        "reliability": {"recovery": "end-to-end", "order": "strict"},
    }
    outcome = Simulation(parse_text(network)).run()
    assert outcome.delivered == outcome.owed == 7
    assert outcome.held == 0

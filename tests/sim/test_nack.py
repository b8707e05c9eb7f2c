"""Links that repair their own losses, in simulated networks: how much arrives, and what it costs."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.books.outcome import Outcome
from holdfast.books.promises import check, same_trace
from holdfast.books.trace import TraceWriter
from holdfast.network.load import parse_text
from holdfast.network.schema import LinkSpec, Network
from holdfast.sim.simulator import Simulation


def tree(hops: str = "nack", brokers: int = 15, **tables: Any) -> Network:
    """A tree with a client at every broker; changes of tables are not lost, so that they need no time to settle."""
    text: dict[str, Any] = {
        "duration_s": 5,
        "routing": "subscriptions",
        "topology": {"kind": "tree", "brokers": brokers, "shape": "filled", "degree": 4},
        "links": {"delay_ms": 1, "loss": 0.1, "lossy_control": False},
        "clients": {"per_broker": 1},
        "workload": {"kind": "patterns", "patterns": 10, "rate_per_s": 10, "start_s": 1, "stop_s": 4},
        "reliability": {"hops": hops},
    }
    for name, table in tables.items():
        text[name] = {**text[name], **table} if isinstance(table, dict) and name in text else table
    return parse_text(text)


def run(network: Network, seed: int = 1) -> Outcome:
    return Simulation(network, seed).run()


def resent_ratio(outcome: Outcome) -> float:
    return outcome.messages["Resent"]["sent"] / outcome.messages["Publish"]["sent"]


def test_everything_arrives_for_a_ninth_more_transmissions() -> None:
    before, after = run(tree("basic")), run(tree())
    assert before.delivery_ratio < 0.85
    assert after.owed == before.owed > 1_000
    assert (after.lost, after.duplicates, after.unowed) == (0, 0, 0)
    assert resent_ratio(after) < 0.13
    assert after.recovered["retransmission"] > before.lost * 0.8


@pytest.mark.parametrize("routing", ["advertisements", "destinations"])
def test_any_routing_will_do(routing: str) -> None:
    outcome = run(tree(routing=routing))
    assert (outcome.lost, outcome.duplicates) == (0, 0)


def test_losses_in_bursts_are_repaired_too() -> None:
    bursts = {"loss": 0.01, "burst": {"to_bad": 0.02, "to_good": 0.2, "loss": 0.95}}
    before, after = run(tree("basic", links=bursts)), run(tree(links=bursts))
    assert before.lost > 100
    assert (after.lost, after.duplicates) == (0, 0)


def test_links_that_delay_double_and_reorder_bring_everything_once() -> None:
    wild = {"delay_ms": 20, "jitter_ms": 15, "loss": 0.1, "duplicate": 0.05, "reorder": 0.1}
    outcome = run(tree(links=wild))
    assert (outcome.lost, outcome.duplicates) == (0, 0)


def test_a_crash_loses_what_only_a_second_layer_gets_back() -> None:
    crashes = [{"at_s": at_s, "kind": "crash", "broker": "b2", "for_s": 0.2} for at_s in (2, 2.7, 3.4)]
    alone = run(tree(fault=crashes))
    both = run(tree(fault=crashes, reliability={"hops": "nack", "recovery": "end-to-end"}))
    assert alone.lost > 100
    assert both.lost < alone.lost / 10
    assert both.duplicates == 0


def test_the_promises_hold_and_two_runs_are_alike(tmp_path: Path) -> None:
    for name in ("one", "other"):
        Simulation(tree(), trace=TraceWriter(tmp_path / name, {})).run()
    verdicts = check(tmp_path / "one")
    assert all(verdicts[promise].holds for promise in ("P1", "P2", "P4", "P7"))
    assert same_trace(tmp_path / "one", tmp_path / "other").holds


@pytest.mark.slow
@pytest.mark.parametrize("burst", [False, True])
def test_a_hundred_brokers_deliver_nearly_all_for_at_most_13_percent_more(burst: bool) -> None:
    bursts = {"loss": 0.0, "burst": {"to_bad": 0.02, "to_good": 0.18, "loss": 1.0}}  # a tenth of the time bad
    links = bursts if burst else {"loss": 0.1}
    patterns = {"patterns": 70, "per_event": 3, "per_client": 2, "rate_per_s": 20}
    settled = {"workload": {**patterns, "start_s": 10, "stop_s": 13}, "duration_s": 14}  # control is lost, too
    network = tree(brokers=100, links={**links, "lossy_control": not burst}, **settled)  # a burst outlives leases
    without_loss = run(tree("basic", brokers=100, links={"loss": 0}, **settled))
    outcome = run(network)
    assert outcome.delivery_ratio >= 0.9999
    events = outcome.messages["Publish"]["sent"] + outcome.messages["Resent"]["sent"]
    assert events / without_loss.messages["Publish"]["sent"] <= 1.13


class LossyClients(Simulation):
    """Links of clients lose a fifth of everything, in both directions."""

    def attach(self, client: str, broker: str) -> None:
        self.connect(LinkSpec(broker, client, delay_us=1_000, loss_ratio=0.2))


def test_the_links_of_clients_repair_their_losses_too() -> None:
    before, after = LossyClients(tree("basic"), 1).run(), LossyClients(tree(), 1, express=False).run()
    assert before.delivery_ratio < 0.6
    assert after.owed == before.owed > 1_000
    assert (after.lost, after.duplicates, after.unowed) == (0, 0, 0)

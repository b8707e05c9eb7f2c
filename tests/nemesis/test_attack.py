"""Live networks under attack: a short one in every run of the tests, all modes in the slow ones."""

from pathlib import Path

import pytest

from holdfast.carriers.servers import SERVERS
from holdfast.nemesis.campaign import AttackRun, Campaign, rules_of, run_all
from holdfast.nemesis.journal import lines_of
from holdfast.nemesis.judge.evidence import evidence_in
from holdfast.nemesis.judge.verdict import judge
from holdfast.nemesis.modes import MODES, modes_named
from holdfast.nemesis.report import broken_runs, text
from holdfast.net.event_loop import run as run_loop
from holdfast.network.load import load
from tests.house.tree import ROOT

TREE, RING, BUS = (str(ROOT / "examples" / f"{name}.toml") for name in ("nemesis", "nemesis-ring", "nemesis-bus"))
QUICK = {"protocol.heartbeat_s": 0.2, "protocol.lease_s": 0.7, "reliability.digest_s": 0.1}


def attacked(campaign: Campaign) -> list[AttackRun]:
    return run_all(campaign, run_loop, lambda line: None)


def test_a_network_whose_brokers_are_killed_and_links_cut_delivers_all_in_order(tmp_path: Path) -> None:
    modes = modes_named("strict")
    campaign = Campaign(TREE, modes, 5.5 / 60, 3, QUICK, ("kill-broker", "cut"), tmp_path / "out")
    (run,) = runs = attacked(campaign)
    assert not broken_runs(runs), text(campaign, runs)
    assert run.verdict.owed > 100 and set(run.struck) == {"kill-broker", "cut"}
    # The judge convicts the same journals when one delivery is taken out of them.
    folder = tmp_path / "out" / "strict-3"
    taken = _without_one(folder)
    found = judge(evidence_in(folder), rules_of(load(TREE, {**MODES["strict"].settings, **QUICK}), MODES["strict"]))
    assert [each["event"] for each in found.shown] == [taken]


def _without_one(folder: Path) -> str:
    """Take the last delivery, after all faults, out of a subscriber's journal; the event's name."""
    path = folder / "journals" / "client-s4-0.jsonl"
    gone = max(number for number, line in enumerate(lines_of(path)) if line["k"] == "got")
    texts = path.read_text().splitlines(keepends=True)
    name: str = list(lines_of(path))[gone]["id"]
    path.write_text("".join(texts[:gone] + texts[gone + 1 :]))
    return name


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_keeps_its_promises_under_a_minute_of_attack(mode: str, tmp_path: Path) -> None:
    campaign = Campaign(RING if MODES[mode].any_graph else TREE, modes_named(mode), 1, 1, out=tmp_path / "out")
    runs = attacked(campaign)
    assert runs[0].verdict.owed > 1_000 and not runs[0].skipped
    assert not broken_runs(runs), text(campaign, runs)


@pytest.mark.slow
@pytest.mark.parametrize("bus", SERVERS)
def test_clients_over_a_bus_keep_their_promises_though_its_server_is_killed(bus: str, tmp_path: Path) -> None:
    if missing := SERVERS[bus].missing():
        pytest.skip(missing)
    settings = {"carrier.bus": bus}
    campaign = Campaign(BUS, modes_named("strict"), 0.5, 3, settings, out=tmp_path / "out")
    (run,) = runs = attacked(campaign)
    assert not broken_runs(runs), text(campaign, runs)
    assert run.verdict.owed > 1_000
    # The judge convicts the same journals when one delivery is taken out of them.
    folder = tmp_path / "out" / "strict-3"
    taken = _without_one(folder)
    found = judge(evidence_in(folder), rules_of(load(BUS, {**MODES["strict"].settings, **settings}), MODES["strict"]))
    named = found.named.total() - run.verdict.named.total()  # it may lie in a time that was named
    assert named == 1 or [each["event"] for each in found.shown] == [taken]


def test_modes_of_brokers_do_not_go_with_a_bus() -> None:
    campaign = Campaign(BUS, modes_named("durable,gossip,replication,multipath,nack-udp,mqtt"), 6, 1)
    assert all(each.skipped for each in attacked(campaign))

"""A schedule is a seed: it can be drawn again, and it leaves the ends of a run alone."""

from pathlib import Path

import pytest

from holdfast.model.errors import InputError
from holdfast.nemesis.modes import MODES, modes_named
from holdfast.nemesis.schedule import KINDS, Targets, draw, kinds_named, quiet_us
from holdfast.network.load import load
from holdfast.network.schema import Network
from tests.house.tree import ROOT

FILE = ROOT / "examples" / "nemesis.toml"
MINUTE_US = 60_000_000


@pytest.fixture(scope="module")
def network() -> Network:
    return load(FILE, {**MODES["strict"].settings, "duration_s": 60})


def test_the_same_seed_gives_the_same_schedule_and_another_one_another(network: Network) -> None:
    first = draw(network, MODES["strict"], 7, MINUTE_US)
    assert first == draw(network, MODES["strict"], 7, MINUTE_US)
    assert first != draw(network, MODES["strict"], 8, MINUTE_US)
    assert first != draw(network, MODES["recovery"], 7, MINUTE_US)


def test_a_run_begins_and_ends_without_faults_and_nobody_is_struck_twice_at_once(network: Network) -> None:
    for seed in range(50):
        faults = draw(network, MODES["strict"], seed, MINUTE_US)
        assert all(each.at_us >= quiet_us(network) for each in faults)
        assert all(each.until_us <= MINUTE_US - quiet_us(network) for each in faults)
        until_us: dict[str, int] = {}
        for each in faults:
            assert each.at_us >= until_us.get(each.target, 0)
            until_us[each.target] = each.until_us


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda mode: mode.name)
def test_every_kind_that_fits_a_mode_is_drawn_sooner_or_later(network: Network, mode: object) -> None:
    drawn = {each.kind for seed in range(40) for each in draw(network, mode, seed, MINUTE_US)}  # type: ignore[arg-type]
    fitting = {each for each in KINDS.values() if each.fits(mode)}  # type: ignore[arg-type]
    assert drawn == {each.name for each in fitting if each.strikes(Targets.of(network))}
    assert {each.name for each in fitting} - drawn == {"kill-keeper"}


def test_over_a_bus_its_server_and_its_keeper_are_struck_and_no_clock_of_theirs() -> None:
    bus = load(ROOT / "examples" / "nemesis-bus.toml", {**MODES["strict"].settings, "duration_s": 60})
    drawn = [each for seed in range(40) for each in draw(bus, MODES["strict"], seed, MINUTE_US)]
    assert {each.target for each in drawn if each.kind in ("kill-broker", "pause-broker")} == {"bus"}
    assert {each.target for each in drawn if each.kind == "kill-keeper"} == {"keeper"}
    assert not [each for each in drawn if each.kind.startswith("clock") and each.target in ("bus", "keeper")]


def test_only_the_kinds_that_were_asked_for_are_drawn(network: Network) -> None:
    drawn = {each.kind for each in draw(network, MODES["strict"], 1, MINUTE_US, ("cut", "burst"))}
    assert drawn == {"cut", "burst"}


def test_a_misspelt_mode_or_fault_is_told_with_a_suggestion() -> None:
    with pytest.raises(InputError, match='did you mean "durable"'):
        modes_named("strict,durabel")
    with pytest.raises(InputError, match='did you mean "kill-broker"'):
        kinds_named("kill-brokr")
    assert [each.name for each in modes_named("strict, fifo,strict")] == ["strict", "fifo"]


def test_every_mode_goes_with_one_of_the_example_files() -> None:
    for mode in MODES.values():
        name = "nemesis-ring.toml" if mode.any_graph else "nemesis.toml"
        load(Path(FILE).with_name(name), mode.settings)

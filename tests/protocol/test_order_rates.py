"""Which share of the violations each estimator leaves: measured on a network that reorders, against what it promises.

The model is that of `./run bench fifo`, with fixed seeds. The long runs are marked slow.
"""

from functools import cache

import pytest

from holdfast.protocol.order.latch import Latch
from holdfast.protocol.order.settings import LatchSettings
from holdfast_papers.fifo.overtaking import SCENARIOS, ReplayOutcome, Stream, TravelScenario, draw, replay

pytestmark = pytest.mark.xdist_group("order rates")  # streams, and what became of them, are made once in a process
EACH = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name.partition(",")[0])
SHORT, LONG = 20_000, 120_000


@cache
def stream(scenario: TravelScenario, publications: int, drift: float = 50e-6) -> Stream:
    return draw(scenario, publications, seed=1, drift=drift)


@cache
def outcome(
    scenario: TravelScenario, publications: int, estimator: str, target: float, of: str = "missing"
) -> ReplayOutcome:
    settings = LatchSettings(estimator=estimator, target=target, of=of)  # type: ignore[arg-type]
    return replay(stream(scenario, publications), Latch(settings))


@EACH
def test_all_that_arrives_is_delivered(scenario: TravelScenario) -> None:
    assert outcome(scenario, SHORT, "age-conformal", 0.05).delivered == len(stream(scenario, SHORT).order)


@EACH
@pytest.mark.parametrize("estimator", ["age-conformal", "late-conformal"])
def test_conformal_latches_keep_a_share_of_5_percent_within_a_tenth(scenario: TravelScenario, estimator: str) -> None:
    assert outcome(scenario, SHORT, estimator, 0.05).share == pytest.approx(0.05, rel=0.1)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("estimator", ["age-conformal", "late-conformal"])
@pytest.mark.parametrize("target", [0.05, 0.005])
def test_conformal_latches_keep_their_share_within_a_tenth(
    scenario: TravelScenario, estimator: str, target: float
) -> None:
    found = outcome(scenario, LONG, estimator, target)
    assert found.share == pytest.approx(target, rel=0.1)
    assert found.removed == pytest.approx(1 - target, abs=target / 10)


@pytest.mark.slow
@EACH
def test_at_4_in_1000_the_default_removes_99_5_percent_of_the_violations(scenario: TravelScenario) -> None:
    assert outcome(scenario, LONG, "age-conformal", 0.004).removed >= 0.995


@EACH
@pytest.mark.parametrize("target", [0.05, 0.005])
def test_bernstein_keeps_below_its_target(scenario: TravelScenario, target: float) -> None:
    assert outcome(scenario, SHORT, "bernstein", target).share <= target
    assert outcome(scenario, SHORT, "bernstein", target, of="all").of_all <= target


@pytest.mark.parametrize("scenario", SCENARIOS[:3], ids=lambda each: each.name.partition(",")[0])
def test_the_default_adds_at_most_60_percent_of_bernsteins_delay(scenario: TravelScenario) -> None:
    ours, bound = (outcome(scenario, SHORT, name, 0.05).added_ms for name in ("age-conformal", "bernstein"))
    assert ours <= 0.6 * bound


def test_the_rule_of_the_paper_leaves_a_fifth_of_the_violations() -> None:
    found = outcome(SCENARIOS[0], SHORT, "parametric", 0.05, of="all")
    assert 0.7 < found.removed < 0.85


@pytest.mark.parametrize("estimator", ["parametric", "quantile"])
def test_those_that_promise_nothing_come_near(estimator: str) -> None:
    assert 0.03 < outcome(SCENARIOS[0], SHORT, estimator, 0.05).share < 0.08


@pytest.mark.slow
def test_sources_that_say_little_learn_from_each_other() -> None:
    """Fifteen sources with a heavy tail, each too short for a share of 0.5 % to be learnt from it alone."""
    streams = [draw(SCENARIOS[2], 6_000, seed) for seed in range(100, 115)]
    shared: Latch[int] = Latch(LatchSettings(target=0.005))
    together = [replay(each, shared, f"source {n}") for n, each in enumerate(streams)]
    alone = [replay(each, Latch(LatchSettings(target=0.005))) for each in streams]
    shares = [sum(one.found_late for one in each) / sum(one.found for one in each) for each in (together, alone)]
    assert abs(shares[0] - 0.005) < abs(shares[1] - 0.005) / 2


@pytest.mark.parametrize("drift", [-50e-6, 50e-6])
def test_clocks_that_drift_cost_next_to_nothing(drift: float) -> None:
    steady, drifting = (
        replay(stream(SCENARIOS[0], SHORT, each), Latch(LatchSettings(target=0.05))) for each in (0.0, drift)
    )
    assert drifting.share == pytest.approx(0.05, rel=0.1)
    assert drifting.added_ms == pytest.approx(steady.added_ms, rel=0.05)

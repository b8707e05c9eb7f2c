"""A verdict follows from what a claim allows and from the interval, and from nothing else."""

from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest

from holdfast.model.errors import MisuseError
from holdfast_papers.claims import Claim, Origin, read, summary, write
from holdfast_papers.estimates import Estimate, difference, estimate, exact, extreme, ratio
from holdfast_papers.verdicts import (
    Allowed,
    Verdict,
    about,
    at_least,
    at_most,
    less_than,
    more_than,
    verdict,
)


def _seen(low: float, high: float, runs: int = 5) -> Estimate:
    return Estimate((low + high) / 2, (low, high), runs)


@pytest.mark.parametrize(
    ("allowed", "found", "wanted"),
    [
        (at_least(2), _seen(2, 3), "holds"),
        (at_least(2), _seen(1, 1.9), "does not hold"),
        (at_least(2), _seen(1.9, 3), "undecided"),
        (more_than(2), _seen(2, 3), "undecided"),  # the bound itself is not more
        (more_than(2), _seen(2.1, 3), "holds"),
        (more_than(2), _seen(1, 2), "does not hold"),
        (at_least(2), _seen(1, 2), "undecided"),
        (at_most(2), _seen(1, 2), "holds"),
        (at_most(2), _seen(2.1, 3), "does not hold"),
        (less_than(2), _seen(2, 3), "does not hold"),
        (less_than(2), _seen(1, 1.9), "holds"),
        (about(2), _seen(1.8, 2.2), "holds"),
        (about(2), _seen(1.79, 2.2), "undecided"),
        (about(2), _seen(1, 1.7), "does not hold"),
        (about(2), _seen(2.3, 4), "does not hold"),
        (about(2), _seen(1, 4), "undecided"),  # it spans all that is allowed
        (about(0.98, 0.02), _seen(0.96, 1.0), "holds"),
        (Allowed(1, 1), _seen(1, 1), "holds"),  # all runs were alike
        (Allowed(1, 1), _seen(0.9, 1.1), "undecided"),
    ],
)
def test_the_whole_interval_counts(allowed: Allowed, found: Estimate, wanted: Verdict) -> None:
    assert verdict(allowed, found) == wanted


@pytest.mark.parametrize(
    ("allowed", "found", "wanted"),
    [
        (at_least(2), _seen(3, 4, runs=4), "undecided"),
        (at_least(2), _seen(0, 1, runs=4), "undecided"),
        (at_least(2), Estimate(3.0, None, 1), "undecided"),
        (at_least(2), Estimate(3.0, None, 10), "undecided"),  # a mean without an interval
        (at_least(2), Estimate(nan, (nan, nan), 10), "undecided"),
        (at_least(2), exact(nan), "undecided"),
        (at_least(2), exact(2), "holds"),
        (at_least(2), exact(1.99), "does not hold"),
    ],
)
def test_chance_needs_five_runs_and_what_is_exact_needs_none(
    allowed: Allowed, found: Estimate, wanted: Verdict
) -> None:
    assert verdict(allowed, found) == wanted


@pytest.mark.parametrize(
    ("allowed", "runs", "value", "wanted"),
    [
        (at_least(0.95, "every"), 5, 0.96, "holds"),
        (at_least(0.95, "every"), 4, 0.96, "undecided"),
        (at_least(0.95, "every"), 1, 0.94, "does not hold"),  # one is enough
        (less_than(1, "one"), 1, 0.9, "holds"),  # here, too
        (less_than(1, "one"), 4, 1.0, "undecided"),
        (less_than(1, "one"), 5, 1.0, "does not hold"),
    ],
)
def test_one_run_refutes_what_is_said_of_every_run_and_shows_what_can_happen(
    allowed: Allowed, runs: int, value: float, wanted: Verdict
) -> None:
    assert verdict(allowed, extreme(value, runs)) == wanted


def test_a_criterion_that_cannot_fail_or_cannot_be_met_is_refused() -> None:
    with pytest.raises(MisuseError, match="cannot fail"):
        Allowed()
    with pytest.raises(MisuseError, match="at least 2 and at most 1"):
        Allowed(2, 1)


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (at_least(0.9), "at least 0.9"),
        (more_than(8), "above 8"),
        (at_most(1), "at most 1"),
        (less_than(0.2), "below 0.2"),
        (about(0.47), "from 0.423 to 0.517"),
        (Allowed(10, 100, strict=True), "between 10 and 100"),
        (Allowed(1, 1, judged="every"), "1 in every run"),
        (less_than(1, "one"), "below 1 in some run"),
    ],
)
def test_a_criterion_is_shown_in_words(allowed: Allowed, words: str) -> None:
    assert str(allowed) == words


def test_settings_are_compared_seed_by_seed() -> None:
    # Seeds differ by far more than the settings do; paired, the difference is plain.
    one, other = [1.0, 5.0, 9.0, 13.0, 17.0], [1.1, 5.2, 9.1, 13.2, 17.1]
    assert verdict(more_than(0), difference(other, one)) == "holds"
    assert verdict(more_than(0), estimate([*other, *[-each for each in one]])) == "undecided"
    assert verdict(more_than(1), ratio(other, one)) == "undecided"
    assert difference(other, one).runs == 5
    with pytest.raises(ValueError, match="shorter"):
        difference(one, other[:4])


def test_a_share_of_what_is_left_turns_its_interval_round() -> None:
    assert _seen(0.25, 0.75).through(lambda share: 1 - share) == _seen(0.25, 0.75)
    assert Estimate(0.25, (0.0, 0.5), 7).through(lambda share: 1 - share) == Estimate(0.75, (0.5, 1.0), 7)
    assert exact(0.25).through(lambda share: 1 - share) == exact(0.75)


def _claim(id_: str, origin: Origin, found: Estimate, allowed: Allowed | None) -> Claim:
    return Claim(id_, "something", "1", found, allowed, origin, "seeds 1 to 5")


CLAIMS = [
    _claim("a", "paper", _seen(2, 3), at_least(2)),
    _claim("b", "paper", _seen(1, 3), at_least(2)),
    _claim("c", "paper", _seen(0, 1), more_than(2)),
    _claim("d", "fitted", _seen(1.9, 2.1), about(2)),
    _claim("e", "ours", exact(1), at_most(1)),
    _claim("f", "ours", extreme(2, 3), at_most(1, "every")),
    _claim("g", "paper", Estimate(inf, None, 1), None),
]


def test_statements_of_papers_fitted_values_and_our_targets_are_counted_apart() -> None:
    assert summary(CLAIMS) == (
        "Of 3 statements of the paper: 1 holds, 1 does not, 1 undecided; "
        "of 1 value that settings were fitted to: 1 holds, 0 do not, 0 undecided; "
        "of 2 targets of our own: 1 holds, 1 does not, 0 undecided"
    )
    assert summary(CLAIMS[6:]) == "No claim has a criterion"


def test_claims_come_back_from_their_table(tmp_path: Path) -> None:
    write(tmp_path, "A study", CLAIMS, [])
    assert read(tmp_path) == CLAIMS


@pytest.mark.parametrize("moved", [-100.0, 100.0])
def test_a_value_that_is_moved_changes_its_verdict(tmp_path: Path, moved: float) -> None:
    shifted = [
        replace(each, found=Estimate(each.ours, each.found.interval, each.found.runs).through(lambda x: x + moved))
        for each in CLAIMS[:6]
    ]
    write(tmp_path, "A study", shifted, [])
    verdicts = [each.verdict for each in read(tmp_path)]
    up: list[Verdict] = ["holds", "holds", "holds", "does not hold", "does not hold", "does not hold"]
    no: Verdict = "does not hold"
    down: list[Verdict] = [no, no, no, no, "holds", "undecided"]  # three runs cannot show what every run does
    assert verdicts == (up if moved > 0 else down)

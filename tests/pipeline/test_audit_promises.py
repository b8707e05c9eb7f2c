"""Promises checked twice: the simulator's checkers and the audit agree, on honest traces and on broken ones."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.books.promises import check, same_trace
from holdfast.pipeline.embedded_engine import EmbeddedEngine
from holdfast.sim.swarm_scenarios import hopping_scenario
from tests.pipeline import audit_runs
from tests.pipeline.audit_runs import BROKEN, rewrite, simulate
from tests.pipeline.conftest import Audited, embedded_audit

BOTH = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")


@pytest.mark.parametrize("name", ["honest", *BROKEN, "churn", "swarm", "live", "orders", "lives", "format 2"])
def test_both_checkers_count_the_same(audited_traces: Audited, name: str) -> None:
    theirs, ours = check(audited_traces.folders[name]), audited_traces.runs[name].verdicts
    for promise in BOTH:
        one, other = theirs[promise], ours[promise]
        assert (one.checked, one.broken) == (other.checked, other.broken), promise
        assert one.holds == other.holds, promise


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_and_shown(audited_traces: Audited, name: str) -> None:
    promise, run = BROKEN[name][2], audited_traces.runs[name]
    verdict = run.verdicts[promise]
    assert verdict.broken == 1
    shown = {"P1": ("subscriber", "q"), "P2": ("source", "p"), "P3": ("subscriber", "s"), "P4": ("source", "p")}
    key, value = shown.get(promise, ("name", "cache"))
    assert verdict.examples[0][key] == value
    assert [each.promise for each in run.broken] == ([] if promise == "P3" else [promise])  # order was not asked for


@pytest.mark.parametrize("name", ["stored", "stored, one lost"])
def test_both_checkers_judge_what_was_acknowledged(audited_traces: Audited, name: str) -> None:
    one, other = check(audited_traces.folders[name])["P5"], audited_traces.runs[name].verdicts["P5"]
    assert (one.checked, one.broken, one.holds) == (other.checked, other.broken, other.holds)
    assert one.checked >= 40  # those that expired while they waited for b2 are not owed
    assert other.broken == (name != "stored")
    for verdict in (one, other):
        assert [(each["subscriber"], each["source"]) for each in verdict.examples] == [("s", "p")] * other.broken


def test_what_may_still_come_as_the_trace_ends_is_not_judged(tmp_path: Path) -> None:
    """The broker that may hold it is down; its restart would have had to bring it."""
    simulate(audit_runs.STORED.replace("at_s = 1.5", "at_s = 19").replace("for_s = 1", "for_s = 9"), tmp_path / "down")
    folder = audit_runs.without_an_acknowledged_one(tmp_path / "down", "down, one lost")
    with embedded_audit([folder]) as found:
        (run,) = found.runs
    one, other = check(folder)["P5"], run.verdicts["P5"]
    assert (one.checked, one.broken) == (other.checked, other.broken)
    assert other.holds and other.checked >= 40


def test_both_checkers_leave_out_what_came_before_its_subscription_was_owed_it(tmp_path: Path) -> None:
    simulate(hopping_scenario(82), tmp_path / "drawn")
    with embedded_audit([tmp_path / "drawn"]) as found:
        (run,) = found.runs
    one, other = check(run.folder)["P5"], run.verdicts["P5"]
    assert (one.checked, one.broken, one.holds) == (other.checked, other.broken, other.holds)
    assert one.checked > 100


def test_where_nothing_was_acknowledged_p5_is_not_judged(audited_traces: Audited) -> None:
    verdict = audited_traces.runs["honest"].verdicts["P5"]
    assert (verdict.checked, verdict.note) == (0, "the trace has no acknowledgements")


def test_an_honest_run_keeps_every_promise(audited_traces: Audited) -> None:
    run = audited_traces.runs["honest"]
    assert not run.broken
    assert all(run.verdicts[name].checked > 40 for name in ("P1", "P2", "P3", "P4"))


def test_examples_are_few_and_the_first_ones(audited_traces: Audited) -> None:
    verdict = audited_traces.runs["orders"].verdicts["P3"]
    assert verdict.broken > len(verdict.examples) == 5
    times = [each["arrived_us"] for each in verdict.examples]
    assert times == sorted(times)


# P1 and P4 at the edges of a subscription's life -------------------------------------------------------------------


def test_what_is_owed_and_what_may_be_delivered_at_the_ends_of_a_life(audited_traces: Audited) -> None:
    rows = audited_traces.figures("lives", "subscriber")
    owed = {row["subscriber"]: (row["owed"], row["unowed"]) for row in rows}
    assert owed["s"] == (2, 3)  # from 10 until 20: 10 and 15 are inside, 20 is not
    assert owed["young"] == (5, 0)
    foreign = audited_traces.runs["lives"].verdicts["P1"]
    assert [each["seq"] for each in foreign.examples] == [4]  # it was published after the end


def test_a_loss_without_a_cause_breaks_p4_unless_the_subscription_had_just_begun(audited_traces: Audited) -> None:
    verdict = audited_traces.runs["lives"].verdicts["P4"]
    assert (verdict.holds, verdict.broken) == (False, 5)
    assert "could have cost 4 of" in verdict.note  # news of a subscription takes its time to get through


def test_lost_messages_and_crashes_explain_losses(audited_traces: Audited) -> None:
    verdict = audited_traces.runs["churn"].verdicts["P4"]
    assert verdict.holds
    assert "Publish lost" in verdict.note
    assert "crash (1)" in verdict.note


def judged(run: Any, file: str = "", **asked: float) -> dict[str, Any]:
    """The promises of a run's figures, had its file and the caller asked for these things."""
    from holdfast.books.outcome import Outcome
    from holdfast.pipeline.audit.promises import Asked, Costs, from_figures
    from holdfast.pipeline.audit.trace_footers import RunFooters

    trace = RunFooters(run.label, run.folder, {"file": file}, {}, {})
    return from_figures(trace, run.figures, Outcome(), Costs(), Asked(**asked))


def test_a_rate_that_was_asked_for_is_judged_whatever_the_causes(audited_traces: Audited) -> None:
    run = audited_traces.runs["lives"]
    assert (run.outcome.delivered, run.outcome.owed) == (10, 15)
    assert judged(run, delivery_min=0.66)["P4"].holds
    assert not judged(run, delivery_min=0.67)["P4"].holds


@pytest.mark.parametrize(
    ("order", "holds"),
    [
        ("", True),
        ('order = "strict"', False),
        ('order = "fifo"', False),  # all that came too late remained, not half a per cent of it
        ('order = "fifo"\norder_target = 0.05', False),
        ('order = "fifo"\norder_target = 0.4', True),  # one of one is within chance
    ],
)
def test_order_is_judged_by_what_the_runs_file_promises(audited_traces: Audited, order: str, holds: bool) -> None:
    run = audited_traces.runs["out-of-order"]
    assert (run.outcome.fifo_violations, run.figures["behind"], run.figures["deliveries"]) == (1, 1, 50)
    assert judged(run, f"[reliability]\n{order}")["P3"].holds is holds
    assert not judged(run, f"[reliability]\n{order}", violations_max=0.0)["P3"].holds


def test_a_trace_of_format_2_is_audited_as_if_it_were_of_today(audited_traces: Audited) -> None:
    run = audited_traces.runs["format 2"]
    outcome = run.outcome  # what version 0.1 said of its own run
    assert (outcome.published, outcome.owed, outcome.delivered, outcome.lost, outcome.late) == (30, 60, 20, 38, 2)
    assert (outcome.incidents["unrecoverable"], outcome.incidents["failover_requested"]) == (40, 2)
    assert (outcome.messages["Heartbeat"]["sent"], outcome.messages["Delta"]["sent"]) == (241, 33)
    assert (run.verdicts["P6"].holds, run.verdicts["P6"].checked, run.verdicts["P7"].checked) == (True, 14, 838)


# P8 ----------------------------------------------------------------------------------------------------------------


def test_the_same_file_and_seed_must_give_the_same_bytes(audited_traces: Audited, tmp_path: Path) -> None:
    from holdfast.pipeline.audit.promises import same_bytes
    from holdfast.pipeline.audit.trace_footers import read_footers

    engine = EmbeddedEngine()
    honest, again, spoiled = audited_traces.folders["honest"], tmp_path / "again", tmp_path / "spoiled"
    simulate(audit_runs.HONEST, again)
    shutil.copytree(again, spoiled)
    rewrite(spoiled, "deliveries", audit_runs.missing)
    opened = read_footers([honest, again, spoiled])
    same = same_bytes(engine, opened[:2])
    assert [verdict.holds for verdict in same.values()] == [True, True]
    assert same["again"].checked == same_trace(honest, again).checked
    other = same_bytes(engine, [opened[0], opened[2]])
    assert [verdict.holds for verdict in other.values()] == [False, False]
    assert other["spoiled"].examples[0]["file"] == "deliveries/part-00000.parquet"
    assert same_trace(honest, spoiled).broken == other["spoiled"].broken == 1
    reseeded = replace(opened[1], about={**opened[1].about, "seed": 9})
    assert [verdict.checked for verdict in same_bytes(engine, [opened[0], reseeded]).values()] == [0, 0]

"""The reliable bench: its judge convicts every kind of tampering, its checks fail what they should, nothing hangs."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.page import PAGE
from bench.reliable import CROWD, FULL, JUDGED, LARGE, QUICK, SMALL, Found, Row, as_data, checks
from bench.reliable_arena import Arena, Shape, Turn
from bench.reliable_peers import PUBLISHERS, SUBSCRIBERS
from bench.reliable_report import plain, section
from bench.reliable_scene import SYSTEMS, Outcome
from bench.reliable_work import Numbers, Verdict, Work, judged, work
from bench.results import load, saved_at
from holdfast import parse

POOL: list[dict[str, Any]] = [{"a": 1}, {"a": 2, "b": "x"}, {"b": "y"}]


def numbers(*each: int) -> Numbers:
    return np.array(each, np.int64)


def test_what_is_owed_follows_from_the_pool_and_the_numbers() -> None:
    few = Work("few", POOL, [["a > 0", "NOT a = 1", "b LIKE 'y%' OR a IS NULL"]])
    above, other, text = few.owed(0, first=2, count=6)  # places 2, 0, 1, 2, 0, 1
    assert above.tolist() == [3, 4, 6, 7]
    assert other.tolist() == [4, 7]  # with NULL it is unknown, not true
    assert text.tolist() == [2, 5]
    assert few.event(4) == {"a": 2, "b": "x", "seq": 4}


@pytest.mark.parametrize(
    ("came", "verdict"),
    [
        (numbers(2, 5, 8, 11), Verdict(owed=4)),
        (numbers(2, 5, 11), Verdict(owed=4, missing=1)),
        (numbers(), Verdict(owed=4, missing=4)),
        (numbers(2, 5, 5, 8, 11), Verdict(owed=4, doubled=1)),
        (numbers(2, 5, 8, 11, 2), Verdict(owed=4, doubled=1)),
        (numbers(2, 8, 5, 11), Verdict(owed=4, swapped=1)),
        (numbers(11, 2, 5, 8), Verdict(owed=4, swapped=3)),
        (numbers(2, 5, 6, 8, 11), Verdict(owed=4, unowed=1)),
        (numbers(2, 5, 5, 11), Verdict(owed=4, missing=1, doubled=1)),  # as many as were owed
    ],
)
def test_the_judge_convicts_a_lost_a_doubled_a_swapped_and_a_foreign_delivery(came: Numbers, verdict: Verdict) -> None:
    owed = [numbers(0, 1), numbers(2, 5, 8, 11)]
    found = judged(owed, [owed[0], came])
    assert found == Verdict(owed=2) + verdict
    assert found.whole == (came.tolist() in ([2, 5, 8, 11], [2, 8, 5, 11], [11, 2, 5, 8]))


def test_each_workload_has_the_conditions_that_the_page_speaks_of() -> None:
    for name, each, wanted in (("stock", 250, (6, 14)), ("text", 150, (0.5, 3))):
        given = work(name, 4)
        assert [len(conditions) for conditions in given.conditions] == [each] * 4
        pairs = sum(len(places) for subscriber in given.places for places in subscriber)
        assert wanted[0] < pairs / len(given.pool) < wanted[1]
    texts = " ".join(condition for conditions in work("text", 4).conditions for condition in conditions)
    assert all(word in texts for word in ("LIKE", " OR ", "NOT ", "IS NULL"))


def test_the_judge_and_our_matcher_agree_on_a_sample() -> None:
    for name in ("stock", "text"):
        given = work(name, 4)
        for condition, places in list(zip(given.conditions[3], given.places[3], strict=True))[:12]:
            wanted = parse(condition)
            assert places.tolist() == [i for i, event in enumerate(given.pool) if wanted.matches(event)]


def turn(took_s: float, events: int = JUDGED, finished: bool = True, verdict: Verdict | None = None) -> Turn:
    cpu_us = {"publisher": 1.0, "brokers": 2.0, "subscribers": 3.0}
    given = verdict or Verdict(100)
    return Turn(events, finished, took_s, given, Counter({"gone": 3}), 0, [], 1.0, 2.0, cpu_us)


def found() -> Found:
    rows: dict[Row, list[Turn | str]] = {
        Row(CROWD, "best effort", JUDGED): [turn(1.0), turn(4.0), turn(3.0)],
        Row(CROWD, "recovery", JUDGED): [turn(1.25), turn(8.0), turn(3.0)],
        Row(CROWD, "strict", SMALL): [turn(1.0, SMALL)],
        Row(CROWD, "strict", LARGE): [turn(69.0, LARGE), "the run's 1080 s are over"],
        Row(CROWD, "fifo", JUDGED): [turn(9.0, finished=False, verdict=Verdict(100, 7)), "40,000 did not finish"],
        Row(CROWD, "fifo", JUDGED, steady=True): [turn(3.0)],
    }
    scenes = {
        "holdfast, strict": Outcome(10, 3.0, Verdict(40, missing=2), Counter({"away": 2})),
        "holdfast, stored": Outcome(10, 3.0, Verdict(40), Counter()),
        "mosquitto": Outcome(10, 3.0, Verdict(40, missing=9), Counter()),
    }
    return Found(rows, scenes)


def test_a_share_is_the_median_of_the_rounds_shares_and_growth_that_of_the_times() -> None:
    by_name = {each.name: each for each in checks(found())}
    (share,) = [each for name, each in by_name.items() if name.startswith("recovery: share")]
    assert (share.measured, share.holds) == (0.8, True)  # of 0.8, 0.5 and 1
    (growth,) = [each for name, each in by_name.items() if "as long" in name]
    assert (growth.measured, growth.holds) == (69.0, True)


def test_what_was_lost_or_not_finished_fails_the_run() -> None:
    failed = {each.name for each in checks(found()) if not each.holds}
    assert failed == {
        "fifo: deliveries missing, doubled or not owed",
        "fifo: rows not finished",
        "holdfast, strict, killed: deliveries lost, doubled or swapped",
    }


def test_text_and_page_show_every_row_scene_and_check() -> None:
    data = as_data(found(), ["rabbitmq: not installed"], FULL)
    for shown in (plain(data), section(data)):
        for words in ("0.80", "of 100: 7 missing", "losses(): 3 gone", "mosquitto", "1 of 1 rounds not finished", "NO"):
            assert words in shown
    assert "left out: rabbitmq" in plain(data)


def test_every_system_has_its_clients_and_every_plan_gives_bursts_in_growing_size() -> None:
    assert set(SYSTEMS) == set(PUBLISHERS) == set(SUBSCRIBERS)
    for plan in (FULL, QUICK):
        for shape in plan.shapes():
            sizes = [events for each, events, _ in plan.bursts if each == shape]
            assert sizes == sorted(sizes)


def test_the_page_is_what_the_saved_results_make() -> None:
    saved = load(saved_at("reliable"))
    if saved is None:
        pytest.skip("the reliable bench has not been saved yet")
    assert section(saved).strip() in PAGE.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["best effort", "strict"])
def test_a_mode_delivers_a_small_burst_whole_and_one_cut_short_is_over_at_its_limit(mode: str, tmp_path: Path) -> None:
    arena = Arena(Shape("text", 2, 1), mode, tmp_path / "arena")
    try:
        small = arena.turn(2_000, limit_s=60)
        assert small.finished
        assert small.verdict == Verdict(small.verdict.owed)
        assert small.verdict.owed > 0
        cut = arena.turn(100_000, limit_s=0.01)
        assert not cut.finished
        assert cut.verdict.missing > 0
        assert arena.turn(100, limit_s=60).finished  # in a new arena
    finally:
        arena.stop()

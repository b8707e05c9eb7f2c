"""Following a trace that grows: in steps, killed and taken up again, in the end what the audit of the whole says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from holdfast.books.trace import GROWING, SCHEMAS, TraceWriter
from holdfast.model.errors import InputError
from holdfast.model.messages import Publication
from holdfast.pipeline.audit.follow import Followed, Following, newest
from holdfast.pipeline.audit.window import FIGURES, SECONDS
from holdfast.pipeline.engine import EngineName
from tests.pipeline import audit_runs
from tests.pipeline.conftest import Audited, embedded_audit

SETTLE_US = 1_000_000
STEPS = [500_000, 2_000_000, 3_500_000, 6_000_000, 20_000_000]
_TIME = {"publications": "time_us", "deliveries": "time_us", "incidents": "time_us", "samples": "time_us",
         "messages": "until_us", "links": "until_us"}  # fmt: skip


class Growing:
    """A finished trace, written anew in steps of time as a live run writes one."""

    def __init__(self, whole: Path, folder: Path) -> None:
        self._tables = {name: pq.read_table(whole / name) for name in ("run", "publications", *SCHEMAS)}
        self._folder, self._done_us, self._counts = folder, -(2**62), dict[str, int]()
        self._write("run", self._tables["run"])

    def until(self, time_us: int, ended: bool = False) -> list[Path]:
        """What has happened since, and a mark behind it."""
        low, high = self._done_us, 2**62 if ended else time_us
        written = []
        for name, column in _TIME.items():
            times = self._tables[name][column]
            rows = self._tables[name].filter(pc.and_(pc.greater(times, low), pc.less_equal(times, high)))
            if rows.num_rows or (ended and name not in self._counts):
                written.append(self._write(name, rows))
        wishes = self._tables["subscriptions"].to_pylist()
        begun = [row for row in wishes if low < row["from_us"] <= high]
        done = [row for row in wishes if row["until_us"] is not None and low < row["until_us"] <= high]
        done += [row for row in wishes if ended and row["until_us"] is None]
        written.append(self._write("begun", pa.Table.from_pylist(begun, GROWING["begun"])))
        if done or ended:
            written.append(self._write("subscriptions", pa.Table.from_pylist(done, SCHEMAS["subscriptions"])))
        mark = {"time_us": time_us, "ended": ended, "parts": json.dumps(self._counts)}
        written.append(self._write("marks", pa.Table.from_pylist([mark], GROWING["marks"])))
        self._done_us = high
        return written

    def _write(self, name: str, rows: pa.Table) -> Path:
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        place = self._folder / name / f"part-{number:05}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, place)
        return place


def followed(
    tmp_path: Path, whole: Path, steps: list[int], engine: EngineName = "embedded"
) -> tuple[Following, Iterator[Followed]]:
    told: list[Followed] = []
    growing = Growing(whole, tmp_path / "run")
    following = Following(tmp_path / "run", tmp_path / "state", SETTLE_US, engine, told.append)
    following.checkpoint.mkdir()

    def all_steps() -> Iterator[Followed]:
        first = [tmp_path / "run" / "run" / "part-00000.parquet"]
        for batch, time_us in enumerate(steps):
            following.take([*first, *growing.until(time_us, time_us == steps[-1])], batch)
            first = []
            yield told[-1]

    return following, all_steps()


def pairs(found: Path) -> list[tuple[Any, ...]]:
    names = ", ".join(("subscriber", "source", *FIGURES, "fifo_violations"))
    rows = duckdb.sql(f"SELECT {names} FROM read_parquet('{found / 'pairs.parquet'}')").fetchall()
    return sorted(row for row in rows if any(row[2:]))


def audited_pairs(audited: Audited, name: str) -> list[tuple[Any, ...]]:
    rows = audited.figures(audited.folders[name].resolve().name, "pair")
    names = ("subscriber", "source", *FIGURES, "fifo_violations")
    return sorted(tuple(row[each] for each in names) for row in rows)


# Final only when it is -----------------------------------------------------------------------------------------------


def grown(folder: Path) -> TraceWriter:
    trace = TraceWriter(folder, {"name": "by hand", "driver": "live"}, grows=True)
    trace.begun("s", "0", "n = 1", 0)
    return trace


def publish(trace: TraceWriter, seq: int, time_us: int, lifetime_us: int | None = None) -> None:
    trace.publication(Publication("p", seq, time_us, lifetime_us, {"n": 1}), 10)


def new_files(folder: Path, known: set[Path]) -> list[Path]:
    found = sorted({*folder.glob("*/*.parquet")} - known)
    known |= {*found}
    return found


def test_a_delivery_is_lost_for_good_when_its_lifetime_has_passed_and_not_before(tmp_path: Path) -> None:
    told: list[Followed] = []
    following = Following(tmp_path / "run", tmp_path / "state", SETTLE_US, on_batch=told.append)
    trace, known = grown(tmp_path / "run"), set[Path]()
    following.check()
    publish(trace, 1, 100_000, 2_000_000)
    publish(trace, 2, 100_000)  # lives for ever
    publish(trace, 3, 100_000, 2_000_000)
    trace.add("deliveries", "s", "p", 3, 150_000, "original", 0)
    for batch, time_us in enumerate((2_500_000, 3_100_000, 60_000_000)):
        trace.mark(time_us)
        following.take(new_files(tmp_path / "run", known), batch)
    assert [(each.totals["owed"], each.totals["delivered"], each.totals["lost"], each.waiting) for each in told] == [
        (1, 1, 0, 2),
        (2, 1, 1, 1),
        (2, 1, 1, 1),
    ]
    trace.add("deliveries", "s", "p", 2, 60_500_000, "repair", 0)
    trace.add("subscriptions", "s", "0", "n = 1", 0, None)
    trace.close(61_000_000)
    following.take(new_files(tmp_path / "run", known), 3)
    last = told[-1]
    assert (last.totals["owed"], last.totals["delivered"], last.totals["recovered"], last.waiting) == (3, 2, 1, 0)
    assert following.ended.is_set()
    with embedded_audit([tmp_path / "run"]) as whole:
        assert whole.runs[0].outcome.delivered == 2


def test_what_comes_when_its_event_is_final_is_counted_and_accuses_nobody(tmp_path: Path) -> None:
    told: list[Followed] = []
    following = Following(tmp_path / "run", tmp_path / "state", SETTLE_US, on_batch=told.append)
    trace, known = grown(tmp_path / "run"), set[Path]()
    following.check()
    publish(trace, 1, 100_000)
    trace.add("deliveries", "s", "p", 1, 150_000, "original", 0)
    trace.mark(5_000_000)
    following.take(new_files(tmp_path / "run", known), 0)
    trace.add("deliveries", "s", "p", 1, 5_100_000, "repair", 0)
    trace.mark(9_000_000)
    following.take(new_files(tmp_path / "run", known), 1)
    assert told[-1].about.afterwards == 1
    assert told[-1].totals["delivered"] == 1
    assert not any(holds is False for holds in told[-1].verdicts.values())


def test_a_mark_counts_when_all_parts_before_it_have_been_found(tmp_path: Path) -> None:
    told: list[Followed] = []
    following = Following(tmp_path / "run", tmp_path / "state", SETTLE_US, on_batch=told.append)
    trace, known = grown(tmp_path / "run"), set[Path]()
    following.check()
    publish(trace, 1, 100_000)
    trace.add("deliveries", "s", "p", 1, 150_000, "original", 0)
    trace.mark(5_000_000)
    files = new_files(tmp_path / "run", known)
    late = [each for each in files if each.parent.name == "deliveries"]
    following.take([each for each in files if each not in late], 0)
    following.take(late, 1)
    assert [(each.about.marked_us, each.totals["delivered"]) for each in told] == [(0, 0), (5_000_000, 1)]


def test_a_batch_that_was_done_is_not_done_again(audited_traces: Audited, tmp_path: Path) -> None:
    following, steps = followed(tmp_path, audited_traces.folders["churn"], STEPS)
    next(steps), next(steps)
    before = pairs(newest(following.checkpoint))
    again = Following(following.run, following.checkpoint, SETTLE_US, on_batch=lambda found: pytest.fail("done again"))
    again.take([*(tmp_path / "run").glob("*/*.parquet")], 1)
    assert pairs(newest(following.checkpoint)) == before


def test_a_trace_that_does_not_grow_is_refused(audited_traces: Audited, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not grow"):
        Following(audited_traces.folders["churn"], tmp_path, SETTLE_US).check()


# As a Spark job -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
def test_followed_on_spark_and_killed_between_and_within_batches_it_goes_on(
    audited_traces: Audited, tmp_path: Path
) -> None:
    """By the command, ended by kill -9 at a moment drawn for each step; the last one runs to the end."""
    growing = Growing(audited_traces.folders["churn"], tmp_path / "run")
    words = ["audit", str(tmp_path / "run"), "--follow", "--checkpoint", str(tmp_path / "state"), "--settle", "1"]
    dice = Random(7)
    for number, time_us in enumerate(STEPS[:-1]):
        growing.until(time_us)
        process = holdfast([*words, "--json"])
        waited = monotonic() + 90
        while not (tmp_path / "state" / f"_batch={number}").exists() and process.poll() is None:
            assert monotonic() < waited
            sleep(0.02)
        sleep(dice.random())
        process.kill()
        process.communicate()
    growing.until(STEPS[-1], ended=True)
    told, _ = holdfast([*words, "--json"]).communicate(timeout=120)
    *lines, whole = map(json.loads, told.splitlines())
    assert lines[-1]["ended"]
    assert pairs(newest(tmp_path / "state")) == audited_pairs(audited_traces, "churn")
    assert lines[-1]["final"]["delivered"] == whole["delivered"] == audited_traces.told["churn"]["delivered"]
    assert lines[-1]["final"]["lost"] == whole["lost"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_large_window_is_spark_s_work(spark: Any, audited_traces: Audited, tmp_path: Path) -> None:
    following, steps = followed(tmp_path, audited_traces.folders["churn"], STEPS[-2:], "spark")
    assert [each.about.ended for each in steps] == [False, True]
    assert pairs(newest(following.checkpoint)) == audited_pairs(audited_traces, "churn")


@pytest.mark.slow
@pytest.mark.spark
def test_a_live_run_is_followed_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(audit_runs.LIVE.replace("duration_s = 1.5", "duration_s = 12"))
    up = holdfast(["up", str(file), "--in-process", "--json", "--grow", "1", "--out", str(tmp_path / "run")])
    waited = monotonic() + 60
    while not (tmp_path / "run" / "marks").exists():
        assert monotonic() < waited
        sleep(0.05)
    follow = holdfast(["audit", str(tmp_path / "run"), "--follow", "--settle", "2", "--json"])
    told, _ = follow.communicate(timeout=120)
    *lines, whole = map(json.loads, told.splitlines())
    counted = json.loads(up.communicate(timeout=60)[0])
    assert lines
    assert lines[-1]["ended"]
    assert lines[-1]["open"] == 0
    for name in ("owed", "delivered", "lost", "duplicates", "unowed"):
        assert lines[-1]["final"][name] == whole[name] == counted[name], name


def holdfast(words: list[str]) -> "subprocess.Popen[str]":
    program = [sys.executable, "-c", "from holdfast.cli import main; main()", *words]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


# The whole ------------------------------------------------------------------------------------------------------------


# `out-of-order` and `duplicate` break promises, `names` has attributes of every type, `orders` events of one moment
@pytest.mark.parametrize(
    "name",
    [
        "churn",
        "out-of-order",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("honest", "careful", "swarm", "stored", "duplicate", "foreign", "names", "orders")
        ),
    ],
)
def test_a_trace_followed_in_steps_ends_with_the_figures_of_the_whole(
    name: str, audited_traces: Audited, tmp_path: Path
) -> None:
    following, steps = followed(tmp_path, audited_traces.folders[name], STEPS)
    *_, last = steps
    assert following.ended.is_set()
    assert pairs(newest(following.checkpoint)) == audited_pairs(audited_traces, name)
    assert last.waiting == last.about.afterwards == 0
    run = audited_traces.runs[audited_traces.folders[name].resolve().name]
    assert last.about.published == run.outcome.published
    seconds = [row for row in audited_traces.audit.seconds.dicts() if row["run"] == run.label]
    assert last.lately == {each: sum(row[each] for row in seconds) for each in SECONDS}
    broken = {each for each, verdict in run.verdicts.items() if not verdict.holds} & {*last.verdicts}
    assert broken == {each for each, holds in last.verdicts.items() if holds is False}

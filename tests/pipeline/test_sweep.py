"""Sweeps on Spark: the same rows as one process gives, nothing run twice, and failures that stay alone."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from holdfast import cli
from holdfast.books.runs import Run, same_bytes
from holdfast.books.trace import TraceWriter
from holdfast.model.errors import InputError
from holdfast.network.problems import NetworkError
from holdfast.network.schema import Network
from holdfast.network.writing import to_toml
from holdfast.pipeline.sweep.cell import CellRecord, run_cell
from holdfast.pipeline.sweep.chart import Chart, draw
from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import Point, SweepAxis, SweepCell, SweepPlan, network_document
from holdfast.pipeline.sweep.process import run_apart
from holdfast.pipeline.sweep.progress import Progress
from holdfast.sim.simulator import Simulation

NETWORK: dict[str, Any] = {
    "duration_s": 2,
    "topology": {"kind": "line", "brokers": 3},
    "links": {"loss": 0.3},
    "clients": {},
    "workload": {"kind": "patterns", "rate_per_s": 20},
}
LOSSES = [0.0, 0.2]
SWEEP = """\
network = "net.toml"
seeds = 3

[grid]
links.loss = [0, 0.2]

[[chart]]
y = "delivery_ratio"
x = "links.loss"
"""


def small_plan(**more: Any) -> SweepPlan:
    return plan(NETWORK, {"links.loss": LOSSES}, seeds=3, **more)


def half_broken() -> SweepPlan:
    """A plan of which every second cell fails: made by hand, because a check would refuse it."""
    points = tuple(Point(loss, {"links.loss": loss}) for loss in (0.2, 5.0))
    return SweepPlan(network_document(NETWORK), (SweepAxis("links.loss", points),), (1, 2))


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(each) for each in words])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def rows_of(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "runs").sort_by("cell").to_pylist()
    return found


def state_of(folder: Path) -> dict[str, int]:
    """Each finished cell's file and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}


@pytest.fixture(scope="module")
def finished(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from holdfast.pipeline.sweep.job import sweep

    out = tmp_path_factory.mktemp("sweep") / "out"
    sweep(spark, small_plan(traces=True), out)
    return out


def test_a_row_is_what_the_simulator_says_to_the_same_settings(finished: Path) -> None:
    for row in rows_of(finished):
        network = small_plan().network_of(SweepCell(0, row["seed"], {"links.loss": row["links.loss"]}, {}))
        outcome = Simulation(network).run()
        assert (row["published"], row["owed"], row["delivered"]) == (
            outcome.published,
            outcome.owed,
            outcome.delivered,
        )
        assert row["delivery_ratio"] == outcome.delivery_ratio
        assert row["delay_us.p50"] == outcome.delay_us["p50"]
        for kind, counts in outcome.messages.items():
            assert {name: row[f"messages.{kind}.{name}"] for name in counts} == counts


def test_one_process_and_spark_give_the_same_records(finished: Path) -> None:
    folder = SweepFolder(finished)
    for number in range(6):
        here, there = run_cell(small_plan(), number), folder.record(number)
        assert there is not None
        assert (here.seed, here.counts, here.measures, here.error) == (
            there.seed,
            there.counts,
            there.measures,
            there.error,
        )


def test_settings_are_typed_columns_and_every_run_is_a_row(finished: Path) -> None:
    found = [(row["cell"], row["links.loss"], row["seed"], row["error"]) for row in rows_of(finished)]
    assert found == [
        (at, loss, seed, None) for at, (loss, seed) in enumerate((a, b) for a in LOSSES for b in (1, 2, 3))
    ]
    types = {field.name: str(field.type) for field in pq.read_table(finished / "runs").schema}
    assert types["links.loss"] == "double" and types["published"] == "int64" and types["delivery_ratio"] == "double"


def test_the_summary_has_means_and_students_intervals(finished: Path) -> None:
    """DuckDB and the statistics module judge; 4.303 is the tables' value for two degrees of freedom."""
    summary = duckdb.sql(
        f"""SELECT "links.loss", n, mean, low, high, least, most FROM '{finished}/summary/*.parquet'
            WHERE metric = 'delivery_ratio' ORDER BY 1"""
    ).fetchall()
    assert [row[0] for row in summary] == LOSSES
    for loss, n, average, low, high, least, most in summary:
        values = [row["delivery_ratio"] for row in rows_of(finished) if row["links.loss"] == loss]
        half = 4.303 * stdev(values) / 3**0.5
        assert n == 3 and (least, most) == (min(values), max(values))
        assert average == pytest.approx(mean(values))
        assert (low, high) == (
            pytest.approx(mean(values) - half, rel=1e-3),
            pytest.approx(mean(values) + half, rel=1e-3),
        )


def test_own_metrics_are_columns_that_are_summed_up_and_drawn_too(spark: Any, finished: Path, tmp_path: Path) -> None:
    from holdfast.pipeline.sweep.tables import summary_table

    runs = spark.read.parquet(str(finished / "runs"))
    more = runs.withColumn("overhead", runs.transmissions / runs.delivered)
    summary_table(more, ["links.loss"], seeds=3).write.parquet(str(tmp_path / "summary"))
    found = duckdb.sql(
        f"SELECT mean FROM '{tmp_path}/summary/*.parquet' WHERE metric = 'overhead' ORDER BY 1"
    ).fetchall()
    expected = duckdb.sql(
        f"""SELECT avg(transmissions / delivered) FROM '{finished}/runs/*.parquet' GROUP BY "links.loss" ORDER BY 1"""
    ).fetchall()
    assert [mean for (mean,) in found] == pytest.approx([mean for (mean,) in expected])
    assert draw(Chart("overhead", "links.loss"), tmp_path / "summary", {"links.loss": LOSSES}, tmp_path).exists()


def test_a_kept_trace_is_the_run_itself(finished: Path, tmp_path: Path) -> None:
    number = 4
    cell = small_plan().cell(number)
    network = small_plan().network_of(cell)
    trace = finished / "traces" / f"{number:05}"
    about = Run(trace).about
    about.pop("format")
    Simulation(network, trace=TraceWriter(tmp_path / "run", about)).run()
    assert same_bytes(trace, tmp_path / "run") == []
    assert len(list((finished / "traces").iterdir())) == 6


def test_only_what_is_missing_is_run(spark: Any, tmp_path: Path) -> None:
    from holdfast.pipeline.sweep.job import run_cells, sweep

    folder = SweepFolder(tmp_path / "out")
    with folder.locked(small_plan()):
        run_cells(spark, small_plan(), folder, [1, 4])
    before = state_of(folder.path)
    (folder.path / "cells" / ".00002.json.77").write_text('{"cell": 2, "se')  # somebody was killed while writing
    seen: list[Progress] = []
    runs = sweep(spark, small_plan(), folder.path, watch=seen.append)
    after = state_of(folder.path)
    assert len(after) == runs.count() == 6
    assert {name: after[name] for name in before} == before
    assert (seen[-1].total, seen[-1].before, seen[-1].done, seen[-1].failed) == (6, 2, 6, 0)
    assert [row["delivered"] for row in rows_of(folder.path)] == [
        run_cell(small_plan(), number).counts["delivered"] for number in range(6)
    ]


def test_failures_are_rows_with_their_error_and_do_not_lose_the_rest(spark: Any, tmp_path: Path) -> None:
    from holdfast.pipeline.sweep.job import sweep

    sweep(spark, half_broken(), tmp_path / "out")
    first, second, third, fourth = rows_of(tmp_path / "out")
    assert first["error"] is None and first["delivered"] > 0 and second["error"] is None
    for row in (third, fourth):
        assert "links.loss: found 5.0, expected a number from 0 to 1" in row["error"]
        assert (row["links.loss"], row["delivered"], row["messages.Publish.sent"]) == (5.0, None, None)
    assert (third["seed"], fourth["seed"]) == (1, 2)
    summary = pq.read_table(tmp_path / "out" / "summary").to_pylist()
    assert {row["links.loss"] for row in summary} == {0.2}
    before = state_of(tmp_path / "out")
    sweep(spark, half_broken(), tmp_path / "out")
    after = state_of(tmp_path / "out")
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"00002.failed.json", "00003.failed.json"}  # tried again, the others not


class _Deadly(SweepPlan):
    def network_of(self, cell: SweepCell) -> Network:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_cell_that_is_killed_is_recorded_and_its_worker_lives_on(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "out")
    deadly = _Deadly(network_document(NETWORK), seeds=(8,))
    with folder.locked(deadly):
        run_apart(deadly, folder, 0)
    record = folder.record(0)
    assert record is not None and record.error is not None
    assert (record.seed, "signal 9" in record.error, "memory" in record.error) == (8, True, True)


def test_a_mistake_of_ours_in_a_cell_is_recorded_with_its_calls(tmp_path: Path) -> None:
    broken = SweepPlan(network_document(NETWORK), seeds=("seven",))  # type: ignore[arg-type]
    record = run_cell(broken, 0)
    assert record.error is not None and record.counts == {}


def test_another_sweep_in_the_same_folder_is_refused_with_what_changed(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "out")
    with folder.locked(small_plan()):
        folder.write(CellRecord(0, 1))
    changed = plan(NETWORK | {"duration_s": 3}, {"links.loss": [0.0, 0.4]}, seeds=2, settings={"links.delay_ms": 2})
    with pytest.raises(InputError) as caught, folder.locked(changed):
        pass
    message = str(caught.value)
    assert "holds another sweep" in message and "--overwrite" in message
    for each in ("the network file", "seeds: was [1, 2, 3], is [1, 2]", "links.loss: was [0.0, 0.2], is [0.0, 0.4]"):
        assert f"\n  {each}" in message
    assert "\n  set.links.delay_ms: was null, is 2" in message
    assert folder.done() == {0}
    with folder.locked(changed, overwrite=True):
        assert folder.done() == set()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with (
            pytest.raises(InputError, match=r"no sweep: thesis\.txt"),
            SweepFolder(tmp_path).locked(small_plan(), overwrite),
        ):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_sweeps_do_not_work_in_one_folder_at_once(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "out")
    with folder.locked(small_plan()):
        program = (
            "import sys; from pathlib import Path; from holdfast.pipeline.sweep.folder import SweepFolder\n"
            "from holdfast.pipeline.sweep.plan import SweepPlan, network_document\n"
            "with SweepFolder(Path(sys.argv[1])).locked(SweepPlan(network_document({}))): pass"
        )
        other = subprocess.run(
            [sys.executable, "-c", program, str(folder.path)], capture_output=True, text=True, check=False
        )
    assert "another sweep is running in this folder" in other.stderr


def test_progress_has_a_rate_and_an_estimate() -> None:
    now = Progress(total=100, before=10, done=28, failed=2, seconds=10.0)
    assert (now.rate_per_s, now.left_s) == (2.0, 35.0)
    assert str(now) == "28 of 100 runs done, 2 failed, 2 a second, about 35 s left"
    assert Progress(4, 0, 0, 0, 3.0).left_s is None and Progress(4, 4, 4, 0, 3.0).left_s == 0.0
    assert "about 2 h 46 min left" in str(Progress(10_001, 0, 1, 0, 1.0))


def test_tiny_cells_share_a_task(spark: Any, tmp_path: Path) -> None:
    from holdfast.pipeline.sweep.job import cells_per_task, run_cells

    assert [cells_per_task(mean_s) for mean_s in (0.0, 0.01, 0.2, 1.0, 60.0)] == [1_000, 100, 5, 1, 1]
    tiny = plan({"duration_s": 0.1, "topology": {"brokers": 1}}, seeds=70)
    folder = SweepFolder(tmp_path / "out")
    with folder.locked(tiny):
        run_cells(spark, tiny, folder, list(range(70)))
    assert folder.done() == set(range(70)) and not folder.failed()


def test_the_command_line_runs_reports_and_does_not_run_again(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.toml").write_text(to_toml(NETWORK))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    out = tmp_path / "out"
    code, said, _ = run(capsys, "sweep", tmp_path / "sweep.toml", "--out", out, "--json")
    found = json.loads(said)
    assert code == 0 and (found["runs"], found["ran"], found["done"], found["failed"]) == (6, 6, 6, 0)
    assert Path(found["charts"][0]).read_text().startswith("<svg")
    before = state_of(out)
    code, said, _ = run(
        capsys, "sweep", tmp_path / "sweep.toml", "--out", out, "--chart", "y=delay_us.p50,x=links.loss,file=delay"
    )
    assert code == 0 and "6 were there already" in said and "6 done, 0 failed" in said
    assert (out / "charts" / "delay.svg").exists() and state_of(out) == before
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("seeds = 3", "seeds = 2"))
    code, _, complaint = run(capsys, "sweep", tmp_path / "sweep.toml", "--out", out)
    assert code == 2 and "seeds: was [1, 2, 3], is [1, 2]" in complaint and state_of(out) == before


def test_the_command_line_ends_with_1_and_lists_what_failed(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading the file passes and the run fails: the row that is wrong comes late."""
    (tmp_path / "events.jsonl").write_text('{"at": 0.1, "x": 1}\n{"at": 0.3, "x": 1}\n{"at": 0.2, "x": 1}\n')
    network = {"topology": {"brokers": 1}, "duration_s": 1, "clients": {"count": 2}}
    files = {"kind": "files", "events": "events.jsonl"}
    (tmp_path / "net.toml").write_text(to_toml(network | {"workload": files}))
    (tmp_path / "sweep.toml").write_text(
        'network = "net.toml"\n[[variant]]\nname = "good"\n[[variant]]\nname = "bad"\nset = { workload.time = "at" }\n'
    )
    code, said, _ = run(capsys, "sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out")
    assert code == 1, said
    assert "1 done, 1 failed" in said and "failed: seed 1, workload.time=" in said


def test_a_bad_sweep_file_ends_with_2_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.toml").write_text(to_toml(NETWORK))
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("[0, 0.2]", "[0, 2]"))
    code, said, complaint = run(capsys, "sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out")
    assert (code, said) == (2, "") and "line 5, grid.links.loss.1: found 2" in complaint
    assert not (tmp_path / "out").exists()
    (tmp_path / "sweep.toml").write_text(SWEEP)
    code, _, complaint = run(
        capsys, "sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--chart", "y=lost,x=links.lose"
    )
    assert code == 2 and 'did you mean "links.loss"' in complaint and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_damaged_folder_is_told_with_what_to_do(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.toml").write_text(to_toml(NETWORK))
    (tmp_path / "sweep.toml").write_text('network = "net.toml"\n')
    out = tmp_path / "out [1]"  # no pattern, but a name
    words = ("sweep", tmp_path / "sweep.toml", "--out", out)
    assert run(capsys, *words)[0] == 0
    (out / "cells" / "notes.json").write_text("mine")
    shutil.rmtree(out / "runs")
    assert run(capsys, *words)[0] == 0 and (out / "runs" / "_SUCCESS").exists()
    next((out / "summary").glob("*.parquet")).write_text("x")
    assert "summary: damaged; remove it" in run(capsys, *words)[2]
    shutil.rmtree(out / "summary")
    (out / "cells" / "00000.json").write_text("{")
    assert "00000.json: damaged; remove it" in run(capsys, *words)[2]
    for text in ("{", "[]"):
        (out / "sweep.json").write_text(text)
        code, _, complaint = run(capsys, *words)
        assert code == 2 and "sweep.json: damaged" in complaint


def test_a_plan_with_a_bad_value_is_refused_in_python_too() -> None:
    with pytest.raises(NetworkError, match=r"grid\.links\.loss: found 5"):
        plan(NETWORK, {"links.loss": [5]})

"""A sweep that is killed with SIGKILL in the middle, and started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from holdfast.network.writing import to_toml
from holdfast.pipeline.sweep.cell import run_cell
from holdfast.pipeline.sweep.file import load_sweep
from holdfast.pipeline.sweep.folder import SweepFolder

pytestmark = pytest.mark.slow

WAIT_S = 180  # for the first cells, with a JVM to start on a busy machine
MARK = "HOLDFAST_KILL_TEST"
NETWORK: dict[str, Any] = {
    "duration_s": 20,
    "topology": {"kind": "tree", "brokers": 20},
    "links": {"loss": 0.1},
    "clients": {},
    "workload": {"kind": "patterns", "rate_per_s": 20},
}
SWEEP = 'network = "net.toml"\nseeds = 20\ntraces = true\n[grid]\nlinks.loss = [0, 0.2]\n'


def family(mark: str) -> list[psutil.Process]:
    """Everything that the sweep has started: they share its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def kill_all(mark: str) -> None:
    for _ in range(5):
        left = family(mark)
        for process in left:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=10)


def test_a_killed_sweep_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    from holdfast.pipeline.sweep.job import sweep

    (tmp_path / "net.toml").write_text(to_toml(NETWORK))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    asked, folder = load_sweep(tmp_path / "sweep.toml").plan, SweepFolder(tmp_path / "out")
    program = [sys.executable, "-c", "from holdfast.cli import main; main()", "sweep", "sweep.toml", "--out", "out"]
    environment = os.environ | {MARK: str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + WAIT_S
            while not ((folder.path / "cells").is_dir() and folder.count()[0] >= 3):
                assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
            started = family(str(tmp_path))
            process.kill()
            process.wait()
            _, left = psutil.wait_procs(started, timeout=WAIT_S)
            assert left == [] and family(str(tmp_path)) == []  # neither the JVM nor a simulation outlives it
        finally:
            kill_all(str(tmp_path))
    finished = folder.done()
    assert 3 <= len(finished) < len(asked) and not folder.has_tables
    before = {path.name: path.stat().st_mtime_ns for path in (folder.path / "cells").glob("[0-9]*")}

    sweep(spark, asked, folder.path)
    after = {path.name: path.stat().st_mtime_ns for path in (folder.path / "cells").iterdir()}
    assert {name: after[name] for name in before} == before
    table = pq.read_table(folder.runs).sort_by("cell").to_pylist()
    assert [row["cell"] for row in table] == list(range(40)) and all(row["error"] is None for row in table)
    for number in sorted({0, 39, min(set(range(40)) - finished), max(finished)}):
        expected = run_cell(asked, number)
        assert {name: table[number][name] for name in expected.counts} == expected.counts
    assert len(list((folder.path / "traces").iterdir())) == 40

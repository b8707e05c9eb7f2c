"""Live processes: a broker that is slow gets a replica beside it, which is released, or killed with kill -9."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from holdfast.books.promises import check
from holdfast.books.runs import Run
from tests.pipeline.conftest import spark_audit

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LIVE = """
name = "relieved"
duration_s = 38
routing = "advertisements"
[topology]
kind = "star"
brokers = ["f", "a", "b", "c"]
[transport]
kind = "tcp"
[replication]
protocol = "synchronous"
relieve_delay_ms = 150
release_s = 4
[[client]]
id = "desk"
broker = "a"
advertisements = ["n > 0"]
publish = [{ every_s = 0.01, at_s = 1, until_s = 35, attributes = { n = 7 } }]
[[client]]
id = "one"
broker = "b"
subscriptions = ["n > 5"]
[[client]]
id = "other"
broker = "c"
subscriptions = ["n > 5"]
"""


def process_of(run: psutil.Process, broker: str) -> psutil.Process | None:
    """The process of a member of a live run."""
    for each in run.children():
        if f" {broker} " in " ".join(each.cmdline()).partition("--member")[2] + " ":
            return each
    return None


def slow_down(process: psutil.Process, for_s: float) -> None:
    """Let it run for a quarter of the time."""
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)


def relieved(file: Path, out: Path, victim: str | None) -> set[int]:
    """`holdfast up` with a broker that is slow for some seconds; the processes that its replica had."""
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", str(file), "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    run, seen = psutil.Process(running.pid), set()
    for line in running.stderr:
        if "delivered" in line and "delivered 0" not in line:
            break
    reading = Thread(target=running.stderr.read)
    reading.start()
    faulty = process_of(run, "f")
    assert faulty is not None
    slowing = Thread(target=slow_down, args=(faulty, 8))
    slowing.start()
    while running.poll() is None:
        replica = process_of(run, "f+1")
        if replica is not None and replica.pid not in seen:
            seen.add(replica.pid)
            if victim is not None:
                slowing.join()
                time.sleep(2)
                killed = process_of(run, victim)
                assert killed is not None
                os.kill(killed.pid, signal.SIGKILL)
        time.sleep(0.1)
    slowing.join()
    reading.join()
    assert running.returncode == 0
    return seen


@pytest.mark.parametrize("victim", [None, "f", "f+1"])
def test_a_slow_live_broker_is_relieved_and_only_what_a_killed_one_had_is_lost(
    spark: Any, victim: str | None, tmp_path: Path
) -> None:
    file, out = tmp_path / "net.toml", tmp_path / "run"
    file.write_text(LIVE)
    pids = relieved(file, out, victim)
    incidents = Counter(row["kind"] for row in Run(out).table("incidents").to_pylist())
    with spark_audit(spark, [out]) as found:
        (run,) = found.runs
    theirs = check(out)["P6"]
    assert run.verdicts["P6"].holds
    assert (theirs.checked, theirs.broken) == (run.verdicts["P6"].checked, run.verdicts["P6"].broken)
    assert run.outcome.duplicates == run.outcome.fifo_violations == 0
    assert len(pids) == 1
    if victim != "f+1":
        assert incidents["replica_released"] == incidents["replica_ended"] == 1
        assert not any(map(psutil.pid_exists, pids))
    if victim is None:
        assert run.outcome.lost == 0
    if victim == "f":
        assert incidents["replaced_by"] == 3

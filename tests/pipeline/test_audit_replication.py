"""P6 and the cost of a failover on Spark: the same as the other checker says, and what a live network really lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.books.promises import check
from tests.pipeline.audit_runs import simulate
from tests.pipeline.conftest import spark_audit
from tests.sim.test_replication_promises import BROKEN, REPLACED, broken_copy

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def runs(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Path], dict[str, Any]]]:
    root = tmp_path_factory.mktemp("replaced")
    folders = {}
    for protocol in ("basic", "synchronous", "incremental", "ordered"):
        folders[protocol] = root / protocol
        simulate(REPLACED.replace("PROTOCOL", protocol), root / protocol)
    folders |= {name: broken_copy(folders["synchronous"], name, root) for name in BROKEN}
    with spark_audit(spark, folders.values()) as found:
        yield folders, {run.label: run for run in found.runs}


@pytest.mark.parametrize("name", ["basic", "synchronous", "incremental", "ordered", *BROKEN])
def test_both_checkers_judge_alike(runs: tuple[dict[str, Path], dict[str, Any]], name: str) -> None:
    theirs, ours = check(runs[0][name])["P6"], runs[1][name].verdicts["P6"]
    assert (theirs.checked, theirs.broken, theirs.holds) == (ours.checked, ours.broken, ours.holds)
    assert ours.holds is (name not in BROKEN)
    assert list(ours.examples) == list(theirs.examples)


def test_the_cost_of_a_failover_is_what_was_published_before_all_had_noticed(
    runs: tuple[dict[str, Path], dict[str, Any]],
) -> None:
    (found,) = runs[1]["ordered"].failovers
    assert (found["faulty"], found["failed_us"]) == ("f", 4_000_000)
    assert 0 < found["lost"] <= 4 * found["published"]  # four subscribers
    home = [each for each in runs[1]["ordered"].outcome.incidents if each == "broker_lost"]
    assert home == ["broker_lost"]  # the client of the broker itself misses more: until it has found the replica


LIVE = """
name = "killed"
duration_s = 25
routing = "advertisements"
[topology]
kind = "line"
brokers = ["b1", "b2", "b3", "b4"]
[transport]
kind = "tcp"
[replication]
protocol = "PROTOCOL"
[[client]]
id = "desk"
broker = "b1"
advertisements = ["n > 0"]
publish = [{ every_s = 0.01, at_s = 1, until_s = 22, attributes = { n = 7 } }]
[[client]]
id = "one"
broker = "b3"
subscriptions = ["n > 5"]
[[client]]
id = "other"
broker = "b4"
subscriptions = ["n > 5"]
"""


def killed_under_load(file: Path, out: Path) -> None:
    """`holdfast up`, and kill -9 for one of its brokers as soon as events are delivered."""
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", str(file), "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    killed = False
    for line in running.stderr:
        if not killed and "delivered 0" not in line and "delivered" in line:
            victims = [
                each.pid
                for each in psutil.Process(running.pid).children()
                if " b2" in " ".join(each.cmdline()).partition("--member")[2]
            ]
            os.kill(victims[0], signal.SIGKILL)
            killed = True
    assert running.wait(timeout=120) == 0
    assert killed


@pytest.mark.parametrize("protocol", ["synchronous", "incremental", "ordered"])
def test_a_live_broker_killed_under_load_costs_what_is_published_until_that_is_noticed_and_nothing_else(
    spark: Any, protocol: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "net.toml", tmp_path / "run"
    file.write_text(LIVE.replace("PROTOCOL", protocol))
    killed_under_load(file, out)
    with spark_audit(spark, [out]) as found:
        (run,) = found.runs
        (cost,) = run.failovers
    assert (cost["faulty"], cost["protocol"], cost["use"]) == ("b2", protocol, "failover")
    assert cost["failed_us"] <= cost["noticed_us"] <= cost["asked_us"] <= cost["ready_us"]
    assert cost["lost_outside"] == 0
    assert run.outcome.lost == cost["lost"] <= 2 * (cost["published"] + 100)  # two subscribers, a second on its way
    assert run.verdicts["P6"].holds
    assert run.recovered["replica"] > 0
    assert run.outcome.duplicates == 0
    theirs = check(out)["P6"]
    assert (theirs.checked, theirs.broken) == (run.verdicts["P6"].checked, run.verdicts["P6"].broken)

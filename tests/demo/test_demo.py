"""`holdfast demo` from its beginning to its report, as a user runs it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.snippets import blocks, every_command, matches
from tests.house.tree import ROOT
from tests.pipeline.browser import browser, laid_out_width, screenshot, visit

PATIENCE_S = 900.0  # only so that a run that hangs ends
PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]
SHORT = ("duration_s=14", "workload.stop_s=12", "fault.0.at_s=6")


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "demo", "--out", "out", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    found = demo(tmp_path)
    assert found.returncode == 2
    assert found.stderr == "holdfast: --out out holds what is not part of a demo: thesis.txt; name another\n"
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["thesis.txt"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_short_demo_in_one_process_keeps_its_promises_and_says_so_to_machines(tmp_path: Path) -> None:
    settings = [word for each in SHORT for word in ("--set", each)]
    found = demo(tmp_path, "--in-process", "--json", *settings)
    assert found.returncode == 0, found.stderr
    told: dict[str, Any] = json.loads(found.stdout)
    assert told["delivered"] == told["owed"] > 1_000
    assert told["without_recovery"] + sum(told["recovered"].values()) == told["delivered"]
    assert told["fifo_violations"] == 0 < told["fifo_violations_avoided"]
    [failover] = told["failovers"]
    assert failover["broker"] == "frankfurt"
    assert failover["failed_us"] <= failover["noticed_us"] <= failover["asked_us"] <= failover["ready_us"]
    assert [each["what"] for each in told["expected"]][:2] == ["without recovery", "in the end"]
    assert all(verdict["holds"] for verdict in told["promises"].values())
    assert (tmp_path / told["report"]).exists()
    again = demo(tmp_path, "--in-process", "--json", *settings, "--set", "links.loss=0")
    assert json.loads(again.stdout)["owed"] == told["owed"]  # the old one is replaced


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_of_the_readme_prints_what_it_shows_and_its_report_is_fit_to_be_seen(tmp_path: Path) -> None:
    found = demo(tmp_path)
    assert found.returncode == 0, found.stderr + found.stdout
    assert "kill -9 frankfurt" in found.stderr
    assert matches(numberless(shown_in_readme()), numberless(found.stdout).replace("out/audit", "holdfast-demo/audit"))
    page = tmp_path / found.stdout.splitlines()[-1].removeprefix("report: ")
    text = page.read_text()
    for words in ("Network", "Delivery over time", "Failover", "Predicted and measured", "Delay", "Order", "Promises"):
        assert f"<h2>{words}</h2>" in text, words
    program = browser()
    if program is None:
        pytest.skip("there is no chromium here")
    seen = visit(program, page, tmp_path)
    assert (seen.console, seen.requests) == ([], [])
    for width in (1400, 700):
        assert laid_out_width(program, page, tmp_path, width) <= width
        assert screenshot(program, page, tmp_path, width).stat().st_size > 50_000  # something is drawn


def shown_in_readme() -> str:
    for block in blocks((ROOT / "README.md").read_text(), "README.md"):
        for command, shown in every_command(block.text):
            if command.startswith("./run demo") and shown:
                return shown
    raise AssertionError("the README shows no demo")


def numberless(text: str) -> str:
    """Numbers, their units and how they are set differ from run to run; the words do not."""
    text = re.sub(r"[<>]?\d[\d,.]*", "#", text)
    return re.sub(r"[ \t]+", " ", re.sub(r"# (ms|s|µs|min)\b", "# s", text))

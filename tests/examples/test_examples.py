"""Every example runs, and what it prints is right by another judge than itself."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT, python_files, shown

EXAMPLES = ROOT / "examples"
PATIENCE_S = 600.0  # only so that a hanging example ends
HOLDFAST = [sys.executable, "-c", "from holdfast.cli import main; main()"]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def example(name: str, folder: Path, *arguments: str) -> str:
    return run([sys.executable, str(EXAMPLES / name), *arguments], folder)


def test_quickstart_delivers_to_those_who_asked(tmp_path: Path) -> None:
    cheap, large, *why = example("quickstart.py", tmp_path).splitlines()
    assert cheap.startswith("cheap: ") and "119.5" in cheap
    assert large.startswith("large: ") and "20000" in large
    assert why == ["does not match; closest: price < 120 AND symbol = 'IBM'", "  symbol = 'IBM': symbol is 'MSFT'"]


@pytest.mark.slow
def test_duckdb_counts_from_the_trace_what_the_simulator_counted(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    run([*HOLDFAST, "init", "net.toml"], tmp_path)
    words = ["sim", "net.toml", "--duration", "20", "--out", "run-7", "--json"]
    outcome = json.loads(run([*HOLDFAST, *words], tmp_path))
    found = example("audit_with_duckdb.py", tmp_path, "run-7").splitlines()[-1]
    assert outcome["lost"] > 0
    assert found == "owed {owed}, delivered {delivered}, lost {lost}".format(**outcome)


@pytest.mark.slow
def test_what_was_planned_is_measured(tmp_path: Path) -> None:
    rows = re.findall(
        r"^(\w+) +([\d.]+) +([\d.]+) ± ([\d.]+)$", example("plan_then_measure.py", tmp_path), re.MULTILINE
    )
    assert [row[0] for row in rows] == ["basic", "retransmission"]
    basic = 0.9**3  # three brokers on the way
    assert float(rows[0][1]) == pytest.approx(basic, abs=5e-5)
    for scheme, *numbers in rows:
        predicted, measured, half = map(float, numbers)
        assert abs(predicted - measured) < 2 * half + 0.01, scheme


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_the_lines_of_a_csv_that_are_wanted(tmp_path: Path) -> None:
    assert example("spark_match_your_csv.py", tmp_path).splitlines() == [
        "1 IBM 119.5 300 -> cheap-ibm",
        "2 IBM 131.0 20000 -> large",
        "3 MSFT 41.0 100 -> nobody",
        "4 ORCL 8.75 1200000 -> large, penny",
        "5 IBM 118.0 50 -> cheap-ibm",
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_a_live_network_is_streamed_into_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow.dataset")
    printed = example("stream_to_parquet.py", tmp_path, str(tmp_path))
    assert printed.splitlines()[-1] == f"500 of 1000 trades are in {tmp_path / 'trades'}"
    numbers = pa.dataset(tmp_path / "trades").to_table(columns=["number"])["number"].to_pylist()
    assert sorted(numbers) == [each for each in range(1_000) if each % 20 < 10]


def test_every_example_is_run_by_a_test_and_short() -> None:
    tested = "".join([path.read_text() for path in Path(__file__).parent.glob("test_*.py")])
    for path in python_files("examples/"):
        assert path.name in tested, f"{shown(path)} has no test"
        assert len(path.read_text().splitlines()) <= 100, f"{shown(path)} is too long to be read at a glance"

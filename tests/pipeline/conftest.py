"""For the tests of the pipeline: one audit of many traces, which a dozen tests look at."""

import io
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from holdfast.pipeline.audit.embedded_trace import EmbeddedTraceEngine
from holdfast.pipeline.audit.job import Audit, audited
from holdfast.pipeline.audit.trace_footers import read_footers
from holdfast.pipeline.engine import FEW_ROWS
from holdfast.sim.swarm_scenarios import scenario
from tests.golden.wire import HERE
from tests.pipeline import audit_runs

SWARM_SEED = 11  # with churn, crashes, moves and duplicating links


@dataclass
class Audited:
    folders: dict[str, Path]
    told: dict[str, dict[str, Any]]  # what the runs themselves say, where somebody kept books
    audit: Audit

    @property
    def runs(self) -> dict[str, Any]:
        return {run.label: run for run in self.audit.runs}

    def figures(self, run: str, *scopes: str) -> list[dict[str, Any]]:
        return [row for row in self.audit.figures.dicts() if row["run"] == run and row["scope"] in scopes]


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], dict[str, dict[str, Any]]]:
    """Traces of all kinds: simulated, live, broken on purpose and written by hand."""
    root = tmp_path_factory.mktemp("runs")
    networks: dict[str, Any] = {
        "churn": audit_runs.CHURN,
        "honest": audit_runs.HONEST,
        "careful": audit_runs.CAREFUL,
        "swarm": scenario(SWARM_SEED),
        "stored": audit_runs.STORED,
    }
    with ThreadPoolExecutor() as threads:  # live runs are processes of their own, which mostly wait
        lives = {"live": audit_runs.LIVE, "careful live": audit_runs.CAREFUL}
        begun = {name: threads.submit(audit_runs.live, network, root / name) for name, network in lives.items()}
        told = {name: audit_runs.simulate(network, root / name) for name, network in networks.items()}
        told |= {name: run.result() for name, run in begun.items()}
    folders = {name: root / name for name in told}
    folders |= {name: audit_runs.broken_copy(root / "honest", name) for name in audit_runs.BROKEN}
    folders["stored, one lost"] = audit_runs.without_an_acknowledged_one(root / "stored", "stored, one lost")
    folders["orders"] = audit_runs.orders(root / "orders")
    folders["names"] = audit_runs.names_and_types(root / "names [x] {1,2}*")
    folders["lives"] = audit_runs.lives(root / "lives")
    folders["replaced"] = audit_runs.replaced(root / "replaced")
    folders["quiet"] = audit_runs.written(root / "quiet")
    folders["format 2"] = Path(copytree(HERE / "trace-2", root / "format 2"))
    return folders, told


@pytest.fixture(scope="session")
def audited_traces(traces: tuple[dict[str, Path], dict[str, dict[str, Any]]]) -> Iterator[Audited]:
    """By the embedded engine; tests/pipeline/test_audit_engines.py has Spark's word beside it."""
    folders, told = traces
    with embedded_audit(folders.values()) as found:
        yield Audited(folders, told, found)


def embedded_audit(folders: Iterable[Path]) -> AbstractContextManager[Audit]:
    return audited(EmbeddedTraceEngine(), read_footers(list(folders)))


def spark_audit(spark: Any, folders: Iterable[Path], few_rows: int = FEW_ROWS) -> AbstractContextManager[Audit]:
    """Up to so many rows go on in the embedded engine; with 0 tasks do everything."""
    from holdfast.pipeline.audit.spark_trace import SparkTraceEngine

    # The audit changes settings while it lasts: so it gets a session of its own.
    return audited(SparkTraceEngine(spark.newSession(), 0, few_rows), read_footers(list(folders)))


@dataclass(frozen=True)
class Compared:
    """What `holdfast audit A B --compare --json --out FOLDER` leaves behind."""

    code: int
    told: dict[str, Any]
    folder: Path


@pytest.fixture(scope="session")
def compared(
    traces: tuple[dict[str, Path], dict[str, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> Compared:
    """An honest run beside one in which an event was delivered twice."""
    from holdfast.cli import main

    runs, folder = (traces[0]["honest"], traces[0]["duplicate"]), tmp_path_factory.mktemp("compared") / "out"
    with redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as left:
        main(["audit", *map(str, runs), "--compare", "--json", "--out", str(folder)])
    return Compared(int(left.value.code or 0), json.loads(printed.getvalue()), folder)

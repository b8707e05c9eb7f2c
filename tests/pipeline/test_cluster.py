"""A real standalone Spark cluster on this machine: a master, two workers, and executors that do not have us installed.

The jobs run as people run them, from the command line in an empty folder with `--master spark://...`, and must give
what the local session gives. The executors' Python has our dependencies and cannot import holdfast by itself, so the
tests fail when shipping the package does.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow
import pytest

from holdfast.network.presets import preset_text
from holdfast.pipeline.shipping import needs_shipping, package_zip

pytestmark = [pytest.mark.slow, pytest.mark.spark]

WAIT_S = 120  # for a JVM to start on a busy machine
JOB_S = 400  # for one command on the cluster, likewise
MARK = "HOLDFAST_CLUSTER_TEST"  # in the environment of everything that is started here

# Becomes the program after it, and is killed with the tests even when they have no time to clean up (PR_SET_PDEATHSIG).
DIES_WITH_US = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
    if sys.platform == "linux"
    else "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
)

SWEEP = """\
network = "net.toml"
seeds = 2

[set]
duration_s = 5

[grid]
links.loss = [0, 0.2]

[[variant]]
name = "tree"

[[variant]]
name = "destinations"
set = { routing = "destinations" }
"""
CONDITIONS = ["symbol = 'A' AND price < 50", "price BETWEEN 20 AND 30", "symbol LIKE 'B%'", "volume > 900 OR price < 2"]


@dataclass(frozen=True)
class Cluster:
    master: str
    environment: dict[str, str]
    worker_folders: tuple[Path, ...]

    def holdfast(self, folder: Path, *words: object) -> str:
        return run_holdfast(folder, self.environment, *words, "--master", self.master)

    def executors_of_last_job(self) -> list[Path]:
        """The folders in which the executors of the latest application worked, one for each worker that took part."""
        newest = max(path.name for folder in self.worker_folders for path in folder.glob("app-*"))
        return [path for folder in self.worker_folders for path in folder.glob(f"{newest}/*")]


def run_holdfast(folder: Path, environment: dict[str, str], *words: object) -> str:
    program = [sys.executable, "-c", "from holdfast.cli import main; main()", *map(str, words)]
    done = subprocess.run(
        program, cwd=folder, env=environment, capture_output=True, text=True, timeout=JOB_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(program[3:])}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    folder = tmp_path_factory.mktemp("cluster")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {
        MARK: str(folder),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # its port is fixed
        "PYSPARK_PYTHON": str(python_without_us(folder)),
    }
    with everything_ends(str(folder)):
        process = start("master.Master", ["--port", "0"], folder / "master.log", environment)
        master = said(process, r"Starting Spark master at (spark://\S+)", log=folder / "master.log")
        folders = folder / "worker-1", folder / "worker-2"
        for each in folders:
            words = ["--cores", "1", "--memory", "1g", "--work-dir", str(each), master]
            process = start("worker.Worker", words, each.with_suffix(".log"), environment)
            said(process, r"(Successfully registered with master)", log=each.with_suffix(".log"))
        yield Cluster(master, environment, folders)


def python_without_us(folder: Path) -> Path:
    """A Python with our dependencies that cannot import holdfast: a link file is not read on PYTHONPATH."""
    script = folder / "python"
    packages = Path(pyarrow.__file__).parents[1]
    real = Path(sys.executable).resolve()
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{real}" "$@"\n')
    script.chmod(0o755)
    return script


def start(name: str, words: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    spark_class = Path(environment["SPARK_HOME"]) / "bin" / "spark-class"
    program = [spark_class, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *words]
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-c", DIES_WITH_US, *map(str, program)],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )


def said(process: subprocess.Popen[bytes], pattern: str, *, log: Path) -> str:
    """What a process says about itself in its log, as soon as it does."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not say {pattern!r}:\n{log.read_text(errors='replace')[-3000:]}")


@contextmanager
def everything_ends(mark: str) -> Iterator[None]:
    """Whatever was started with our mark in its environment is killed, also executors and Python workers."""
    try:
        yield
    finally:
        for _ in range(5):  # what is killed may have started another one meanwhile
            left = list(marked(mark))
            if not left:
                break
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            psutil.wait_procs(left, timeout=10)
        assert not list(marked(mark)), "processes of the cluster are still there"


def marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


@pytest.fixture
def place(cluster: Cluster, tmp_path: Path) -> Path:
    """An empty folder with a network file and a sweep file."""
    (tmp_path / "net.toml").write_text(preset_text("quickstart"))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def local(folder: Path, cluster: Cluster, *words: object) -> str:
    """The same command on this machine's own session, with this Python."""
    environment = cluster.environment | {"PYSPARK_PYTHON": sys.executable}
    return run_holdfast(folder, environment, *words)


def rows(query: str, folder: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(query.format(folder=folder)).fetchall()


def test_the_executors_python_does_not_have_us(cluster: Cluster, tmp_path: Path) -> None:
    """Otherwise the other tests would prove nothing about shipping."""
    python = cluster.environment["PYSPARK_PYTHON"]
    for module, code in (("pyarrow", 0), ("holdfast", 1)):
        done = subprocess.run(
            [python, "-c", f"import {module}"], cwd=tmp_path, env=cluster.environment, capture_output=True, check=False
        )
        assert done.returncode == code, done.stderr


def test_a_sweep_gives_the_same_rows_on_the_cluster(cluster: Cluster, place: Path) -> None:
    said = json.loads(cluster.holdfast(place, "sweep", "sweep.toml", "--out", "there", "--json"))
    assert (said["done"], said["failed"]) == (8, 0)
    executors = cluster.executors_of_last_job()
    assert len(executors) == 2 and all(list(each.glob("holdfast*.zip")) for each in executors)
    local(place, cluster, "sweep", "sweep.toml", "--out", "here")
    runs = "SELECT * EXCLUDE (took_s) FROM '{folder}/runs/*.parquet' ORDER BY cell"
    means = "SELECT * FROM '{folder}/summary/*.parquet' ORDER BY ALL"
    assert rows(runs, place / "there") == rows(runs, place / "here") != []
    assert rows(means, place / "there") == rows(means, place / "here") != []


def test_a_match_gives_the_same_pairs_on_the_cluster(cluster: Cluster, place: Path) -> None:
    duckdb.sql(
        "SELECT i AS id, chr(65 + (i % 5)::INT) || (i % 3) AS symbol, (i * 37 % 1000) / 10 AS price, "
        "i * 53 % 1000 AS volume FROM range(20000) t(i)"
    ).write_parquet(str(place / "events.parquet"))
    lines = [json.dumps({"id": f"s{at}", "condition": each}) for at, each in enumerate(CONDITIONS)]
    (place / "wishes.jsonl").write_text("\n".join(lines))
    words = ["match", "events.parquet", "wishes.jsonl", "--key", "id", "--out"]
    cluster.holdfast(place, *words, "there")
    assert len(cluster.executors_of_last_job()) == 2
    local(place, cluster, *words, "here")
    pairs = "SELECT id, subscription FROM '{folder}/matches/*.parquet' ORDER BY ALL"
    found = rows(pairs, place / "there")
    assert found == rows(pairs, place / "here")
    judged = " UNION ALL ".join(
        f"SELECT id, 's{at}' AS subscription FROM '{{folder}}/events.parquet' WHERE {each}"
        for at, each in enumerate(CONDITIONS)
    )
    assert found == rows(f"SELECT * FROM ({judged}) ORDER BY ALL", place) != []


def test_an_audit_says_the_same_on_the_cluster(cluster: Cluster, place: Path) -> None:
    run_holdfast(place, cluster.environment, "sim", "net.toml", "--out", "run-7")
    there = json.loads(cluster.holdfast(place, "audit", "run-7", "--json"))
    assert len(cluster.executors_of_last_job()) == 2
    here = json.loads(local(place, cluster, "audit", "run-7", "--json"))
    assert there == here and there["owed"] > 0


def test_the_zip_for_spark_submit_can_be_imported_alone(cluster: Cluster, tmp_path: Path) -> None:
    archive = package_zip(tmp_path)
    program = "import holdfast.sim.simulator, holdfast.matching.matcher; print(holdfast.__file__)"
    environment = {**cluster.environment, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [environment["PYSPARK_PYTHON"], "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(archive))


def test_only_tasks_elsewhere_need_the_package() -> None:
    assert not needs_shipping("local") and not needs_shipping("local[2,3]")
    assert needs_shipping("spark://host:7077") and needs_shipping("local-cluster[2,1,1024]") and needs_shipping("yarn")

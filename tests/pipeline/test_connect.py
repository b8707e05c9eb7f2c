"""Match and audit as a client of a real Spark Connect server, in a process that cannot start a JVM.

The client finds no Java at all, so a test fails when a job needs a JVM of its own; the server's workers cannot import
holdfast by themselves, so it also fails when the package is not sent along.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psutil
import pytest

from bench.delta_judge import rows
from holdfast.net.free_ports import free_ports
from holdfast.network.presets import preset_text
from tests.pipeline.test_cluster import (
    CONDITIONS,
    DIES_WITH_US,
    JOB_S,
    MARK,
    WAIT_S,
    everything_ends,
    python_without_us,
    run_holdfast,
)

pytestmark = [pytest.mark.slow, pytest.mark.spark]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class Client:
    environment: dict[str, str]

    def holdfast(self, folder: Path, *words: object) -> str:
        """Run a verb, and look all the while at what it has started."""
        program = [sys.executable, "-c", "from holdfast.cli import main; main()", *map(str, words)]
        running = subprocess.Popen(
            program, cwd=folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started: set[str] = set()
        process, until = psutil.Process(running.pid), time.monotonic() + JOB_S
        while running.poll() is None and time.monotonic() < until:
            try:
                started |= {each.name() for each in process.children(recursive=True)}
            except psutil.NoSuchProcess:
                break
            time.sleep(0.05)
        out, err = running.communicate(timeout=JOB_S)
        assert running.returncode == 0, f"{' '.join(map(str, words))}\n{out}\n{err}"
        assert "java" not in started, started
        return out


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    pytest.importorskip("grpc", reason="the extra connect is not installed")
    folder = tmp_path_factory.mktemp("connect")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    home = str(Path(pyspark.__file__).parent)
    python = str(python_without_us(folder))
    environment = plain | {MARK: str(folder), "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    port = free_ports()
    settings = [f"spark.connect.grpc.binding.port={port}", "spark.ui.enabled=false"]
    words = ["--class", SERVER, "--master", "local[2]", *(word for each in settings for word in ("--conf", each))]
    with everything_ends(str(folder)), (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", DIES_WITH_US, f"{home}/bin/spark-submit", *words, "spark-internal"],
            env=environment | {"PYSPARK_PYTHON": python},
            stdout=log,
            stderr=log,
        )
        wait_for_port(port, server, folder / "server.log")
        (folder / "nothing").mkdir()
        without_java = {name: value for name, value in plain.items() if name != "JAVA_HOME"}
        yield Client(without_java | {"PATH": str(folder / "nothing"), "SPARK_REMOTE": f"sc://127.0.0.1:{port}"})


def wait_for_port(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"the server does not listen:\n{log.read_text()[-3000:]}")


def test_a_match_through_a_server_is_that_of_duckdb(client: Client, tmp_path: Path) -> None:
    events = tmp_path / "events.parquet"
    duckdb.connect().sql(
        "SELECT i AS id, chr(65 + (i % 5)::INT) || (i % 3) AS symbol, (i * 37 % 1000) / 10 AS price, "
        "i * 53 % 1000 AS volume FROM range(5000) t(i)"
    ).write_parquet(str(events))
    lines = [json.dumps({"id": f"s{at}", "condition": each}) for at, each in enumerate(CONDITIONS)]
    (tmp_path / "wishes.jsonl").write_text("\n".join(lines))
    words = ["match", "events.parquet", "wishes.jsonl", "--key", "id"]
    told = json.loads(client.holdfast(tmp_path, *words, "--out", "there", "--explain", "--json"))
    assert told["engine"] == "spark" and "MapInArrow" in told["plan"]
    client.holdfast(tmp_path, *words, "--to", "delta:lake")
    judged = " UNION ALL ".join(
        f"SELECT id, 's{at}' AS subscription FROM '{events}' WHERE {each}" for at, each in enumerate(CONDITIONS)
    )
    owed = duckdb.connect().sql(f"SELECT * FROM ({judged}) ORDER BY ALL").fetchall()
    found = duckdb.connect().sql(f"SELECT id, subscription FROM '{tmp_path}/there/matches/*.parquet' ORDER BY ALL")
    assert found.fetchall() == owed != []
    assert sorted(tuple(each.values()) for each in rows(tmp_path / "lake" / "matches").to_pylist()) == owed


def test_an_audit_through_a_server_is_that_of_the_embedded_engine(client: Client, tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(preset_text("quickstart"))
    plain = {name: value for name, value in client.environment.items() if name != "SPARK_REMOTE"}
    run_holdfast(tmp_path, plain, "sim", "net.toml", "--out", "run-7")
    there = json.loads(client.holdfast(tmp_path, "audit", "run-7", "--json"))
    here = json.loads(run_holdfast(tmp_path, plain, "audit", "run-7", "--json"))
    assert (there.pop("engine"), here.pop("engine")) == ("spark", "embedded")
    assert there == here and there["owed"] > 0

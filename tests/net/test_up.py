"""`holdfast up`: the network of a file, live, with the same trace as the simulator's."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from holdfast.books.promises import check
from holdfast.books.trace import SCHEMAS
from holdfast.cli import main
from holdfast.net.free_ports import free_ports

PATIENCE_S = 120.0
BROKERS = 3
PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]

FILE = """
name = "three"
seed = 3
duration_s = 1.5
routing = "subscriptions"

[topology]
kind = "listed"
brokers = ["b1", "b2", "b3"]
links = [["b1", "b2"], ["b2", "b3"]]

[links]
delay_ms = 2
loss = 0.0

[transport]
kind = "tcp"

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.05, at_s = 0.5, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b3"
subscriptions = ["n = 1"]
"""

FAULTS = """
[[fault]]
at_s = 0.7
kind = "crash"
broker = "b2"
for_s = 0.3

[[fault]]
at_s = 1.5
kind = "link-replace"
link = ["b2", "b3"]
to = ["b1", "b3"]

[[fault]]
at_s = 1.7
kind = "client-attach"
client = "s"
broker = "b1"

[[fault]]
at_s = 1.8
kind = "subscribe"
client = "p"
condition = "n > 0"
id = "late"

[[fault]]
at_s = 2.2
kind = "unsubscribe"
client = "p"
id = "late"
"""


def up(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "up", str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.toml"
    path.write_text(FILE)
    return path


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("transport", "where"),
    [
        ("tcp", ["--set", "reliability.recovery=end-to-end"]),
        ("udp", ["--in-process"]),
        pytest.param("tcp", [], marks=SLOW),
        pytest.param("tcp", ["--in-process"], marks=SLOW),
        pytest.param("udp", [], marks=SLOW),
    ],
)
def test_a_network_without_faults_delivers_everything_and_leaves_a_trace(
    file: Path, tmp_path: Path, transport: str, where: list[str]
) -> None:
    out = tmp_path / "run"
    found = up(file, *where, "--set", f"transport.kind={transport}", "--out", str(out), "--json")
    assert found.returncode == 0, found.stderr
    outcome = json.loads(found.stdout)
    assert outcome["published"] == outcome["owed"] == outcome["delivered"] > 15
    assert (outcome["lost"], outcome["duplicates"], outcome["unowed"]) == (0, 0, 0)
    assert outcome["delay_us"]["p50"] >= 4_000  # two links
    assert "published" in found.stderr.splitlines()[0]  # live counters, plain lines without a terminal
    tables = {name: ds.dataset(out / name).to_table() for name in ("run", "publications", *SCHEMAS)}
    assert tables["run"]["driver"].to_pylist() == ["live"]
    assert tables["deliveries"].num_rows == outcome["delivered"]
    assert {"b1", "b2", "b3", "p", "s"} <= set(tables["messages"]["node"].to_pylist())
    assert all(verdict.holds for verdict in check(out).values())


@pytest.mark.slow
@pytest.mark.parametrize("where", [[], ["--in-process"]], ids=["processes", "in-process"])
def test_members_of_a_group_of_the_file_share_its_events(file: Path, tmp_path: Path, where: list[str]) -> None:
    shared = 'count = 2\nsubscriptions = [{ condition = "n = 1", group = "workers" }]'
    file.write_text(FILE.replace('subscriptions = ["n = 1"]', shared))
    out = tmp_path / "run"
    found = up(file, *where, "--out", str(out), "--json")
    assert found.returncode == 0, found.stderr
    outcome = json.loads(found.stdout)
    assert outcome["published"] == outcome["owed"] == outcome["delivered"] > 15
    assert (outcome["lost"], outcome["duplicates"], outcome["unowed"]) == (0, 0, 0)
    tables = {name: ds.dataset(out / name).to_table() for name in ("subscriptions", "deliveries")}
    assert set(tables["deliveries"]["subscriber"].to_pylist()) == {"group:workers n = 1"}
    assert len(set(tables["subscriptions"]["id"].to_pylist())) == 2  # both members are in it
    assert [name for name, each in check(out).items() if not each.holds] == []


@pytest.mark.slow
@pytest.mark.parametrize("where", [[], ["--in-process"]], ids=["processes", "in-process"])
def test_the_files_faults_strike_and_the_network_recovers(file: Path, tmp_path: Path, where: list[str]) -> None:
    file.write_text(FILE.replace("duration_s = 1.5", "duration_s = 4") + FAULTS)
    out = tmp_path / "run"
    found = up(file, *where, "--out", str(out), "--json")
    assert found.returncode == 0, found.stderr
    outcome = json.loads(found.stdout)
    assert 0 < outcome["delivered"] < outcome["owed"]  # what passed b2 while it was down is lost
    assert outcome["incidents"]["crash"] == outcome["incidents"]["restart"] == 1
    verdicts = check(out)
    assert all(verdicts[name].holds for name in ("P1", "P2", "P7"))
    deliveries = ds.dataset(out / "deliveries").to_table().to_pylist()
    last_us = max(row["time_us"] for row in deliveries if row["subscriber"] == "s")
    assert last_us > 3_000_000  # it moved to b1 and still gets its events


def test_loss_and_delay_of_the_file_are_injected_and_its_warnings_told(file: Path) -> None:
    file.write_text(FILE + '[[fault]]\nat_s = 99\nkind = "crash"\nbroker = "b2"\n')
    found = up(file, "--in-process", "--set", "links.loss=0.5", "--set", "links.delay_ms=30", "--json")
    outcome = json.loads(found.stdout)
    assert "warning: fault.0: at 99 s the run is over" in found.stderr
    assert outcome["lost"] > 0
    assert outcome["messages"]["Publish"]["lost"] > 0
    assert outcome["delay_us"]["p50"] >= 60_000


def test_ctrl_c_ends_a_run_in_good_order(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [*PROGRAM, "up", str(file), "--duration", "1000", "--json", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "delivered 0" not in line and "delivered" in line:
                break
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    outcome = json.loads(output)
    assert outcome["published"] == outcome["delivered"] > 0
    assert check(out)["P4"].holds


def test_a_port_that_is_taken_is_one_clear_line_and_leaves_no_trace(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, port = tmp_path / "run", free_ports(BROKERS)
    with socket.create_server(("127.0.0.1", port)):
        for where in ([], ["--in-process"]):
            words = ["up", str(file), *where, "--set", f"transport.port={port}", "--out", str(out)]
            with pytest.raises(SystemExit) as left:  # in this process: one of its own takes a second to start
                main(words)
            printed = capsys.readouterr()
            assert (left.value.code, printed.out) == (2, "")
            assert printed.err.endswith(f":{port}: the port is in use\n")
            assert not out.exists()


def test_a_file_that_cannot_be_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(FILE.replace('["b2", "b3"]]', '["b2", "b9"]]'))
    found = up(path)
    assert found.returncode == 2
    assert "b9" in found.stderr

"""Reliability from broker to broker, live: `holdfast up` with links that lose much."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.sim.promises import check

PATIENCE_S = 120.0
PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]

FILE = """
name = "four"
seed = 3
duration_s = 2.5
routing = "subscriptions"

[topology]
kind = "listed"
brokers = ["b1", "b2", "b3", "b4"]
links = [["b1", "b2"], ["b2", "b3"], ["b3", "b4"]]

[links]
delay_ms = 2
loss = 0.2
lossy_control = false

[reliability]
hops = "nack"

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.01, at_s = 0.5, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b4"
subscriptions = ["n = 1"]
"""


def up(path: Path, *arguments: str) -> dict[str, object]:
    command = [*PROGRAM, "up", str(path), "--json", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert found.returncode == 0, found.stderr
    outcome: dict[str, object] = json.loads(found.stdout)
    return outcome


@pytest.mark.parametrize(
    ("transport", "where"), [("udp", ["--in-process"]), pytest.param("tcp", [], marks=pytest.mark.slow)]
)
def test_links_that_repair_themselves_deliver_everything_live(tmp_path: Path, transport: str, where: list[str]) -> None:
    path, out = tmp_path / "net.toml", tmp_path / "run"
    path.write_text(FILE)
    found = up(path, *where, "--set", f"transport.kind={transport}", "--out", str(out))
    assert found["owed"] == found["delivered"]
    assert found["owed"] > 100  # type: ignore[operator]
    assert found["recovered"]["retransmission"] > 20  # type: ignore[index]
    assert found["messages"]["Resent"]["sent"] > 20  # type: ignore[index]
    verdicts = check(out)
    assert all(verdicts[promise].holds for promise in ("P1", "P2", "P4", "P7"))

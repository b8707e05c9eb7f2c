"""Packet sequences of Mosquitto's own tests, where their data is at hand; it is not ours to copy.

`HOLDFAST_MQTT_CASES` names the folder with `run_cases.py` and `cases`; without it, `../shared/mqtt` is looked at.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.net.test_processes import Processes, processes

__all__ = ["processes"]  # the fixture

FOLDER = Path(os.environ.get("HOLDFAST_MQTT_CASES", ROOT.parent / "shared" / "mqtt"))
PASS = 1_533  # of 1,550
NOBODY = "expected 400304d210"  # PUBACK with 0x10, which is optional: nobody subscribes


@pytest.mark.slow
@pytest.mark.skipif(not (FOLDER / "run_cases.py").exists(), reason="the cases are not here")
def test_the_cases_of_mosquitto(processes: Processes) -> None:
    _, address = processes.broker("b1", listen="mqtt://127.0.0.1:0")
    port = address.rpartition(":")[2]
    command = [sys.executable, FOLDER / "run_cases.py", "--json", "--timeout", "5", "--port", port]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    told = json.loads(result.stdout)
    failed = [(name, why) for name, why in told["failed"] if NOBODY not in why]
    assert failed == [] and told["passed"] >= PASS

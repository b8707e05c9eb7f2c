"""The programs over other people's buses, before and after: they print the same readings."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.carriers.servers import running
from tests.examples.test_examples import example
from tests.house.tree import ROOT


def test_the_nats_programs_print_the_hot_readings(tmp_path: Path) -> None:
    with running("nats", tmp_path) as server:
        before = example("carriers/nats_before.py", tmp_path, server.address)
        after = example("carriers/nats_after.py", tmp_path, server.address)
    assert before.split() == ["31", "33"]
    assert after.splitlines() == ["31", "33", "lost: []"]


@pytest.mark.slow
def test_the_mqtt_programs_print_the_hot_readings(tmp_path: Path) -> None:
    with running("mqtt", tmp_path) as server:
        place = urlsplit(server.address)
        before = example("carriers/mqtt_before.py", tmp_path, str(place.hostname), str(place.port))
        after = example("carriers/mqtt_after.py", tmp_path, server.address)
    assert before.split() == ["31", "33"]
    assert after.splitlines() == ["31", "33", "lost: []"]


@pytest.mark.slow
def test_what_a_subscriber_missed_is_recovered_and_so_is_what_a_killed_server_had(tmp_path: Path) -> None:
    with running("nats", tmp_path) as server:
        program = [sys.executable, str(ROOT / "examples" / "carriers" / "nats_recovered.py"), server.address, "4"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            server.kill()
            server.start()
            lines += process.stdout.readlines()
    assert lines[-1].replace(",", "").split()[:5] == ["end", "published", "40000", "received", "40000"]
    assert lines[-1].split()[-2:] == ["lost", "0"]
    assert int(lines[-1].replace(",", "").split()[6]) >= 10_000  # recovered: a second's readings at least

"""The unit and the image that show how to run a broker: what they name exists, and what they start, starts."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.net.test_processes import Process, Processes

FOLDER = ROOT / "examples" / "operations"
UNIT = (FOLDER / "holdfast-broker.service").read_text()
IMAGE = (FOLDER / "Dockerfile").read_text()
PROGRAM = Path(sys.executable).parent / "holdfast"


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.end()


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the image with the rest of its line; none of ours goes on over a line's end."""
    lines = [line for line in IMAGE.splitlines() if line and not line.startswith("#")]
    assert not any(line.endswith("\\") for line in lines)
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def starts(processes: Processes, command: list[str]) -> Process:
    """The broker that a command line describes, on free ports."""
    assert command[0] == "broker"
    words = [re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+$", r"127.0.0.1:0", word) for word in command]
    return processes.start(*words)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    unit = tmp_path / "holdfast-broker.service"
    unit.write_text(UNIT.replace("/opt/holdfast/bin/holdfast", str(PROGRAM)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    told = [line for line in (done.stdout + done.stderr).splitlines() if "holdfast" in line]
    assert (done.returncode, told) == (0, [])


def test_the_broker_of_the_unit_starts_reloads_and_stops(processes: Processes, tmp_path: Path) -> None:
    settings = dict(re.findall(r"^#   (BROKER|LISTEN)=(.+)$", UNIT, re.MULTILINE))
    (line,) = re.findall(r"^ExecStart=/opt/holdfast/bin/holdfast (.+)$", UNIT, re.MULTILINE)
    for name, value in settings.items():
        line = line.replace(f"${{{name}}}", value)
    peers = tmp_path / "peers.txt"
    peers.write_text("")
    broker = starts(processes, shlex.split(line.replace("/etc/holdfast/peers.txt", str(peers))))
    assert "b1 ready" in broker.line("metrics on")
    (reload,) = re.findall(r"^ExecReload=/bin/kill -(\w+) \$MAINPID$", UNIT, re.MULTILINE)
    broker._process.send_signal(signal.Signals[f"SIG{reload}"])
    assert json.loads(broker.line(error=True))["kind"] == "reloaded"
    assert broker.ask(signal.SIGTERM) == 0


def test_every_instruction_is_one_that_there_is() -> None:
    known = set("FROM WORKDIR COPY RUN USER EXPOSE HEALTHCHECK ENTRYPOINT CMD".split())
    assert {word for word, _ in instructions()} <= known
    assert instructions()[0][0] == "FROM"


def test_what_the_image_copies_is_in_the_repository() -> None:
    sources = [name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]]
    assert sources
    assert [name for name in sources if not (ROOT / name).exists()] == []


def test_the_image_copies_all_that_the_package_is_built_from() -> None:
    sources = {name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]}
    named = re.findall(r'^(?:readme = |license-files = \[)"(.+?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {*named, "pyproject.toml", "src"} <= sources


def test_the_commands_that_build_the_image_exist_and_know_their_options() -> None:
    for word, rest in instructions():
        if word == "RUN":
            program, *arguments = shlex.split(rest)
            found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")  # root's, in an image
            if program != "pip" and found is None:
                pytest.skip(f"{program}, which the image has, is not here")
            command = [sys.executable, "-m", "pip"] if program == "pip" else [str(found)]
            verbs = [arguments[0]] if program == "pip" else []
            help_ = subprocess.run([*command, *verbs, "--help"], capture_output=True, text=True, check=False)
            missing = [each for each in arguments if each.startswith("--") and each not in help_.stdout]
            assert missing == [], rest


@pytest.mark.slow
def test_the_broker_of_the_image_starts_and_its_health_check_reaches_it(processes: Processes) -> None:
    entry, command, check = (
        json.loads(rest[rest.index("[") :])
        for name in ("ENTRYPOINT", "CMD", "HEALTHCHECK")
        for word, rest in instructions()
        if word == name
    )
    assert entry[0] == "holdfast"
    broker = starts(processes, [*entry[1:], *command])
    port = re.findall(r"tcp://127.0.0.1:(\d+)", broker.line("ready"))[0]
    program = check[-1].replace("7001", port)
    assert (check[:2], subprocess.run([sys.executable, "-c", program], check=False).returncode) == (["python", "-c"], 0)
    assert broker.ask(signal.SIGTERM) == 0
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode != 0

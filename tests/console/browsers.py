"""Real browsers, driven by puppeteer-core from npm: Debian's chromium, and firefox-esr over WebDriver BiDi.

puppeteer-core and axe-core are fetched into .venv when they are first needed. Who has no npm or no browser is told what
to install, and the test is skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import ROOT

PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]
BROWSERS = {"chromium": "chromium", "firefox": "firefox-esr"}
_PACKAGES = ("puppeteer-core@24.43.1", "axe-core@4.14.0")
_FOLDER = ROOT / ".venv" / "browser"
_PATIENCE_S = 300

NETWORK = """
name = "square"
duration_s = 600
routing = "advertisements"
[topology]
kind = "listed"
brokers = ["hub", "north", "east", "west"]
links = [["hub", "north"], ["hub", "east"], ["hub", "west"]]
[links]
delay_ms = 2
loss = 0.05
[reliability]
recovery = "end-to-end"
order = "strict"
[replication]
protocol = "ordered"
[workload]
kind = "stock"
symbols = 10
rate_per_s = 5
start_s = 1
[[client]]
id = "exchange"
broker = "north"
publishes = true
[[client]]
id = "desk-east"
broker = "east"
subscriptions = ["price > 50"]
[[client]]
id = "desk-hub"
broker = "hub"
subscriptions = ["volume > 5000"]
"""


def program_of(browser: str) -> str:
    found = shutil.which(BROWSERS[browser])
    if found is None or shutil.which("npm") is None:
        pytest.skip(f"install it with: apt-get install {BROWSERS[browser]} npm")
    return found


def modules() -> Path:
    wanted = " ".join(_PACKAGES)
    stamp = _FOLDER / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        (_FOLDER / "package.json").write_text("{}")
        command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", *_PACKAGES]
        done = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot fetch {wanted}: {done.stderr[-300:]}")
        stamp.write_text(wanted)
    return _FOLDER / "node_modules"


def drive(script: str, browser: str, *arguments: str) -> Any:
    """What a script beside this file tells, as JSON, in its last line."""
    environment = {**os.environ, "BROWSER": browser, "PROGRAM": program_of(browser), "MODULES": str(modules())}
    command = ["node", str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def console_of(network: Path, *options: str) -> Iterator[str]:
    """The address, with the token, of the console of a network that runs meanwhile."""
    with started([*PROGRAM, "up", str(network), "--console", "127.0.0.1:0", "--act", *options]) as url:
        yield url


@contextmanager
def started(command: list[str]) -> Iterator[str]:
    """The address of the console that this command serves until the end."""
    with process_of(command) as (url, _):
        yield url


@contextmanager
def process_of(command: list[str]) -> Iterator[tuple[str, int]]:
    """The same, and the process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.match(r"console: (\S+)", line):
                yield found[1], process.pid
                break
        else:
            raise AssertionError("the run ended without a console")
    finally:
        process.terminate()
        process.stderr and process.stderr.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()

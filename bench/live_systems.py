"""The systems of the live bench: how each is started, and why one is left out."""

import importlib.util
import json
import shutil
import subprocess
import sys

from holdfast.carriers import servers
from holdfast.carriers.servers import BusServer


class Server(BusServer):
    """A process that carries events; each system says how it is started."""

    first_turn = 1_920  # events, before it is known how many the system carries in a second

    @staticmethod
    def version() -> str:
        """Of the server, where it is not a Python package."""
        return ""

    def _first_word_starting(self, beginning: str) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            for word in line.split():
                if word.startswith(beginning):
                    return word
        raise RuntimeError(f"it ended: {(self.folder / 'log').read_text()}")


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


class Nats(servers.Nats, Server):
    first_turn = 19_200

    @staticmethod
    def missing() -> str:
        client = "" if importlib.util.find_spec("nats") else "the package nats-py is not installed"
        return client or servers.Nats.missing()


class ActiveMqBare(servers.ActiveMq, Server): ...


class ActiveMq(ActiveMqBare):
    @staticmethod
    def missing() -> str:
        stomp = "" if importlib.util.find_spec("stomp") else "the package stomp.py is not installed"
        return ActiveMqBare.missing() or stomp

    @staticmethod
    def version() -> str:
        return _package_version("activemq")


class RabbitMq(servers.RabbitMq, Server):
    first_turn = 512

    @staticmethod
    def version() -> str:
        return _package_version("rabbitmq-server")

    @staticmethod
    def missing() -> str:
        pika = "" if importlib.util.find_spec("pika") else "the package pika is not installed"
        return servers.RabbitMq.missing() or pika


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

"""The scene of `bench reliable` in which a server dies: killed with kill -9 in the middle of a burst, and started again
on what it had stored. Which of the events that were acknowledged to the publisher never came, which came twice, which
after a later one? Four subscribers want every event of one subject; only Holdfast could ask for more by content.
"""

import getpass
import importlib.util
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.durable_systems import JetStreamDefault
from bench.live_systems import RabbitMq, Server, _package_version
from bench.reliable_arena import GRACE_S, SETTLE_S, START_S, Silent, Worker
from bench.reliable_work import Verdict, judged

SUBSCRIBERS = 4
LIMIT_S = 100.0  # for the burst, the restart and all that is delivered after it
DOWN_S = 1.0  # between the kill and the start
QUIET_S = (
    8.0  # nothing came for so long, and all is published: no more will; longer than any acknowledgement is awaited
)


class Strict(Server):
    """One broker that stores nothing; the clients recover from each other."""

    def start(self) -> None:
        listen = f"tcp://127.0.0.1:{self._port()}"
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "broker", "--id", "b1"]
        self._spawn([*command, "--listen", listen, *self._more()], quiet=False)
        self.address = self._first_word_starting("tcp://")

    def _more(self) -> list[str]:
        return ["--push-back"]


class Stored(Strict):
    """One that stores events before it acknowledges them."""

    def _more(self) -> list[str]:
        return ["--hops", "retransmission", "--store", str(self.folder / "b1.db")]


class Mosquitto(Server):
    @staticmethod
    def missing() -> str:
        if _mosquitto() is None:
            return "Mosquitto is not installed (apt-get install mosquitto)"
        return "" if importlib.util.find_spec("paho") else "the package paho-mqtt is not installed"

    @staticmethod
    def version() -> str:
        return _package_version("mosquitto")

    def start(self) -> None:
        settings = {
            "listener": f"{self._port()} 127.0.0.1",
            "allow_anonymous": "true",
            "user": getpass.getuser(),
            "persistence": "true",
            "persistence_location": f"{self.folder}/",
            "autosave_interval": "1",  # second; it would be half an hour
            "max_queued_messages": "0",  # without a limit: it would drop from the thousandth on
        }
        config = self.folder / "mosquitto.conf"
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        self._spawn([str(_mosquitto()), "-c", str(config)])
        self._wait_for(self._port())
        self.address = f"mqtt://127.0.0.1:{self._port()}"


def _mosquitto() -> str | None:
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


SYSTEMS: dict[str, type[Server]] = {
    "holdfast, strict": Strict,
    "holdfast, stored": Stored,
    "rabbitmq": RabbitMq,
    "jetstream": JetStreamDefault,
    "mosquitto": Mosquitto,
}


@dataclass(frozen=True)
class Outcome:
    """What became of the events that were acknowledged, at all subscribers together."""

    acknowledged: int
    took_s: float  # from the first event published to the last delivery, the server's absence included
    verdict: Verdict
    named: Counter[str]  # what losses() said: reasons, and how many events
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        known = {"acknowledged": self.acknowledged, "took_s": self.took_s, "named": self.named, "problem": self.problem}
        return {**known, **self.verdict.as_dict()}


def killed(name: str, events: int, folder: Path) -> Outcome:
    server = SYSTEMS[name](folder)
    workers: list[Worker] = []
    try:
        server.start()
        task = {"system": name, "address": server.address}
        until_s = time.monotonic() + START_S
        for number in range(SUBSCRIBERS):
            workers.append(Worker({**task, "role": "sub", "number": number}, "bench.reliable_peers"))
        for each in workers:
            each.answer(until_s)
        workers.append(Worker({**task, "role": "pub"}, "bench.reliable_peers"))
        workers[-1].answer(until_s)
        time.sleep(SETTLE_S)
        return _burst(server, workers, events, folder)
    except Silent as problem:
        return Outcome(0, 0.0, Verdict(), Counter(), str(problem))
    finally:
        for each in workers:
            each.stop()
        server.kill()


def _burst(server: Server, workers: list[Worker], events: int, folder: Path) -> Outcome:
    *subscribers, publisher = workers
    began_s = time.monotonic()
    until_s = began_s + LIMIT_S
    publisher.on_batch(count=events, until_s=until_s)
    publisher.answer(until_s + GRACE_S)  # it is halfway through
    server.kill()
    time.sleep(DOWN_S)
    server.start()
    left = publisher.answer(until_s + GRACE_S)["unacknowledged"]
    acknowledged = np.setdiff1d(np.arange(events, dtype=np.int64), np.array(left, np.int64))
    verdict, named, last_s, unsettled = Verdict(), Counter[str](), began_s, 0
    files = [folder / f"came{number}.npz" for number in range(len(subscribers))]
    for each, file in zip(subscribers, files, strict=True):
        each.on_batch(wanted=events, quiet_s=QUIET_S, until_s=until_s, report=str(file))
    for each, file in zip(subscribers, files, strict=True):
        report = each.answer(until_s + GRACE_S)
        last_s, named = max(last_s, report["last_s"]), named + Counter(report["named"])
        unsettled += not report["settled"]
        with np.load(file) as kept:
            verdict += judged([acknowledged], [kept["numbers"]])
    problems = [f"{len(left)} not acknowledged within {LIMIT_S:.0f} s"] if left else []
    problems += [f"{unsettled} subscribers still look for something after {LIMIT_S:.0f} s"] if unsettled else []
    return Outcome(len(acknowledged), last_s - began_s, verdict, named, "; ".join(problems))

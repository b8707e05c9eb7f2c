"""Replicas of real processes: brokers that hang, come back, or fail side by side."""

import json
import signal
import time
from pathlib import Path
from threading import Event, Thread

import pytest

import holdfast
from tests.net.test_processes import Process, Processes, processes
from tests.net.test_up import up

__all__ = ["processes"]  # the fixture

pytestmark = pytest.mark.slow

EVERY_S = 0.02


class Stream:
    """Numbers that go from one broker to another without a pause, and what arrives of them."""

    def __init__(self, source: str, sink: str) -> None:
        self.published = 0
        self.got: list[int] = []
        self._stop = Event()
        self._publisher = holdfast.connect_sync(source, name="source")
        self._subscriber = holdfast.connect_sync(sink, name="sink")
        self._threads = [Thread(target=self._publish), Thread(target=self._read)]

    def __enter__(self) -> "Stream":
        self._publisher.__enter__()
        self._subscriber.__enter__()
        self._wanted = self._subscriber.subscribe("n >= 0")
        self._subscriber.flush()
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._threads[0].join()
        self._subscriber.close()
        self._threads[1].join()
        self._publisher.close()

    def _publish(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._publisher.publish({"n": self.published})
            self.published += 1

    def _read(self) -> None:
        for delivery in self._wanted:
            self.got.append(int(delivery.event["n"]))

    def until_new_ones_arrive(self) -> int:
        """A number that has arrived, and had not been published before."""
        first = self.published
        end_s = time.monotonic() + 60
        while not any(n >= first for n in self.got):
            assert time.monotonic() < end_s, f"nothing since {first} has arrived"
            time.sleep(EVERY_S)
        return max(self.got)


def broker_between(processes: Processes, addresses: dict[str, str]) -> Process:
    peers = [part for name, address in addresses.items() for part in ("--peer", f"{name}={address}")]
    process, _ = processes.broker("b3", "--replaceable", *peers)
    return process


def test_a_broker_that_hung_and_was_replaced_does_no_harm_when_it_goes_on_or_is_restarted(
    processes: Processes,
) -> None:
    (b2, two), (b5, five) = (processes.broker(name, "--replaceable") for name in ("b2", "b5"))
    around = {"b2": two, "b5": five}
    b3 = broker_between(processes, around)
    with Stream(two, five) as stream:
        stream.until_new_ones_arrive()
        time.sleep(3)  # heartbeats, so that its silence tells
        b3.send(signal.SIGSTOP)
        hung = stream.published
        for neighbour in (b2, b5):
            neighbour.line("suspected (b3)", error=True)
        noticed = stream.published
        peers = [part for name, address in around.items() for part in ("--peer", f"{name}={address}")]
        replica = processes.start("replicate", "--faulty", "b3", "--protocol", "ordered", *peers)
        replica.line("replica_ready (b3)", error=True)
        stream.until_new_ones_arrive()
        b3.send(signal.SIGCONT)
        b3.line("replaced (b3+1)", error=True)
        stream.until_new_ones_arrive()
        b3.ask(signal.SIGKILL)
        again = broker_between(processes, around)
        again.line("replaced (b3+1)", error=True)
        stream.until_new_ones_arrive()
        time.sleep(3)
        last = stream.until_new_ones_arrive()
    assert len(stream.got) == len(set(stream.got))
    missing = set(range(min(stream.got), last)) - set(stream.got)
    assert all(hung - 5 <= n <= noticed for n in missing), sorted(missing)


LINE = """
duration_s = 16
routing = "subscriptions"

[topology]
kind = "line"
brokers = ["b0", "b1", "b2", "b3", "b4", "b5"]

[transport]
kind = "tcp"

[protocol]
heartbeat_s = 0.5
lease_s = 1.75

[replication]
protocol = "ordered"

[[client]]
id = "p"
broker = "b0"
publish = [{ every_s = 0.02, at_s = 1, until_s = 15, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b5"
subscriptions = ["n = 1"]
"""


@pytest.mark.parametrize(
    ("struck", "how"),
    [(["b2"], 'kind = "hang"\nfor_s = 6'), (["b2", "b3"], 'kind = "crash"'), (["b2", "b3", "b4"], 'kind = "crash"')],
    ids=["one hangs", "two die", "three die"],
)
def test_brokers_side_by_side_each_get_a_replica_from_up(tmp_path: Path, struck: list[str], how: str) -> None:
    path = tmp_path / "net.toml"
    path.write_text(LINE + "".join(f'[[fault]]\nat_s = 4\nbroker = "{name}"\n{how}\n' for name in struck))
    found = up(path, "--json")
    assert found.returncode == 0, found.stderr
    outcome = json.loads(found.stdout)
    incidents = outcome["incidents"]
    assert incidents["replica_ready"] == len(struck)
    assert incidents["replaced_by"] == 2 * len(struck)
    assert "replica_incomplete" not in incidents
    assert outcome["duplicates"] == 0
    assert outcome["lost"] <= 4 / 0.02  # what was sent to the first of them before its neighbour noticed, and its queue

"""Brokers that watch each other, as processes: one is killed over datagrams, so that only its silence tells."""

import json
import signal

import pytest

import holdfast
from tests.net.test_processes import Process, Processes, _reaches, processes

__all__ = ["processes"]  # the fixture

# Who was irregular is missed later: on a machine that stalls for seconds, heartbeats come so unevenly that a silence of
# a minute is nothing special. So this waits for long, and is not for every day.
pytestmark = pytest.mark.slow
PATIENCE = 5  # minutes


def watching(processes: Processes, name: str, listen: list[str], peers: dict[str, str]) -> tuple[Process, list[str]]:
    """A broker that is ready, and its addresses."""
    words = [word for address in listen for word in ("--listen", address)]
    words += [word for peer in peers.items() for word in ("--peer", "=".join(peer))]
    process = processes.start(
        "broker", "--id", name, *words, "--routing", "destinations", "--hops", "multipath", "--json"
    )
    return process, json.loads(process.line("ready"))["listen"]


def told(process: Process, words: str, about: str) -> None:
    """Wait for a line; others may be suspected for a moment, too."""
    for _ in range(PATIENCE):
        try:
            while about not in process.line(words, error=True):
                pass
        except AssertionError:
            continue
        return
    raise AssertionError(f"{words} ({about}) was not told")


def test_a_killed_broker_is_missed_by_its_silence_and_events_go_round_it(processes: Processes) -> None:
    """b1 and b4 are joined through b2, the shorter way, and through b3 and b5."""
    datagrams, stream = "udp://127.0.0.1:0", "tcp://127.0.0.1:0"
    b1, (at_b1, near_address) = watching(processes, "b1", [datagrams, stream], {})
    b2, (at_b2,) = watching(processes, "b2", [datagrams], {"b1": at_b1})
    _, (at_b3,) = watching(processes, "b3", [datagrams], {"b1": at_b1})
    _, (at_b5,) = watching(processes, "b5", [datagrams], {"b3": at_b3})
    _, (_, far_address) = watching(processes, "b4", [datagrams, stream], {"b2": at_b2, "b5": at_b5})
    with holdfast.connect_sync(near_address) as near, holdfast.connect_sync(far_address) as far:
        wanted = far.subscribe("n > 0")
        _reaches(near, far)
        assert b2.ask(signal.SIGKILL) == -signal.SIGKILL
        told(b1, "neighbour_down", "b2")
        near.publish({"n": 1})
        assert wanted.next(timeout=60 * PATIENCE).event == {"n": 1}
        watching(processes, "b2", [at_b2], {"b1": at_b1})
        told(b1, "neighbour_up", "b2")
        _reaches(near, far)

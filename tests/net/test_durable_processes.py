"""Durable subscribers as processes that are killed and started again under their name."""

import json
import signal
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import holdfast
from tests.net.test_processes import Process, Processes, processes, run

__all__ = ["processes"]  # the fixture

KILLS = 5
BATCH, BATCHES = 100, 50
AT_ONCE = 1_000  # that `holdfast sub` reads; what it has not printed when it is killed comes again


def subscriber(processes: Processes, address: str) -> Process:
    arguments = ("sub", "n > 0", "--broker", address, "--durable", "--name", "desk")
    started = processes.start(*arguments)
    started.line("subscribed", error=True)
    return started


def printed(process: Process) -> list[int]:
    """What has been printed, up to here."""
    lines = []
    while not process.out.empty():
        lines.append(json.loads(process.out.get())["n"])
    return lines


def until(process: Process, last: int) -> list[int]:
    found: list[int] = []
    while last not in found:
        found.append(json.loads(process.line())["n"])
    return found


def storing(processes: Processes, folder: Path, listen: str = "tcp://127.0.0.1:0") -> tuple[Process, str]:
    return processes.broker("b1", "--hops", "retransmission", "--store", str(folder / "b1.db"), listen=listen)


@pytest.mark.slow
def test_a_subscriber_that_is_killed_gets_what_was_stored_while_it_was_away(
    processes: Processes, tmp_path: Path
) -> None:
    _, address = storing(processes, tmp_path)
    first = subscriber(processes, address)
    with holdfast.connect_sync(address, name="feed", durable=True) as feed:
        feed.publish({"n": 1})
        feed.flush()
        assert until(first, 1) == [1]
        assert first.ask(signal.SIGKILL) == -signal.SIGKILL
        for number in range(2, 502):
            feed.publish({"n": number})
        feed.flush()
        found = until(subscriber(processes, address), 501)
    assert found[found.index(2) :] == list(range(2, 502))
    assert found[: found.index(2)] in ([], [1])  # printed, and killed before the broker was told


@pytest.mark.slow
def test_a_subscriber_that_stops_after_some_events_goes_on_with_the_next(processes: Processes, tmp_path: Path) -> None:
    _, address = storing(processes, tmp_path)
    some = ("sub", "n > 0", "--broker", address, "--durable", "--name", "desk", "--count", "3")
    first = processes.start(*some)
    first.line("subscribed", error=True)
    events = "".join(f'{{"n": {number}}}\n' for number in range(1, 7))
    assert run("pub", "--broker", address, "--durable", given=events).returncode == 0
    assert first.wait() == 0
    assert [json.loads(line)["n"] for line in run(*some).stdout.splitlines()] == [4, 5, 6]


@pytest.mark.slow
def test_under_load_subscribers_and_the_broker_are_killed_and_all_that_is_acknowledged_comes(
    processes: Processes, tmp_path: Path
) -> None:
    """Each life begins with what the one before was not done with: no event is left out, and few come twice."""
    broker, address = storing(processes, tmp_path)
    dice, last = Random(4), BATCH * BATCHES
    kills = sorted(dice.sample(range(2, BATCHES - 2), KILLS))
    lives: list[Process] = [subscriber(processes, address)]
    with holdfast.connect_sync(address, name="feed", durable=True) as feed:
        for batch in range(BATCHES):
            for number in range(batch * BATCH + 1, (batch + 1) * BATCH + 1):
                feed.publish({"n": number})
            feed.flush()
            if batch in kills:
                lives[-1].ask(signal.SIGKILL)
                if batch == kills[KILLS // 2]:
                    broker.ask(signal.SIGKILL)
                    broker, _ = storing(processes, tmp_path, address)
                lives.append(subscriber(processes, address))
        ends = until(lives[-1], last)
    found = [*map(printed, lives[:-1]), ends]
    seen = [number for each in found for number in each]
    assert sorted(set(seen)) == list(range(1, last + 1))
    for each in found:
        assert all(b == a + 1 for a, b in pairwise(each))  # in order, without a gap
    assert len(seen) - last <= KILLS * AT_ONCE


def test_a_store_that_would_not_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = run("broker", "--id", "b1", "--listen", "tcp://127.0.0.1:0", "--store", str(tmp_path / "b1.db"))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--hops basic stores nothing" in refused.stderr


def test_a_durable_verb_at_a_broker_that_stores_nothing_ends_with_one_line(processes: Processes) -> None:
    _, address = processes.broker("b1")
    refused = run("sub", "n > 0", "--broker", address, "--durable")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "b1 stores no events, and a durable client needs that" in refused.stderr

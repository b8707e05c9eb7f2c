"""Brokers and clients as processes: the command line, signals, and a broker that is killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest

import holdfast
from holdfast.cli import main
from holdfast.model.event import attributes_of
from holdfast.net.free_ports import free_ports
from tests.net.certificates import Authority

PATIENCE_S = 60.0
PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]


class Process:
    """A verb that runs. What it prints is read as it comes, so that it never waits for us."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: Queue[str] = Queue()
        self.err: Queue[str] = Queue()
        for pipe, lines in ((self._process.stdout, self.out), (self._process.stderr, self.err)):
            Thread(target=self._read, args=(pipe, lines), daemon=True).start()

    @staticmethod
    def _read(pipe: Any, lines: "Queue[str]") -> None:
        for line in pipe:
            lines.put(line.rstrip("\n"))
        pipe.close()

    def line(self, containing: str = "", error: bool = False) -> str:
        """The next line that contains this."""
        lines = self.err if error else self.out
        while True:
            try:
                line = lines.get(timeout=PATIENCE_S)
            except Empty:
                raise AssertionError(f"no line with {containing!r}; exit code {self._process.poll()}") from None
            if containing in line:
                return line

    def give(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def ask(self, number: int) -> int:
        self.send(number)
        return self._process.wait(PATIENCE_S)

    def wait(self) -> int:
        return self._process.wait(PATIENCE_S)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Processes:
    def __init__(self) -> None:
        self._started: list[Process] = []

    def start(self, *arguments: str) -> Process:
        process = Process(*arguments)
        self._started.append(process)
        return process

    def broker(self, name: str, *arguments: str, listen: str = "") -> tuple[Process, str]:
        """A broker that is ready, and its address, at which it may be started again."""
        listen = listen or f"tcp://127.0.0.1:{free_ports()}"
        process = self.start("broker", "--id", name, "--listen", listen, *arguments)
        ready = process.line("ready")
        return process, json.loads(ready)["listen"][0] if "--json" in arguments else ready.split()[-1]

    def end(self) -> None:
        for each in self._started:
            each.end()


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.end()


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_who_publishes_to_a_broker_that_is_gone_ends_when_it_is_told_to(processes: Processes) -> None:
    broker, address = processes.broker("b1")
    with holdfast.connect_sync(address) as client:
        wanted = client.subscribe("n > 0")
        client.flush()
        publisher = processes.start("pub", "--broker", address, "--json")
        publisher.give('{"n": 1}\n')
        assert wanted.next(timeout=PATIENCE_S).event == {"n": 1}
    assert broker.ask(signal.SIGKILL) == -signal.SIGKILL
    publisher.give("nonsense\n" + '{"n": 2}\n' * 1_000)
    publisher.line("line 2: not JSON", error=True)  # then it waits for a broker, and has said why
    assert publisher.ask(signal.SIGTERM) == 1  # a line was skipped
    assert json.loads(publisher.line("published"))["skipped"] == 1


def test_who_waits_for_events_is_told_when_the_broker_is_gone_and_when_it_is_back(processes: Processes) -> None:
    broker, address = processes.broker("b1")
    subscriber = processes.start("sub", "n > 0", "--broker", address, "--count", "1")
    subscriber.line("subscribed at b1", error=True)
    broker.ask(signal.SIGKILL)
    assert subscriber.line("disconnected from b1: ", error=True).endswith("; connecting again")
    processes.broker("b1", listen=address)
    assert subscriber.line("connected to b1 again: ", error=True).strip()[-1] not in ": "  # why events may be missing
    with holdfast.connect_sync(address) as client:
        _reaches(client, client)
        client.publish({"n": 1})
    assert subscriber.wait() == 0 and json.loads(subscriber.line()) == {"n": 1}


def test_events_go_from_standard_input_through_two_brokers_to_standard_output(processes: Processes) -> None:
    _, first = processes.broker("b1")
    _, second = processes.broker("b2", "--peer", f"b1={first}")
    subscriber = processes.start("sub", "symbol = 'IBM' AND price < 120", "--broker", second, "--count", "2")
    subscriber.line("subscribed at b2", error=True)
    lines = ['{"symbol": "IBM", "price": 99.5}', '{"symbol": "IBM", "price": 120}', '{"symbol": "IBM", "price": 119}']
    with holdfast.connect_sync(first) as probe, holdfast.connect_sync(second) as far:
        _reaches(probe, far)
    published = run("pub", "--broker", first, "--json", "--lifetime", "60", given="\n".join(lines))
    assert (published.returncode, published.stderr) == (0, "")
    assert json.loads(published.stdout) == {"published": 3, "skipped": 0, "refused": 0}
    assert subscriber.wait() == 0
    assert [json.loads(subscriber.line()) for _ in range(2)] == [json.loads(lines[0]), json.loads(lines[2])]


def test_what_sub_prints_pub_publishes_again_with_the_same_types(processes: Processes) -> None:
    _, first = processes.broker("b1")
    _, second = processes.broker("b2")
    event = {"home": {"team": "Yankees", "at": datetime(2026, 1, 31, 9, 30, tzinfo=UTC)}, "x": 1.0, "n": 2**64 - 1}
    with holdfast.connect_sync(first) as one, holdfast.connect_sync(second) as other:
        wanted = other.subscribe("home.at = TIMESTAMP '2026-01-31 09:30:00'")
        other.flush()
        subscriber = processes.start("sub", "x = 1", "--broker", first, "--count", "1")
        subscriber.line("subscribed at b1", error=True)
        one.publish(event)
        printed = subscriber.line()
        assert json.loads(printed)["home"]["at"] == {"$timestamp": "2026-01-31T09:30:00Z"}
        assert run("pub", "--broker", second, given=printed).returncode == 0
        arrived = wanted.next(timeout=PATIENCE_S).publication.attributes
        assert repr(arrived) == repr(attributes_of(event))


def test_a_condition_that_can_never_match_is_told_in_one_line() -> None:
    nobody = "tcp://127.0.0.1:1"
    done = run("sub", "x > 5 AND x < 3", "--broker", nobody)
    warning, error = done.stderr.splitlines()
    assert warning == "warning: never true: x > 5 AND x < 3; this subscription can never match"
    assert done.returncode == 2 and "cannot reach" in error


def _reaches(publisher: Any, subscriber: Any) -> None:
    """Wait until subscriptions on the one side are known on the other."""
    subscription = subscriber.subscribe("probe = 1")
    while True:
        publisher.publish({"probe": 1})
        try:
            subscription.next(timeout=0.1)
            return
        except TimeoutError:
            continue


def test_a_line_that_is_no_event_is_told_with_its_number_and_skipped(processes: Processes) -> None:
    _, address = processes.broker("b1")
    lines = [
        '{"a": 1}',
        "nonsense",
        "",
        "[1]",
        '{"a": [[1]]}',
        '{"a": 1e999, "b": {"c": 2}}',
        '{"a": 36893488147419103232}',
    ]
    published = run("pub", "--broker", address, "--json", "--rate", "100000", given="\n".join(lines) + "\n")
    assert published.returncode == 1
    assert json.loads(published.stdout) == {"published": 2, "skipped": 4, "refused": 0}
    places = [line.split(":")[0] for line in published.stderr.splitlines()]
    assert places == ["line 2", "line 4", "line 5", "line 7"]
    given = run("pub", '{"a": 1}', "price 7", "--broker", address, "--json", given='{"a": 2}')
    assert given.returncode == 1
    assert json.loads(given.stdout) == {"published": 1, "skipped": 1, "refused": 0}
    assert given.stderr.startswith("argument 2: ")


def test_sub_says_when_the_time_was_over_too_soon(processes: Processes) -> None:
    _, address = processes.broker("b1")
    assert run("sub", "a > 0", "--broker", address, "--count", "1", "--timeout", "0.1").returncode == 1
    assert run("sub", "a > 0", "--broker", address, "--timeout", "0.1").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_broker_and_a_subscriber_cleanly(processes: Processes, number: int) -> None:
    broker, address = processes.broker("b1", "--json")
    subscriber = processes.start("sub", "a > 0", "--broker", address)
    subscriber.line("subscribed", error=True)
    assert subscriber.ask(number) == 0
    assert broker.ask(number) == 0
    stopped = json.loads(broker.line("stopped"))
    assert (stopped["stopped"], stopped["dropped"], stopped["unsent"]) == ("b1", 0, 0)


def test_a_publisher_that_is_stopped_with_input_left_says_what_it_has_published(processes: Processes) -> None:
    broker, address = processes.broker("b1")
    publisher = processes.start("pub", "--broker", address, "--rate", "1", "--json")
    publisher.give(f'{{"pad": "{"x" * 1_000}"}}\n' * 300)  # more than it reads ahead
    broker.line("connected", error=True)
    assert publisher.ask(signal.SIGTERM) == 0
    assert json.loads(publisher.line())["published"] < 300
    assert publisher.err.empty()


def test_a_verb_that_was_started_without_standard_input_ends_as_any_other() -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "pub", "--broker", "tcp://127.0.0.1:1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)


def test_clients_and_peers_survive_a_broker_that_is_killed(processes: Processes) -> None:
    first, address = processes.broker("b1")
    _, second = processes.broker("b2", "--peer", f"b1={address}")
    with holdfast.connect_sync(address) as near, holdfast.connect_sync(second) as far:
        wanted = far.subscribe("n > 0")
        _reaches(near, far)
        assert first.ask(signal.SIGKILL) == -signal.SIGKILL
        processes.broker("b1", listen=address)
        _reaches(near, far)
        near.publish({"n": 1})
        assert wanted.next(timeout=PATIENCE_S).event == {"n": 1}


def test_a_peer_that_is_not_up_yet_is_tried_again(processes: Processes) -> None:
    later = f"tcp://127.0.0.1:{free_ports()}"
    b2, second = processes.broker("b2", "--peer", f"b1={later}")
    assert "connection refused" in b2.line("retrying", error=True)
    processes.broker("b1", listen=later)
    with holdfast.connect_sync(later) as near, holdfast.connect_sync(second) as far:
        _reaches(near, far)


def test_what_cannot_be_is_one_clear_line_and_exit_code_2(
    processes: Processes, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    _, address = processes.broker("b1")
    nobody = f"tcp://127.0.0.1:{free_ports()}"
    key = authority.files("broker").key
    for arguments, complaint in [
        (["broker", "--id", "b2", "--listen", address], f"cannot listen on {address}: the port is in use"),
        (["broker", "--id", "b2", "--listen", "7001"], "not an address"),
        (["broker", "--id", "b2", "--peer", "b1"], "NAME=ADDRESS"),
        (["broker", "--id", "x" * 256], "1 to 255 characters"),
        (["broker", "--id", "b2", "--listen", "tls://127.0.0.1:0", "--certificate", str(key)], "bad certificate"),
        (["pub", "--broker", nobody], f"cannot reach {nobody}: connection refused"),
        (["sub", "a > 0", "--broker", nobody], f"cannot reach {nobody}: connection refused"),
        (["sub", "a > 0", "--broker", address, "--name", "b1"], "is this broker itself"),
        (["pub", "--broker", address, "--rate", "0"], "--rate 0"),
    ]:
        with pytest.raises(SystemExit) as left:  # in this process: nine of their own would take seconds to start
            main(arguments)
        printed = capsys.readouterr()
        assert (left.value.code, printed.out) == (2, ""), arguments
        (line,) = printed.err.splitlines()
        assert line.startswith("holdfast: ")
        assert complaint in line


def test_a_wrong_condition_is_shown_with_its_place() -> None:
    found = run("sub", "price < AND symbol = 'IBM'")
    assert found.returncode == 2
    assert "line 1, column 9" in found.stderr

"""A broker without file descriptors tells of it, and continues when it has some again."""

import socket
import sys
from contextlib import ExitStack

import pytest

import holdfast
from holdfast.model.errors import TransportError
from holdfast.net import session
from holdfast.net.address import parse_address
from tests.net import test_processes

FILES_MAX = 48  # of the broker's process: Python, its event loop and the listener take some twenty
LIMITED = (
    "import resource, sys; from holdfast.cli import main; "
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES_MAX}, {FILES_MAX})); main()"
)


def test_a_broker_out_of_file_descriptors_logs_it_and_lets_clients_in_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_processes, "PROGRAM", [sys.executable, "-c", LIMITED])
    processes = test_processes.Processes()
    try:
        broker, address = processes.broker("b1")
        place = parse_address(address)
        with ExitStack() as crowd:
            for _ in range(FILES_MAX):
                crowd.enter_context(socket.create_connection((place.host, place.port)))
            assert "no connection is accepted for a second: too many open files" in broker.line("accepted", error=True)
        with holdfast.connect_sync(address) as client:
            client.publish({"n": 1})
            client.flush()
    finally:
        processes.end()


def test_a_client_learns_that_a_broker_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_GREETING_S", 0.1)
    silent = pytest.raises(TransportError, match=r"the broker does not answer: nothing came within 0.1 s")
    with socket.create_server(("127.0.0.1", 0)) as listener, silent:  # connections wait in its queue
        holdfast.connect_sync(f"tcp://127.0.0.1:{listener.getsockname()[1]}").__enter__()

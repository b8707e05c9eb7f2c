"""A port that was found free stays ours: others do not get it, and a server of ours may listen there."""

import socket
from collections import deque
from contextlib import suppress

from holdfast.net import free_ports as module
from holdfast.net.free_ports import free_ports


def is_taken(port: int) -> bool:
    with socket.socket() as other, suppress(OSError):
        other.bind(("127.0.0.1", port))
        return False
    return True


def test_nobody_else_gets_a_port_that_was_found_and_a_server_does_twice() -> None:
    port = free_ports()
    for _ in range(2):
        assert is_taken(port)
        with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()


def test_ports_in_a_row_are_all_kept() -> None:
    first = free_ports(3)
    assert all(is_taken(port) for port in range(first, first + 3))


def test_a_row_with_a_port_that_somebody_has_is_not_taken_and_nothing_of_it_is_kept(monkeypatch) -> None:
    chosen = free_ports(4)
    module._give_back(module._kept.pop())
    with socket.create_server(("127.0.0.1", chosen + 1)):
        given = iter([chosen, chosen + 2])
        monkeypatch.setattr(module.SystemRandom, "randrange", lambda *about: next(given))
        assert free_ports(2) == chosen + 2
        assert not is_taken(chosen)


def test_old_ports_are_given_back(monkeypatch) -> None:
    monkeypatch.setattr(module, "_kept", deque[list[int]]())
    monkeypatch.setattr(module, "_KEPT", 2)
    mine = [free_ports() for _ in range(3)]
    assert [is_taken(port) for port in mine] == [False, True, True]
    for each in module._kept:
        module._give_back(each)

"""Ports for servers that must know theirs before they start: other people's, and brokers that come back.

A port that was free a moment ago may be anybody's by now. So we keep it: a socket stays bound to it and never listens,
which a server that reuses addresses (as all of ours do) does not mind, and everybody else respects.
"""

import os
import socket
from collections import deque
from random import SystemRandom

_FIRST, _LAST = 10_000, 32_000  # the system takes the ports of connections from above, and daemons have those below
_TRIES = 1_000
_KEPT = 100  # ports, or rows of ports: those of servers that are long gone are given back

_kept: deque[list[int]] = deque()  # open files, which end with the process


def free_ports(number: int = 1) -> int:
    """The first of so many ports in a row that nobody has. They are kept for whoever asked."""
    for _ in range(_TRIES):
        first = SystemRandom().randrange(_FIRST, _LAST - number)
        bound: list[int] = []
        try:
            for port in range(first, first + number):
                bound.append(_bound(port))
        except OSError:
            _give_back(bound)
            continue
        _kept.append(bound)
        if len(_kept) > _KEPT:
            _give_back(_kept.popleft())
        return first
    raise OSError(f"there are no {number} free ports in a row from {_FIRST:,} to {_LAST:,}")


def _bound(port: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as found:
        datagrams.bind(("127.0.0.1", port))
        found.bind(("127.0.0.1", port))  # before the option: so that two who look at once do not get the same
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return found.detach()


def _give_back(bound: list[int]) -> None:
    for each in bound:
        os.close(each)

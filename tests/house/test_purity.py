"""Protocol machines are pure: no I/O, clock, threads, logging, global dice, hash() or order of sets."""

import pytest

from tests.house.purity import impurities
from tests.house.tree import complaints


def test_protocol_machines_are_pure() -> None:
    wrong = complaints(impurities, "src/holdfast/protocol/")
    assert not wrong, f"a machine takes time, dice and facts from its caller:\n{wrong}"


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\nRandom('7/broker1/gossip')",
        "from collections import deque\nfor x in deque(): pass",
        "for x in sorted({1, 2}): pass",
        "seen: set[int] = set()\nlen(seen), 3 in seen, sum(x for x in seen), {x + 1 for x in seen}, {*seen}",
        "seen = {1}\ndef f(seen: list[int]):\n    for x in seen: pass",
        "for x in {'a': 1}: pass",
        "def f(wanted: dict[str, list[int]]):\n    for x in wanted['a']: pass",
        "def f(queue: list[int]):\n    queue.pop()",
    ],
)
def test_pure_code_passes(source: str) -> None:
    assert list(impurities(source, "holdfast.protocol.fake")) == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import time", "time reads the clock"),
        ("from asyncio import sleep", "asyncio does I/O"),
        ("def f():\n    import logging", ":2: logging logs"),
        ("import threading", "starts threads"),
        ("import random", "the global dice"),
        ("from random import choice", "the global dice"),
        ("import numpy as np\nnp.random.seed(1)", ":2: numpy.random is the global dice"),
        ("Random()", "without a seed"),
        ("hash('a') % 7", "hash() differs"),
        ("print('sent')", "print() does I/O"),
    ],
)
def test_touching_the_world_is_named(source: str, complaint: str) -> None:
    (message,) = impurities(source, "holdfast.protocol.fake")
    assert complaint in message


@pytest.mark.parametrize(
    "source",
    [
        "for x in {1, 2}: pass",
        "for x in set('ab') | {'c'}: pass",
        "for x in one.keys() & two.keys(): pass",
        "[x for x in frozenset('ab')]",
        "seen: set[int] = set()\nlist(seen)",
        "def f(peers: frozenset[str] | None):\n    return {x: 1 for x in peers}",
        "def f(peers: 'set[str]'):\n    return [*peers]",
        "def f(peers: set[str]):\n    return peers.pop()",
        "def f(peers: set[str]):\n    yield from peers",
        "def f(peers: set[str]):\n    return min(peers, key=len)",
        "def peers() -> set[str]: ...\n','.join(peers())",
        "wanted: dict[str, set[int]] = {}\nfor x in wanted['a']: pass",
        "wanted: dict[str, set[int]] = {}\nfor ids in wanted.values():\n    list(ids)",
        "class A:\n    peers: set[str]\n    def f(self):\n        for x in self.peers - {'a'}: pass",
        "class A:\n    def f(self):\n        self.peers = set()\n        iter(self.peers)",
    ],
)
def test_the_order_of_a_set_is_not_used(source: str) -> None:
    (message,) = impurities(source, "holdfast.protocol.fake")
    assert "iterates over the set" in message

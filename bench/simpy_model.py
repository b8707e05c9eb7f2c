"""The tree of paper 001 as people write it in SimPy: one process a broker, one a publisher, one a message on a link.

The model is the simulator's for this network (same tree, patterns, loss, delay and rates) without heartbeats, traces or
books: it only forwards events and counts transmissions. It is the yardstick for `./run bench sim`.
"""

import random
from collections.abc import Iterator
from typing import Any

import simpy


def routes(tree: dict[str, list[str]], wanted: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """For each broker and pattern the neighbours behind which somebody wants it."""
    found: dict[str, dict[str, list[str]]] = {broker: {} for broker in tree}
    for broker, neighbours in tree.items():
        for neighbour in neighbours:
            behind: dict[str, None] = {}
            waiting = [(neighbour, broker)]
            while waiting:
                node, back = waiting.pop()
                behind.update(dict.fromkeys(wanted[node]))
                waiting += [(beyond, node) for beyond in tree[node] if beyond != back]
            for pattern in behind:
                found[broker].setdefault(pattern, []).append(neighbour)
    return found


class Model:
    def __init__(
        self,
        tree: dict[str, list[str]],
        wanted: dict[str, list[str]],
        patterns: list[str],
        per_event: int,
        rate_per_s: float,
        loss: float,
        delay_s: float,
        seed: int,
    ) -> None:
        self.transmissions = self.delivered = 0
        self._dice = random.Random(seed)
        self._environment = simpy.Environment()
        self._wanted = {broker: frozenset(given) for broker, given in wanted.items()}
        self._routes = routes(tree, wanted)
        self._patterns, self._per_event = patterns, per_event
        self._rate_per_s, self._loss, self._delay_s = rate_per_s, loss, delay_s
        self._inboxes = {broker: simpy.Store(self._environment) for broker in tree}
        for broker in tree:
            self._environment.process(self._broker(broker))
            self._environment.process(self._publisher(broker))

    def run(self, seconds: float) -> None:
        self._environment.run(until=seconds)

    def _publisher(self, name: str) -> Iterator[Any]:
        while True:
            yield self._environment.timeout(self._dice.expovariate(self._rate_per_s))
            yield self._inboxes[name].put((None, self._dice.sample(self._patterns, self._per_event)))

    def _broker(self, name: str) -> Iterator[Any]:
        inbox, directions, local = self._inboxes[name], self._routes[name], self._wanted[name]
        while True:
            sender, event = yield inbox.get()
            if not local.isdisjoint(event):
                self.delivered += 1
            towards = {neighbour for pattern in event for neighbour in directions.get(pattern, ())}
            for neighbour in towards:
                if neighbour != sender:
                    self.transmissions += 1
                    if self._dice.random() >= self._loss:
                        self._environment.process(self._carry(name, neighbour, event))

    def _carry(self, sender: str, receiver: str, event: list[str]) -> Iterator[Any]:
        yield self._environment.timeout(self._delay_s)
        yield self._inboxes[receiver].put((sender, event))

"""Machines of the paper's recovery in one room: what one says reaches the others after a while, as brokers route it."""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from random import Random
from typing import Any

from holdfast.language.parser import parse
from holdfast.model.messages import AttributeValue, Publication
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Lost
from holdfast.protocol.recovery.control import is_open_repair
from holdfast.protocol.recovery.srm.messages import is_addressed, is_request
from holdfast.protocol.recovery.srm.recovery import SrmRecovery
from holdfast.protocol.recovery.srm.settings import SrmSettings

D = 100_000  # from the publisher to everybody, where nothing else is said
FIXED = SrmSettings(adaptive=False)

Delay = Callable[[str, str], int]


class Node:
    """A machine, and its channel to the others in the room."""

    def __init__(self, room: "Room", name: str, settings: SrmSettings, seed: int, condition: str) -> None:
        self._room = room
        self.name = name
        self.condition = parse(condition)
        self.seen = Seen(4_096, 100)
        self.machine = SrmRecovery(name, 0, settings, self.seen, 1, Random(f"{seed}/{name}"), self)
        self.followed: dict[str, Any] = {}
        self.got: list[int] = []
        self.lost: list[tuple[int, str]] = []

    def send_control(self, attributes: dict[str, AttributeValue], payload: bytes, now_us: int) -> list[Effect]:
        self._room.say(self, Publication(self.name, 0, now_us, None, attributes, payload))
        return []

    def follow(self, condition: str, now_us: int) -> list[Effect]:
        self.followed[condition] = parse(condition)
        return []

    def unfollow(self, condition: str, now_us: int) -> list[Effect]:
        self.followed.pop(condition, None)
        return []

    def note(self, effects: list[Effect]) -> None:
        self.lost += [(each.first, each.reason) for each in effects if isinstance(each, Lost)]


class Room:
    """All want x = 1 unless `conditions` say otherwise; `lose(kind, from, to)` says what does not arrive."""

    def __init__(
        self,
        *names: str,
        settings: SrmSettings = FIXED,
        delay: Delay = lambda _a, _b: D,
        seed: int = 1,
        conditions: Mapping[str, str] | None = None,
        lose: Callable[[str, str, str], bool] = lambda _kind, _a, _b: False,
    ) -> None:
        wanted = {**dict.fromkeys(names, "x = 1"), **(conditions or {})}
        self.nodes = {name: Node(self, name, settings, seed, wanted[name]) for name in names}
        self.publisher = Node(self, "Z", settings, seed, "FALSE")
        self.everyone = {"Z": self.publisher, **self.nodes}
        self._delay = delay
        self._lose = lose
        self._heap: list[tuple[int, int, str, Publication]] = []
        self._pushed = 0
        self.now_us = 0
        self.said: list[tuple[int, str, str]] = []  # when, by whom, what
        for node in self.everyone.values():
            node.note(node.machine.start(0))
            node.note(node.machine.on_subscriptions([(0, node.condition)], 0))

    def publish(self, seq: int, to: tuple[str, ...] = (), x: int = 1, **more: int) -> Publication:
        """The publisher's next; only these nodes get it, by default none."""
        machine = self.publisher.machine
        record = machine.record_for(seq, self.now_us)
        publication = Publication("Z", seq, self.now_us, None, {"x": x, **more}, b"event", record or None)
        machine.on_published(publication, self.now_us)
        for name in to:
            self._push(self.now_us + self._delay("Z", name), name, publication)
        return publication

    def run(self, until_us: int) -> None:
        while True:
            dues = [(due, name) for name, each in self.everyone.items() if (due := each.machine.next_due_us())]
            due = min(dues, default=None)
            arrives_us = self._heap[0][0] if self._heap else None
            if arrives_us is not None and arrives_us <= until_us and (due is None or arrives_us <= due[0]):
                self.now_us, _, name, publication = heappop(self._heap)
                self._receive(self.everyone[name], publication)
            elif due is not None and due[0] <= until_us:
                self.now_us = due[0]
                node = self.everyone[due[1]]
                node.note(node.machine.on_timer(self.now_us))
            else:
                self.now_us = until_us
                return

    def times(self, kind: str, by: str | None = None) -> list[int]:
        return [time_us for time_us, name, said in self.said if said == kind and by in (None, name)]

    def count(self, what: str) -> int:
        return sum(each.machine.counts[what] for each in self.everyone.values())

    def _push(self, at_us: int, name: str, publication: Publication) -> None:
        self._pushed += 1
        heappush(self._heap, (at_us, self._pushed, name, publication))

    def _receive(self, node: Node, publication: Publication) -> None:
        if publication.seq == 0:
            effects, repaired = node.machine.on_control(publication, self.now_us)
            node.note(effects)
            for each in repaired:
                if node.condition.matches(each.attributes) and node.seen.first_time("Z", each.seq):
                    node.got.append(each.seq)
                    node.note(node.machine.on_event(each, "repair", self.now_us))
                node.machine.on_repaired(each, self.now_us)
        elif node.seen.first_time(publication.source, publication.seq):
            node.got.append(publication.seq)
            node.note(node.machine.on_event(publication, "original", self.now_us))

    def say(self, node: Node, said: Publication) -> None:
        is_open = is_open_repair(said.attributes)
        kind = "request" if is_request(said) else "repair" if is_open or is_addressed(said) else "record"
        self.said.append((self.now_us, node.name, kind))
        for other in self.everyone.values():
            hears = any(each.matches(said.attributes) for each in other.followed.values())
            hears = hears or (is_open and other.condition.matches(said.attributes))
            if other is not node and hears and not self._lose(kind, node.name, other.name):
                self._push(self.now_us + self._delay(node.name, other.name), other.name, said)

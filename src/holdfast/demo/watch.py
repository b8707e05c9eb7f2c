"""What somebody who looks at a running network wants to know, kept up to date from the rows of its trace.

Brokers report once a second, so what is shown is at most that old. Nothing here draws; `screen` does.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_RECENT_S = 120  # of deliveries a second: twice as long as the demo runs
_HAPPENINGS_MAX = 200  # happenings; a network that has more of them has other problems than a full list
_HELD = "messages held back"
_OVERLOAD = "dropped"  # because a neighbour was too slow


@dataclass
class LinkCounts:
    """Both directions of a link together."""

    sent: int = 0
    lost: int = 0
    per_s: dict[str, float] = field(default_factory=dict)  # by sender, in its last second

    @property
    def rate_per_s(self) -> float:
        return sum(self.per_s.values())

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else 0.0


@dataclass(frozen=True)
class Happening:
    at_s: float
    words: str


class RunWatch:
    def __init__(self) -> None:
        self.links: dict[frozenset[str], LinkCounts] = {}
        self.lost = 0  # messages of all kinds, on all links
        self.overload = 0  # events that somebody threw away because there were too many
        self.happenings: deque[Happening] = deque(maxlen=_HAPPENINGS_MAX)
        self.down: set[str] = set()
        self.replica_of: dict[str, str] = {}  # broker -> the latest that stands in its place
        self.ready: set[str] = set()  # replicas that know everything
        self.per_s: deque[tuple[int, int, int]] = deque(maxlen=_RECENT_S)  # published, delivered, recovered
        self._held: dict[str, int] = {}  # by client, now
        self._before = (0, 0, 0)
        self._suspected: dict[str, list[str]] = {}

    @property
    def held(self) -> int:
        """Events that wait at their subscribers for an earlier one."""
        return sum(self._held.values())

    def on_second(self, published: int, delivered: int, recovered: int) -> None:
        """A second has passed, and this is how far it has come in all."""
        now = (published, delivered, recovered)
        self.per_s.append((now[0] - self._before[0], now[1] - self._before[1], now[2] - self._before[2]))
        self._before = now

    def on_row(self, table: str, values: Sequence[Any]) -> None:
        if table == "samples":
            node, _, name, value, _ = values
            if name == _HELD:
                self._held[node] = int(value)
        elif table == "links":
            self._on_link(*values)
        elif table == "messages":
            self.lost += int(values[6])
        elif table == "incidents":
            node, time_us, kind, peer, _, _, _, count, *_ = values
            if kind == _OVERLOAD:
                self.overload += count
            self._on_incident(node, time_us / 1e6, kind, peer)

    def _on_link(self, node: str, peer: str, from_us: int, until_us: int, sent: int, _: int, lost: int) -> None:
        counts = self.links.setdefault(frozenset((self.place(node), self.place(peer))), LinkCounts())
        counts.lost += lost
        counts.sent += sent
        counts.per_s[node] = sent / (until_us - from_us) * 1e6 if until_us > from_us else 0.0

    def place(self, node: str) -> str:
        """The broker in whose place a node stands: itself, unless it is a replica."""
        return next((broker for broker, replica in self.replica_of.items() if replica == node), node)

    def _on_incident(self, node: str, at_s: float, kind: str, peer: str) -> None:
        if kind == "crash":
            self.down.add(node)
            for ends, counts in self.links.items():
                if node in ends:
                    counts.per_s.clear()
            self._note(at_s, f"kill -9 {node}")
        elif kind == "suspected":
            noticed = self._suspected.setdefault(peer, [])
            noticed.append(node)
            if len(noticed) == 1:
                self._note(at_s, f"{node} notices that {peer} is gone, and keeps events for it")
        elif kind == "replica_wanted":
            self._note(at_s, f"the neighbours of {peer} request a replica")
        elif kind == "replica_started":
            self.replica_of[peer] = node
            self._note(at_s, f"{node} starts and asks the neighbours of {peer} for its tables")
        elif kind == "replica_ready":
            self.ready.add(node)
            self._note(at_s, f"{node} knows all tables and replaces it")

    def _note(self, at_s: float, words: str) -> None:
        self.happenings.append(Happening(at_s, words))


def rooted(neighbours: Mapping[str, Sequence[str]], root: str) -> list[tuple[int, str, str | None]]:
    """The brokers of a tree from the root down: depth, name, and whom it hangs from."""
    found: list[tuple[int, str, str | None]] = []
    waiting: list[tuple[int, str, str | None]] = [(0, root, None)]
    seen = {root}
    while waiting:
        depth, name, above = waiting.pop()
        found.append((depth, name, above))
        below = [each for each in neighbours[name] if each not in seen]
        seen.update(below)
        waiting += [(depth + 1, each, name) for each in reversed(below)]
    return found

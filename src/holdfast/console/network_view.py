"""Brokers, links and clients as the map shows them, from what brokers tell of themselves.

Statuses go in once a second, whoever has fetched them; rates come from how much counters have grown. A link has two
ends, which both tell of it. Who is named by a neighbour and tells nothing itself is shown as such.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.console.board import Board, Entry
from holdfast.console.chart_points import ChartPoints

BrokerStatus = Mapping[str, Any]  # what a broker's /status tells
BrokerState = Literal["up", "down", "replaced", "starting", "unwatched"]

_SMOOTHING = 0.1  # of a second in the loss that is shown: it follows within some ten seconds
CLIENTS_MAX = 1_000  # drawn one by one; more are only counted, by broker


@dataclass(frozen=True)
class LinkFacts:
    """What is known of a link from elsewhere: the network file, or somebody who has cut it."""

    a: str
    b: str
    delay_us: int | None = None
    loss: float | None = None
    cut: bool = False


@dataclass(frozen=True)
class Look:
    """A network at one moment."""

    time_s: float
    statuses: Mapping[str, BrokerStatus]  # of brokers that answer
    down: Mapping[str, str] = field(default_factory=dict)  # brokers that do not, and why
    starting: Mapping[str, str] = field(default_factory=dict)  # replicas on their way, and for whom
    replaced: Mapping[str, str] = field(default_factory=dict)  # brokers that are gone, and who has their place
    links: tuple[LinkFacts, ...] = ()
    homes: Mapping[str, str] | None = None  # every client and its broker; None: what brokers tell


def link_key(a: str, b: str) -> str:
    first, second = sorted((a, b))
    return f"link/{first}~{second}"


class NetworkView:
    def __init__(self, board: Board, history: ChartPoints) -> None:
        self._board = board
        self._history = history
        self._losses: dict[tuple[str, str], float] = {}  # of each link, smoothed: single seconds say little
        self._statuses: dict[str, tuple[BrokerStatus, BrokerStatus]] = {}  # of each broker the last two

    def look(self, look: Look) -> None:
        self._compare(look.statuses)
        facts = {_ordered(each.a, each.b): each for each in look.links}
        brokers = {name: self._broker(look, name) for name in self._names(look)}
        links = {link_key(a, b): self._link(look, a, b, facts.get((a, b))) for a, b in self._pairs(look, brokers)}
        clients = self._clients(look)
        self._show("broker/", {f"broker/{name}": entry for name, entry in brokers.items()}, _BROKER_CHARTS)
        self._show("link/", links, _LINK_CHARTS)
        self._show("client/", {f"client/{name}": entry for name, entry in clients.items()}, ())

    def _compare(self, statuses: Mapping[str, BrokerStatus]) -> None:
        pairs = {}
        for name, status in statuses.items():
            before, last = self._statuses.get(name, (status, status))
            pairs[name] = (last, status) if status["time_s"] > last["time_s"] else (before, last)
        self._statuses = pairs

    def _show(self, prefix: str, entries: Mapping[str, Entry], charts: Iterable[str]) -> None:
        for key in self._board.keys(prefix):
            if key not in entries:
                self._board.remove(key)
                self._history.forget(key)
        for key, entry in entries.items():
            self._board.put(key, entry)
            numbers = {name: entry[name] for name in charts if entry.get(name) is not None}
            if numbers:
                self._history.put(key, numbers)

    # Brokers -------------------------------------------------------------------------------------

    def _names(self, look: Look) -> list[str]:
        told = [name for status in look.statuses.values() for name in status.get("peers", {})]
        known = (*look.statuses, *look.down, *look.starting, *look.replaced, *told)
        return sorted(dict.fromkeys(known))

    def _broker(self, look: Look, name: str) -> Entry:
        status = look.statuses.get(name)
        entry: Entry = {"name": name, "state": _state(look, name), "why": look.down.get(name, "")}
        if name in look.replaced:
            entry["replaced_by"] = look.replaced[name]
        stands_for = [old for old, new in (*look.replaced.items(), *_turned(look.starting)) if new == name]
        if stands_for:
            entry["stands_for"] = stands_for[0]
        if status is None:
            return entry
        counters, links = status.get("counters", {}), status.get("links", {})
        queues = [each["queue_bytes"] for each in links.values()]
        return entry | {
            "problems": list(status.get("problems", ()))[:10],
            "clients": status.get("clients", 0),
            "routing": status.get("routing"),
            "hops": status.get("hops"),
            "received": self._rate(name, "counters", "received"),
            "sent": self._rate(name, "counters", "sent"),
            "lost": self._rate(name, "counters", "lost"),
            "dropped": self._rate(name, "counters", "dropped"),
            "dropped_total": counters.get("dropped", 0),
            "queue_bytes": max(queues, default=0),
            "queue_limit": status.get("queues", {}).get("limit", 0),
            "held_up": sum(bool(each["held_up"]) for each in links.values()),
            "gauges": _fullest(status.get("gauges", {})),
        }

    def _rate(self, broker: str, *path: str) -> float:
        """By how much a counter grew in a second, by the broker's own clock; 0 for one that has begun anew."""
        if broker not in self._statuses:
            return 0.0
        old, new = self._statuses[broker]
        passed_s = new["time_s"] - old["time_s"]
        return round(max(0.0, _at(new, path) - _at(old, path)) / passed_s, 2) if passed_s > 0 else 0.0

    # Links ---------------------------------------------------------------------------------------

    def _pairs(self, look: Look, brokers: Iterable[str]) -> dict[tuple[str, str], None]:
        named = {*brokers} - look.replaced.keys()  # whoever has its place has its links
        told = [(name, peer) for name, status in look.statuses.items() for peer in status.get("peers", {})]
        pairs = {_ordered(a, b): None for a, b in told if a in named and b in named}
        return pairs | {_ordered(each.a, each.b): None for each in look.links if each.a in named and each.b in named}

    def _link(self, look: Look, a: str, b: str, facts: LinkFacts | None) -> Entry:
        ends = [(look.statuses[one], other) for one, other in ((a, b), (b, a)) if one in look.statuses]
        told = [status["links"][other] for status, other in ends if other in status.get("links", {})]
        peers = [bool(status.get("peers", {}).get(other)) for status, other in ends]
        gone = [each for each in (a, b) if each in look.down or each in look.replaced or each in look.starting]
        state = "cut" if facts is not None and facts.cut else "down" if gone or not all(peers) or not peers else "up"
        sent, lost, repairs = (
            {one: self._rate(one, "links", other, what) for one, other in ((a, b), (b, a))}
            for what in ("sent", "lost", "repairs")
        )
        trips = [link["round_trip_us"] for link in told if link["round_trip_us"]]
        return {
            "a": a,
            "b": b,
            "state": state,
            "a_per_s": sent[a],
            "b_per_s": sent[b],
            "per_s": round(sent[a] + sent[b], 2),
            "lost": round(sum(lost.values()), 2),
            "loss": self._loss(a, b, sum(lost.values()), sent[a] + sent[b]),
            "repairs": round(sum(repairs.values()), 2),
            "queue_bytes": max((link["queue_bytes"] for link in told), default=0),
            "held_up": any(link["held_up"] for link in told),
            "blocked": any(link["blocked"] for link in told),
            "round_trip_ms": round(sum(trips) / len(trips) / 1e3, 2) if trips else None,
            "retransmitted": sum(link["retransmitted"] for link in told),
            "delay_ms": None if facts is None or facts.delay_us is None else facts.delay_us / 1e3,
            "loss_set": None if facts is None else facts.loss,
        }

    def _loss(self, a: str, b: str, lost: float, sent: float) -> float:
        before = self._losses.get((a, b))
        if sent:
            now = lost / sent
            self._losses[a, b] = now if before is None else before + _SMOOTHING * (now - before)
        return round(self._losses.get((a, b), 0.0), 4)

    # Clients -------------------------------------------------------------------------------------

    def _clients(self, look: Look) -> dict[str, Entry]:
        if look.homes is not None:
            homes = list(look.homes.items())
        else:
            homes = [
                (name, broker)
                for broker, status in look.statuses.items()
                for name, link in status.get("links", {}).items()
                if link["kind"] == "client"
            ]
        return {name: {"name": name, "broker": _place(look, broker)} for name, broker in homes[:CLIENTS_MAX]}


_BROKER_CHARTS = ("received", "sent", "lost", "dropped", "queue_bytes", "clients")
_LINK_CHARTS = ("a_per_s", "b_per_s", "lost", "loss", "repairs", "queue_bytes", "round_trip_ms")


def _state(look: Look, name: str) -> BrokerState:
    if name in look.replaced:
        return "replaced"
    if name in look.starting:
        return "starting"
    if name in look.down:
        return "down"
    return "up" if name in look.statuses else "unwatched"


def _place(look: Look, broker: str) -> str:
    """Who serves the clients of a broker: whoever has replaced it, if somebody has."""
    seen = set[str]()
    while broker in look.replaced and broker not in seen:
        seen.add(broker)
        broker = look.replaced[broker]
    return broker


def _fullest(gauges: Mapping[str, Mapping[str, float]], most: int = 6) -> list[list[Any]]:
    """What a broker holds, with its limit: the nearest to the limit first."""
    rows: list[list[Any]] = [[name, each["value"], each["limit"]] for name, each in gauges.items() if each["limit"]]
    return sorted(rows, key=lambda row: -row[1] / row[2])[:most]


def _turned(starting: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return ((faulty, replica) for replica, faulty in starting.items())


def _ordered(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def _at(status: BrokerStatus, path: tuple[str, ...]) -> float:
    found: Any = status
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return float(found or 0)

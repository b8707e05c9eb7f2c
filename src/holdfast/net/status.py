"""How a live broker is, at one moment: what both its health and its metrics are made of.

A broker is well when every peer is connected, be it one that it dials or one that had dialled it, no neighbour's queue
is so full that events are dropped or held up, and its store takes what it is given. None of these means that the broker
should be restarted: they are for whoever looks after the network, or decides where to send new clients.
"""

from dataclasses import asdict, dataclass, field
from time import time

from holdfast.net.counters import Counters
from holdfast.net.link import Link
from holdfast.net.node import BrokerNode
from holdfast.net.tcp import TcpWire
from holdfast.protocol.effects import Gauges

_FULL = 0.9  # of what may wait for a neighbour: past this, the next burst costs events
_CLIENTS_NAMED_MAX = 100  # in the status, which is asked for once a second; the others are counted


@dataclass(frozen=True)
class Queue:
    """What waits for one neighbour."""

    messages: int
    bytes: int


@dataclass(frozen=True)
class LinkStatus:
    """A neighbour that is connected, and what has passed between it and this broker since it connected."""

    kind: str  # "broker" or "client"
    sent: int  # messages, each event of a batch by itself
    received: int
    lost: int  # of those sent: by injected faults
    repairs: int  # of those sent: events once more; counted where messages are tallied, under `holdfast up`
    queue_bytes: int
    queue_messages: int
    held_up: bool  # nothing is read from it, because another neighbour has too much waiting
    blocked: bool  # it takes nothing for now
    round_trip_us: int  # by the kernel's count; 0 where that is unknown
    retransmitted: int  # segments of TCP


@dataclass(frozen=True)
class StoreStatus:
    unwritten: int  # changes that are not safe yet
    problem: str | None  # why it cannot be written
    file_bytes: int


@dataclass(frozen=True)
class Status:
    broker: str
    routing: str
    hops: str
    peers: dict[str, bool]  # brokers that it dials, or that have dialled it; whether there is a connection
    clients: int
    broker_queues: dict[str, Queue]
    client_queues: tuple[Queue, ...]  # without names: there may be thousands, and they come and go
    queue_bytes_max: int  # of one neighbour
    store: StoreStatus | None
    gauges: Gauges
    counters: Counters
    links: dict[str, LinkStatus] = field(default_factory=dict)  # of clients a hundred at most
    name_taken: str = ""  # a peer does not let it in, because another broker has its name

    @property
    def problems(self) -> list[str]:
        found = [self.name_taken] if self.name_taken else []
        found += [f"peer {name} is not connected" for name, up in self.peers.items() if not up]
        limit = _FULL * self.queue_bytes_max
        for name, queue in self.broker_queues.items():
            if queue.bytes > limit:
                found.append(f"the queue for {name} is full: {queue.bytes:,} of {self.queue_bytes_max:,} bytes")
        full = sum(queue.bytes > limit for queue in self.client_queues)
        if full:
            found.append(f"the queues of {full:,} clients are full")
        if self.store is not None and self.store.problem is not None:
            found.append(self.store.problem)
        return found

    def as_json(self) -> dict[str, object]:
        problems = self.problems
        store = None if self.store is None else {"unwritten": self.store.unwritten, "problem": self.store.problem}
        return {
            "ok": not problems,
            "problems": problems,
            "broker": self.broker,
            "peers": self.peers,
            "clients": self.clients,
            "queues": {
                "brokers": {name: queue.bytes for name, queue in self.broker_queues.items()},
                "clients_max": max((queue.bytes for queue in self.client_queues), default=0),
                "limit": self.queue_bytes_max,
            },
            "store": store,
            "gauges": {name: {"value": value, "limit": limit} for name, (value, limit) in self.gauges.items()},
        }

    def details(self) -> dict[str, object]:
        """All of it: what `/health` tells, and what has passed over each link."""
        return {
            **self.as_json(),
            "time_s": time(),
            "routing": self.routing,
            "hops": self.hops,
            "counters": asdict(self.counters),
            "links": {name: asdict(each) for name, each in self.links.items()},
        }


def status_of(node: BrokerNode) -> Status:
    links = node.driver.links.values()
    queues = {each.name: Queue(each.waiting, each.outbox.waiting_bytes) for each in links}
    brokers = [each.name for each in links if each.kind == "broker"]
    connected = {*node.neighbours}  # what waits for others is among the gauges
    clients = [each.name for each in links if each.kind == "client" and each.name in connected]
    return Status(
        broker=node.settings.name,
        routing=node.settings.routing,
        hops=node.settings.hops.hops,
        peers={name: name in queues for name in sorted({*node.peers, *brokers, *node.lost_peers.names()})},
        clients=len(clients),
        broker_queues={name: queues[name] for name in sorted(brokers)},
        client_queues=tuple(queues[name] for name in clients),
        queue_bytes_max=node.settings.queue_bytes,
        store=_store(node),
        gauges=node.gauges(),
        counters=node.counters,
        links=_links(node, clients[:_CLIENTS_NAMED_MAX]),
        name_taken=node.name_taken,
    )


def _links(node: BrokerNode, clients: list[str]) -> dict[str, LinkStatus]:
    named = {*clients}
    return {
        link.name: _link(link) for link in node.driver.links.values() if link.kind == "broker" or link.name in named
    }


def _link(link: Link) -> LinkStatus:
    wire = link.wire if isinstance(link.wire, TcpWire) else None
    return LinkStatus(
        link.kind,
        link.sent,
        link.received,
        link.lost,
        link.repairs_sent,
        link.outbox.waiting_bytes,
        link.waiting,
        link.held_up,
        not link.writable,
        0 if wire is None else wire.round_trip_us,
        0 if wire is None else wire.retransmitted,
    )


def _store(node: BrokerNode) -> StoreStatus | None:
    if node.store is None or node.settings.store is None:
        return None
    path = node.settings.store
    files = (path, path.with_name(f"{path.name}-wal"))  # SQLite's log counts as well
    size = sum(each.stat().st_size for each in files if each.exists())
    return StoreStatus(node.store.unwritten, node.store.problem, size)

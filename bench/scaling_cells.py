"""One network of `bench scaling`: made from five sizes and a mechanism, run, and counted by role.

A cell counts what a broker, a publisher and a subscriber send, receive, keep and take, second by second of simulated
time, once tables have spread, and apart from that what it takes until then. Each cell is a process of its own, forked
from one that has imported everything, so that its memory is its own and costs no second of imports.
"""

import gc
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from statistics import fmean
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from bench.sim_workloads import peak_mib
from holdfast.matching.shared_index import SharedIndex
from holdfast.model.messages import Heartbeat
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Input
from holdfast.sim.host import Host
from holdfast.sim.simulator import Simulation

SETUP_US = 2_000_000  # tables have spread by then, in every cell
END_US = 5_000_000
ROLES = ("broker", "publisher", "subscriber")
EVENTS = frozenset({"Publish", "Deliver"})  # kinds of message that are no control messages
_SAMPLE = 5  # nodes of a role whose state is measured


@dataclass(frozen=True)
class Size:
    """What a network has of everything."""

    brokers: int = 30
    subscribers: int = 90
    conditions: int = 30
    publishers: int = 6
    rate: int = 6  # publications a second of each publisher


@dataclass(frozen=True)
class Mechanism:
    reliability: str = ""  # lines of the table
    routing: str = "subscriptions"
    more: str = ""  # further tables

    @property
    def graph(self) -> str:
        """A tree, or for routing that takes more than that, a graph with other ways to go."""
        return 'kind = "random"' if self.routing == "destinations" else 'kind = "tree"'


MECHANISMS = {
    "best effort": Mechanism(),
    "advertisements": Mechanism(routing="advertisements"),
    "destinations": Mechanism(routing="destinations"),
    "nack": Mechanism('hops = "nack"'),
    "retransmission": Mechanism('hops = "retransmission"'),
    "multipath": Mechanism('hops = "multipath"', "destinations"),
    "hybrid": Mechanism('hops = "hybrid"', "destinations"),
    "recovery": Mechanism('recovery = "end-to-end"'),
    "recovery, fifo": Mechanism('recovery = "end-to-end"\norder = "fifo"'),
    "recovery, strict": Mechanism('recovery = "end-to-end"\norder = "strict"'),
    "srm": Mechanism('recovery = "end-to-end"\nscheme = "srm"'),
    "push": Mechanism('gossip = "push"'),
    "combined-pull": Mechanism('gossip = "combined-pull"'),
    "reconcile": Mechanism('gossip = "reconcile"'),
    "replication": Mechanism(more='[replication]\nprotocol = "incremental"'),
}


def network_of(
    mechanism: Mechanism,
    size: Size,
    duration_us: int,
    start_us: int,
    heartbeat_s: float = 1.0,
    all_subscribe: bool = False,
) -> Network:
    """`all_subscribe`: publishers are some of the subscribers."""
    text = f"""
duration_s = {duration_us / 1e6}
routing = "{mechanism.routing}"
[topology]
{mechanism.graph}
brokers = {size.brokers}
[links]
delay_ms = 5
loss = 0.01
[clients]
count = {size.subscribers if all_subscribe else size.subscribers + size.publishers}
publishers = {size.publishers}
subscribers = "{"all" if all_subscribe else "others"}"
[workload]
kind = "patterns"
patterns = {size.conditions}
per_client = 1
per_event = 1
rate_per_s = {size.rate}
spacing = "periodic"
start_s = {start_us / 1e6}
stop_s = {duration_us / 1e6}
[protocol]
heartbeat_s = {heartbeat_s}
lease_s = {3.5 * heartbeat_s}
[reliability]
{mechanism.reliability}
{mechanism.more}
"""
    return parse_text(text, "scaling")


def apart(task: Callable[..., dict[str, Any]], *given: object) -> dict[str, Any]:
    """What a function returns in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(task, given)


def run(name: str, size: Size) -> dict[str, Any]:
    began_s, began_mib = time.process_time(), peak_mib()
    network = network_of(MECHANISMS[name], size, END_US, SETUP_US)
    simulation = Simulation(network, 1, express=False)
    roles = {client.id: "subscriber" if client.subscriptions else "publisher" for client in network.clients}
    timed = [_Timed(host, roles.get(host.name, "broker")) for host in simulation.hosts.values()]
    found: dict[str, Any] = {}

    def each_second(now_us: int) -> None:
        if now_us == SETUP_US:
            found["setup"] = _counted(timed)
        elif now_us == END_US:
            found["steady"] = _counted(timed)
            found["state"] = {role: _state_bytes(timed, role) for role in ROLES}

    outcome = simulation.run(each_second)
    cell = {role: _role(found, role) for role in ROLES}
    return {
        "mechanism": name,
        **asdict(size),
        **cell,
        "delivery_ratio": outcome.delivery_ratio,
        "cpu_s": time.process_time() - began_s,
        "mib": peak_mib() - began_mib,
    }


class _Timed:
    """A node whose time is taken; all else it leaves to the node."""

    def __init__(self, host: Host, role: str) -> None:
        self.host, self.role = host, role
        self.inner, self.cpu_ns = host.machine, 0
        self._handle, self._receive = self.inner.handle, self.inner.receive
        host.machine = self  # type: ignore[assignment]

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        began_ns = time.thread_time_ns()
        effects = self._handle(given, now_us)
        self.cpu_ns += time.thread_time_ns() - began_ns
        return effects

    def receive(self, sender: str, messages: Any, now_us: int) -> list[Effect]:
        began_ns = time.thread_time_ns()
        effects = self._receive(sender, messages, now_us)
        self.cpu_ns += time.thread_time_ns() - began_ns
        return effects

    def beat(self, now_us: int) -> tuple[str, Heartbeat] | None:
        began_ns = time.thread_time_ns()
        beat = self.inner.beat(now_us)
        self.cpu_ns += time.thread_time_ns() - began_ns
        return beat

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        began_ns = time.thread_time_ns()
        heard = self.inner.hears(sender, heartbeat, now_us)
        self.cpu_ns += time.thread_time_ns() - began_ns
        return heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _counted(timed: Iterable[_Timed]) -> dict[str, dict[str, Any]]:
    """By role: how many nodes, their CPU time, and by kind what they have sent, received, and sent in bytes."""
    found: dict[str, dict[str, Any]] = {role: {"nodes": 0, "cpu_us": 0.0, "kinds": {}} for role in ROLES}
    for each in timed:
        role = found[each.role]
        role["nodes"] += 1
        role["cpu_us"] += each.cpu_ns / 1e3
        for kind, tally in each.host.tallies.items():
            counts = role["kinds"].setdefault(kind, [0, 0, 0])
            for at, count in enumerate((tally.sent, tally.received, tally.sent_bytes)):
                counts[at] += count
    return found


def _role(found: dict[str, Any], role: str) -> dict[str, Any]:
    """Of one node of a role: until tables have spread, and in a second after that."""
    before, after = found["setup"][role], found["steady"][role]
    of_broker = role == "broker"  # clients have few kinds, and the file many cells
    nodes, seconds = after["nodes"], (END_US - SETUP_US) / 1e6
    kinds = {}
    for kind, counts in after["kinds"].items():
        old = before["kinds"].get(kind, [0, 0, 0])
        kinds[kind] = [round((new - was) / nodes / seconds, 3) for new, was in zip(counts, old, strict=True)]
    return {
        "messages": sum(sent + received for sent, received, _ in kinds.values()),
        "control": sum(sent + received for kind, (sent, received, _) in kinds.items() if kind not in EVENTS),
        "bytes": sum(sent_bytes for *_, sent_bytes in kinds.values()),
        "cpu_us": (after["cpu_us"] - before["cpu_us"]) / nodes / seconds,
        "state_bytes": found["state"][role],
        "setup_messages": sum(sent + received for sent, received, _ in before["kinds"].values()) / nodes,
        "setup_bytes": sum(sent_bytes for *_, sent_bytes in before["kinds"].values()) / nodes,
    } | (
        {"kinds": {kind: round(sent + received, 2) for kind, (sent, received, _) in kinds.items()}} if of_broker else {}
    )


# What all nodes of a simulation share, or what is no data: a live node has the first of its own.
_NOT_ITS_OWN = (ConditionBook, SharedIndex, Simulation, Host, type, Enum, ModuleType, FunctionType, BuiltinFunctionType)


def _state_bytes(timed: list[_Timed], role: str) -> float:
    some = [each.inner for each in timed if each.role == role]
    step = max(1, len(some) // _SAMPLE)
    return fmean(map(_bytes_of, some[::step]))


def _bytes_of(node: object) -> int:
    """All that is reached from a node, each thing once."""
    seen, waiting, size = {id(node)}, [node], 0
    while waiting:
        each = waiting.pop()
        size += sys.getsizeof(each)
        for other in gc.get_referents(each):
            if id(other) not in seen and not isinstance(other, _NOT_ITS_OWN):
                seen.add(id(other))
                waiting.append(other)
    return size

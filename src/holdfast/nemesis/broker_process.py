"""One broker as a process of its own, with the settings of the network file and no fault injected from inside."""

import asyncio
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from holdfast.model.errors import HoldfastError
from holdfast.model.messages import Publication
from holdfast.nemesis.journal import JournalWriter
from holdfast.nemesis.node_process import Command, Commands, SteppedClock
from holdfast.net.address import parse_address
from holdfast.net.counters import WORTH_TELLING, Counters
from holdfast.net.directory import directory_at
from holdfast.net.event_loop import run as run_loop
from holdfast.net.journal import Note
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.tls import TlsFiles
from holdfast.network.load import load
from holdfast.network.schema import Network
from holdfast.protocol.effects import Acknowledged, Delivered, DeliveredBatch, Incident, Lost, ReplicaWanted
from holdfast.protocol.replication.settings import Role

_COUNT_S = 1.0  # between looks at the counters


@dataclass(frozen=True)
class BrokerPlan:
    name: str
    file: str  # the network file,
    settings: dict[str, Any]  # and what is changed in it
    journal: Path
    peers: dict[str, str]  # whom it dials, and where
    store: Path | None = None
    offset_us: int = 0  # of its clock
    role: Role | None = None
    mqtt: bool = False  # it listens for clients of MQTT as well


class _Writing:
    """What the node reports, into the journal: incidents as they happen, counters that should not grow each second."""

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal
        self._counted: dict[str, int] = {}

    # What clients hand out; a broker has nothing of it.
    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...
    def on_lost(self, lost: Lost, now_us: int) -> None: ...
    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None: ...

    def on_incident(self, incident: Incident, now_us: int) -> None:
        fields = msgspec.to_builtins(incident)
        self._journal.write("incident", what=fields.pop("kind"), **fields)

    def note(self, note: Note) -> None:
        self._journal.write("note", what=note.kind, peer=note.about, text=note.text)

    async def count(self, counters: Counters) -> None:
        while True:
            await asyncio.sleep(_COUNT_S)
            for what in WORTH_TELLING:
                count = getattr(counters, what)
                if count > self._counted.get(what, 0):
                    self._journal.write("incident", what=what, count=count - self._counted.get(what, 0))
                    self._counted[what] = count


def run(plan: BrokerPlan, pipe: Connection) -> None:
    """What the process does; the nemesis starts it, and stops it: Ctrl-C is meant for the nemesis."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_loop(_serve(plan, pipe))


async def _serve(plan: BrokerPlan, pipe: Connection) -> None:
    journal = JournalWriter(plan.journal)
    commands = Commands(pipe)
    clock = SteppedClock(plan.offset_us)
    writing = _Writing(journal)
    try:
        node = BrokerNode(_settings(plan, load(plan.file, plan.settings)), writing, writing.note, clock)
        node.driver.on_replica_wanted = lambda wanted: commands.answer(wanted=_role_of(wanted))
        await node.start()
    except HoldfastError as problem:
        journal.write("refused", text=str(problem))
        commands.answer(problem=str(problem))
        return
    journal.write("begin")
    places = [(each.host, each.port) for each in node.listening]
    commands.answer(listening=places[0], for_clients=places[-1])

    async def do(command: Command) -> None:
        match command["do"]:
            case "dial":
                node.add_peer(command["peer"], parse_address(command["address"]))
            case "undial":
                node.remove_peer(command["peer"])
            case "answer":
                commands.answer(alive=True)
            case "close":
                await node.stop()
                journal.write("end")

    counting = asyncio.create_task(writing.count(node.counters))
    await commands.obey(do)
    counting.cancel()


def _role_of(wanted: ReplicaWanted) -> Role:
    return Role(wanted.faulty, wanted.neighbours, wanted.copying, wanted.use)


def _settings(plan: BrokerPlan, network: Network) -> NodeSettings:
    transport, replication = network.transport, network.replication
    outside = None if replication is None else replication.directory
    return NodeSettings(
        plan.name,
        tuple([parse_address(f"{kind}://127.0.0.1:0") for kind in (transport.kind, *["mqtt"] * plan.mqtt)]),
        {name: parse_address(address) for name, address in plan.peers.items()},
        routing=network.routing,
        protocol=network.protocol,
        hops=network.reliability.hops,
        store=plan.store,
        replication=replication,
        role=plan.role,
        tls=TlsFiles(transport.certificate, transport.key, transport.ca),
        gossip=network.reliability.gossip,
        directory=directory_at(outside) if outside else None,
    )

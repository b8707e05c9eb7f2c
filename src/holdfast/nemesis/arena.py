"""The network under attack: its brokers and clients as processes, and a proxy on every way between them.

It starts, kills, stops and continues them, and changes the weather between them. It decides nothing: the schedule says
what is done when, and the judge what follows from it.
"""

import asyncio
import multiprocessing
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from holdfast.model.errors import TransportError
from holdfast.nemesis import broker_process, client_process, mqtt_process
from holdfast.nemesis.broker_process import BrokerPlan
from holdfast.nemesis.bus_node import BusProcess, KeeperPlan, run_keeper, scheme_of
from holdfast.nemesis.client_process import ClientPlan
from holdfast.nemesis.disks import Disks
from holdfast.nemesis.journal import JournalWriter, now_us
from holdfast.nemesis.modes import Mode
from holdfast.nemesis.proxy import Place, Proxy, TcpProxy, UdpProxy, Weather
from holdfast.nemesis.schedule import KEEPER, link_name
from holdfast.network.schema import ClientSpec, Network
from holdfast.network.settings import BUS
from holdfast.protocol.replication.settings import Role

_START_S = 60.0  # the first process imports everything, on a machine that may be busy
_STOP_S = 15.0  # a process that is asked to end flushes first
_AGAIN_S = 0.5  # until a broker that did not start is started again
_ANSWER_S = 1.0  # a broker that hangs never answers
_START = multiprocessing.get_context("forkserver")
_START.set_forkserver_preload(["holdfast.nemesis.broker_process", "holdfast.nemesis.client_process"])


@dataclass(frozen=True)
class Ground:
    """What a run is made of."""

    network: Network
    mode: Mode
    file: str
    settings: dict[str, Any]
    seed: int
    folder: Path  # for journals and stores
    duration_us: int


class NodeProcess:
    """A process of ours, whatever life it is in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = -1
        self.offset_us = 0  # of its clock; a clock that was set wrong stays so until somebody sets it again
        self.place: Place | None = None  # where it listens now,
        self.for_clients: Place | None = None  # and where for clients
        self.process: Any = None
        self.answers: asyncio.Queue[dict[str, Any]]
        self._pipe: Connection

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def start(self, target: Any, plan: Any, on_wanted: Any = None) -> None:
        self._pipe, theirs = _START.Pipe()
        self.answers = asyncio.Queue()
        self.process = _START.Process(target=target, args=(plan, theirs), name=f"{self.name}/{self.life}", daemon=True)
        self.process.start()
        theirs.close()
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._on_readable, self._pipe, on_wanted)

    def _on_readable(self, pipe: Connection, on_wanted: Any) -> None:
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            pipe.close()
            self.answers.put_nowait({})
            return
        if "wanted" in answer:
            on_wanted(answer["wanted"])
        else:
            self.answers.put_nowait(answer)

    def tell(self, **command: Any) -> None:
        with suppress(OSError):  # it has ended
            self._pipe.send(command)

    async def answer(self, timeout_s: float) -> dict[str, Any]:
        """The next thing it says; nothing when it has ended or does not speak."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.answers.get()
        except TimeoutError:
            return {}

    async def ask(self, timeout_s: float, **command: Any) -> dict[str, Any]:
        while not self.answers.empty():  # of a question that was given up
            self.answers.get_nowait()
        self.tell(**command)
        return await self.answer(timeout_s)

    def signal(self, number: int) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    async def ended(self, timeout_s: float) -> bool:
        """Until the process is gone, and whether by itself: it is killed when that takes too long."""
        end_us, by_itself = now_us() + int(timeout_s * 1e6), True
        while self.process is not None and self.process.is_alive():
            if now_us() > end_us:
                by_itself = False
                self.signal(signal.SIGKILL)
            await asyncio.sleep(0.01)
        return by_itself


class Arena:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._network = ground.network
        self._journals = ground.folder / "journals"
        self._journals.mkdir(parents=True)
        self.journal = JournalWriter(ground.folder / "nemesis.jsonl")
        self._disks = Disks(ground.folder / "stores", [each.id for each in self._network.brokers], ground.mode.stores)
        self.brokers: dict[str, NodeProcess | BusProcess] = {
            each.id: self._new(each.id) for each in self._network.brokers
        }
        self.clients = {each.id: NodeProcess(each.id) for each in self._network.clients}
        self.keepers: dict[str, NodeProcess] = {}  # of a bus
        self._specs: dict[str, ClientSpec] = {each.id: each for each in self._network.clients}
        self._proxies: dict[str, list[Proxy]] = {}
        self._at: dict[str, str] = {name: name for name in self.brokers}  # a broker's place, and who is there now
        self._place_of: dict[str, str] = dict(self._at)  # of replicas, too
        self._dials: dict[str, dict[str, str]] = {name: {} for name in self.brokers}  # which places, and how
        self._roles: dict[str, Role] = {}
        self._busy: dict[str, asyncio.Lock] = {name: asyncio.Lock() for name in self.brokers}  # one thing at a place
        self._homes: dict[str, str] = {}  # clients' proxies
        self._replacing: set[asyncio.Task[None]] = set()
        self.struck: set[str] = set()  # by a fault that is not over: leaving takes as long as a flush does
        self.stopping = False
        self.zero_us = 0

    def _new(self, broker: str) -> NodeProcess | BusProcess:
        carrier = self._network.carrier
        return NodeProcess(broker) if carrier is None else BusProcess(broker, carrier, self._ground.folder / "server")

    @property
    def stores(self) -> bool:
        return self._ground.mode.stores

    @property
    def can_fill_disks(self) -> bool:
        return self._disks.limited

    # Starting and stopping -----------------------------------------------------------------------

    async def start(self) -> None:
        for link in self._network.links:
            self._dials[link.a][link.b] = await self._proxy(link_name(link.a, link.b), link.b)
        for client in self._network.clients:
            self._homes[client.id] = await self._proxy(client.id, client.broker, for_client=True)
        if self._network.carrier is not None:
            self.keepers[KEEPER] = NodeProcess(KEEPER)
            self._homes[KEEPER] = await self._proxy(KEEPER, BUS, for_client=True)
        await asyncio.gather(*[self.start_broker(name) for name in list(self.brokers)])
        for name in self.keepers:
            self._start_keeper(name)
        self.zero_us = now_us() + 1_000_000  # all are up by then
        await asyncio.gather(*[self.start_client(name) for name in self.clients])
        self.journal.write("began", zero_us=self.zero_us)

    async def _proxy(self, way: str, broker: str, for_client: bool = False) -> str:
        """The address of a new proxy in front of this broker, or of whoever has taken its place."""
        weather = Weather(dice=Random(f"{self._ground.seed}/{way}/weather"))
        kind = UdpProxy if self._ground.mode.udp else TcpProxy

        def place() -> Place | None:
            node = self.brokers[self._at[broker]]
            return node.for_clients if for_client else node.place

        proxy = kind(place, weather)
        for sibling in self._proxies.setdefault(way, [])[:1]:
            proxy.weather = sibling.weather
        self._proxies[way].append(proxy)
        host, port = await proxy.start()
        carrier = self._network.carrier
        return f"{self._network.transport.kind if carrier is None else scheme_of(carrier)}://{host}:{port}"

    async def start_broker(self, name: str) -> None:
        """Until it is up; one that does not start, say because its disk is full, is started again."""
        node = self.brokers[name]
        if isinstance(node, BusProcess):
            await self._start_bus(node)
            return
        while not self.stopping:
            node.life += 1
            plan = BrokerPlan(
                name,
                self._ground.file,
                self._ground.settings,
                self._journals / f"broker-{name}-{node.life}.jsonl",
                {self._at[there]: address for there, address in self._dials[name].items()},
                self._disks.store_of(name),
                node.offset_us,
                self._role_of(name),
                self._ground.mode.mqtt,
            )
            node.start(broker_process.run, plan, self._on_wanted)
            answer = await node.answer(_START_S)
            if "listening" in answer:
                node.place, node.for_clients = answer["listening"], answer["for_clients"]
                return
            self.journal.write("not started", node=name, text=answer.get("problem", "it ended"))
            await node.ended(0)
            await asyncio.sleep(_AGAIN_S)

    async def _start_bus(self, node: BusProcess) -> None:
        while not self.stopping:
            try:
                await node.start()
                return
            except TransportError as problem:
                self.journal.write("not started", node=node.name, text=str(problem))
                await asyncio.sleep(_AGAIN_S)

    async def start_client(self, name: str) -> None:
        node, spec = self.clients[name], self._specs[name]
        node.life += 1
        plan = ClientPlan(
            name,
            node.life,
            self._ground.file,
            self._ground.settings,
            self._ground.seed,
            self._journals / f"client-{name}-{node.life}.jsonl",
            self._homes[name],
            self.zero_us,
            self.zero_us + self._ground.duration_us,
            node.offset_us,
            {each.id: each.condition for each in spec.subscriptions},
        )
        node.start(mqtt_process.run if self._ground.mode.mqtt else client_process.run, plan)
        if node.life == 0 and not await node.answer(_START_S):
            raise TransportError(f"the client {name} did not start within {_START_S:g} s")

    def _start_keeper(self, name: str) -> None:
        """It may take its time: clients do not need it."""
        assert self._network.carrier is not None
        node = self.keepers[name]
        node.life += 1
        store = self._ground.folder / "kept.db"
        node.start(run_keeper, KeeperPlan(self._homes[name], self._network.carrier, store))

    async def stop(self) -> None:
        """Clients leave, then brokers; nothing is left running or mounted."""
        self.stopping = True
        for task in self._replacing:
            task.cancel()
        for group in (self.clients, self.keepers, self.brokers):
            for node in group.values():
                node.signal(signal.SIGCONT)
                if node.running:
                    node.tell(do="close", in_haste=True)
            await asyncio.gather(*[node.ended(_STOP_S) for node in group.values()])
        for proxies in self._proxies.values():
            for proxy in proxies:
                proxy.close()
        self._disks.release()

    # What happens to it --------------------------------------------------------------------------

    def node(self, name: str) -> NodeProcess | BusProcess:
        """A client, a keeper, or whoever is in a broker's place."""
        return self._apart.get(name) or self.brokers[self._at[name]]

    @property
    def _apart(self) -> dict[str, NodeProcess]:
        """Who is in no broker's place."""
        return self.clients | self.keepers

    async def kill(self, name: str) -> None:
        if name in self._apart:
            await self._kill(self.node(name))
            return
        async with self._busy[name]:
            await self._kill(self.node(name))

    async def _kill(self, node: NodeProcess | BusProcess) -> None:
        self.journal.write("killed", node=node.name, life=node.life)
        node.signal(signal.SIGKILL)
        await node.ended(_STOP_S)
        node.place = node.for_clients = None

    async def close(self, name: str) -> None:
        """A client leaves in good order, if it does so in time."""
        node = self.clients[name]
        node.tell(do="close")
        by_itself = await node.ended(_STOP_S)
        self.journal.write("closed" if by_itself else "killed", node=name, life=node.life)

    async def start_again(self, name: str) -> None:
        if name in self.keepers:
            self._start_keeper(name)
            return
        if name in self.clients:
            await self.start_client(name)
            return
        async with self._busy[name]:
            if not self.node(name).running:  # a replica may have taken its place meanwhile
                await self.start_broker(self._at[name])

    def change(self, way: str, **changes: Any) -> None:
        for proxy in self._proxies[way]:
            proxy.change(**changes)

    def fill(self, broker: str) -> None:
        self._disks.fill(broker)

    def empty(self, broker: str) -> None:
        self._disks.empty(broker)

    # Replicas ------------------------------------------------------------------------------------

    def _on_wanted(self, role: Role) -> None:
        """Start a replica, unless the place is taken or about to be."""
        place = self._place_of[role.faulty]
        if self.stopping or any(task.get_name() == place for task in self._replacing):
            return
        task = asyncio.create_task(self._replace(place, role), name=place)
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _replace(self, place: str, role: Role) -> None:
        """As `holdfast up` does: whoever answers stays, and the replica is linked with all around the place."""
        async with self._busy[place]:
            node = self.node(place)
            assert isinstance(node, NodeProcess), "a bus has no replicas"
            if node.running and (node.name != role.faulty or await node.ask(_ANSWER_S, do="answer")):
                return
            await self._kill(node)  # it may only hang: its place is to be free
            name = f"{role.faulty}+{len(self._roles) + 1}"
            self._roles[name] = role
            self._place_of[name] = place
            self._dials[name] = {}
            self.brokers[name] = NodeProcess(name)
            self._at[place] = name
            for way, there in self._around(place):
                self._dials[name][there] = await self._proxy(way, there)
                neighbour = self._at[there]
                self._dials[neighbour].pop(place, None)
                if self.brokers[neighbour].running:
                    self.brokers[neighbour].tell(do="undial", peer=role.faulty)
            await self.start_broker(name)
            self.journal.write("replaced", node=role.faulty, replica=name)

    def _role_of(self, name: str) -> Role | None:
        """Of a replica, with those who are around it now."""
        if name not in self._roles:
            return None
        near = tuple(self._at[there] for _, there in self._around(self._place_of[name]))
        return replace(self._roles[name], neighbours=near)

    def _around(self, place: str) -> list[tuple[str, str]]:
        """The links of a place, and where they lead."""
        links = [(link_name(each.a, each.b), each.a, each.b) for each in self._network.links]
        return [(way, b if place == a else a) for way, a, b in links if place in (a, b)]

"""Run the network that a file describes: its brokers, its clients and their workload, its faults, in real time.

Clients live here, brokers are hosts, in this process or in their own. Whoever keeps the books is told what was
published, subscribed and delivered; the run itself decides nothing. Its faults come from outside through the same
calls that the simulator offers, so that both are struck by the same ones.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from holdfast.books.rows import incident_row
from holdfast.model.errors import InputError, TransportError
from holdfast.net.address import Address, parse_address
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.member import Member, MemberHandle, OnWanted
from holdfast.net.outbox import BYTES_MAX
from holdfast.net.participant import Books, ClientParts, NewClient, Participant, new_client
from holdfast.network.schema import ClientSpec, LinkSpec, Network, SubscriptionSpec
from holdfast.protocol.effects import (
    AdvertiseCall,
    Incident,
    ReplicaWanted,
    SubscribeCall,
    UnsubscribeCall,
)
from holdfast.protocol.groups.settings import HANDED_MAX
from holdfast.protocol.replication.settings import Role
from holdfast.protocol.settings import BEST_EFFORT
from holdfast.wire.event_encoding import encoded_event

_REPORT_S = 1.0  # the interval of the `messages` table and of the counters
_START_S = 60.0  # a machine that starts a hundred brokers at once takes its time
_DRAIN_S = 10.0  # how long after the last publication a run waits for what is still on its way
_RECOVERY_S = 60.0  # and for what is being recovered: past the last request for it
_QUIET_S = 1.0  # and after this long without a delivery nothing is, links' own delays apart
_GOSSIP_S = 20.0  # where brokers recover: as long as they ask an origin that does not answer
_AT_ONCE = 64  # subscriptions, and publications that are behind their schedule, between two turns of the event loop
_DIALLING_MAX = 50  # clients that connect at the same time


NewHost = Callable[[str, Role | None, OnWanted], MemberHandle]


class LiveRun:
    def __init__(
        self,
        network: Network,
        seed: int,
        new_host: NewHost,
        books: Books,
        clock: Clock,
        new_client: NewClient = new_client,
    ) -> None:
        gossip = network.reliability.gossip
        if gossip is not None and gossip.transfer == "direct":
            raise InputError(
                'reliability.gossip_transfer: live brokers reach each other along links only; use "overlay" here'
            )
        self.network = network
        self.seed = seed
        self.zero_us = 0  # when everything was up
        self.lag_us = 0  # by how much the latest publication of all was behind its time
        self._new_host = new_host
        self._new_client = new_client
        self._books = books
        self._clock = clock
        self._hosts: dict[str, MemberHandle] = {}
        self._addresses: dict[str, Address] = {}
        self._links: dict[frozenset[str], LinkSpec] = {}
        self._down: set[str] = set()
        self.cut_links: set[frozenset[str]] = set()  # links that let nothing through
        self._stopping = False  # brokers that end now are not to be replaced
        self._roles: dict[str, Role] = {}  # of the replicas
        self._replicas: dict[str, str] = {}  # broker -> the last replica in its place
        self._clients: dict[str, Client] = {}
        self._homes: dict[str, str] = {}  # client -> its broker, or whose place that has taken
        self._participants: dict[str, Participant] = {}
        self._jobs: deque[Awaitable[None]] = deque()
        self._job: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []

    # Time ----------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        return self._clock.now_us() - self.zero_us

    def at(self, time_us: int, action: Callable[[], object]) -> None:
        wait_s = max(0, time_us - self.now_us) / 1e6
        self._timers.append(asyncio.get_running_loop().call_later(wait_s, action))

    # Starting ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Brokers, links, clients; a TransportError when something cannot be had."""
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.gather(*[self._start_broker(each.id) for each in self.network.brokers])
                await asyncio.gather(*[self._join(each) for each in self.network.links])
                dialling = asyncio.Semaphore(_DIALLING_MAX)
                await asyncio.gather(*[self._start_client(each, dialling) for each in self.network.clients])
        except TimeoutError:
            raise TransportError(f"the network did not start within {_START_S:g} s") from None
        self.zero_us = self._clock.now_us()

    def _listen_address(self, name: str) -> Address:
        transport = self.network.transport
        number = [each.id for each in self.network.brokers].index(name)
        listen = self.network.brokers[number].listen
        if listen is not None:
            return parse_address(f"{transport.kind}://{listen}")
        return Address(transport.kind, transport.host, transport.port + number if transport.port else 0)

    async def _start_broker(self, name: str) -> None:
        host = self._hosts[name] = self._new_host(name, self._roles.get(name), self.want)
        host.on_gone, host.on_released = self._on_gone, self._on_released
        again = self._addresses.get(name)  # a broker that restarts takes the same port
        self._addresses[name] = await host.start(again or self._listen_address(name))

    async def _join(self, spec: LinkSpec) -> None:
        self._links[frozenset((spec.a, spec.b))] = spec
        await self._hosts[spec.b].link(spec, spec.a, None)  # first, so that it is known when the other dials
        await self._hosts[spec.a].link(spec, spec.b, self._addresses[spec.b])
        await self._hosts[spec.a].connected(spec.b)
        await self._hosts[spec.b].connected(spec.a)

    async def _start_client(self, spec: ClientSpec, dialling: asyncio.Semaphore) -> None:
        participant = self._participants[spec.id] = Participant(spec.id, self._clock, self._books)
        parts = ClientParts(spec.id, self._clock, participant)
        client = self._new_client(self.network, self.seed, self._addresses[spec.broker], parts)
        async with dialling:
            await client.__aenter__()
        self._clients[spec.id] = client
        participant.give = client.driver.give
        self._homes[spec.id] = spec.broker
        for number, condition in enumerate(spec.advertisements):
            client.driver.give(AdvertiseCall(f"a{number}", condition))

    async def join(self, spec: ClientSpec) -> None:
        """One more client, while the network runs; the books know of it as of the others."""
        await self._start_client(spec, asyncio.Semaphore(1))

    def publish(self, client: str, event: Mapping[str, object]) -> None:
        self._clients[client].driver.publish(*encoded_event(event), b"", None)

    # Being looked at -----------------------------------------------------------------------------

    def statuses(self) -> dict[str, dict[str, Any]]:
        """What each broker that runs tells of itself."""
        found = {name: host.status() for name, host in self._hosts.items() if name not in self._down}
        return {name: status for name, status in found.items() if status is not None}

    @property
    def down(self) -> frozenset[str]:
        return frozenset(self._down)

    @property
    def standing(self) -> dict[str, str]:
        """Brokers with a replica in their place, and the latest of each, be it on its way."""
        return dict(self._replicas)

    @property
    def homes(self) -> dict[str, str]:
        return dict(self._homes)

    @property
    def links(self) -> tuple[LinkSpec, ...]:
        return tuple(self._links.values())

    # Running -------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, progress: Callable[[], None]) -> None:
        """Until the file's duration is over, or stop is set; then until nothing is on its way."""
        at_once = 0
        for spec in self.network.clients:
            for each in spec.subscriptions:
                self._schedule(spec.id, each)
                at_once += 1
                if at_once % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # ten thousand take seconds, in which clients would fall silent
        publishing = asyncio.create_task(self._publish_all())
        counting = asyncio.create_task(self._count(progress))
        stopped = asyncio.create_task(stop.wait())
        left_s = max(0, self.network.duration_us - self.now_us) / 1e6
        await asyncio.wait([stopped], timeout=left_s)
        publishing.cancel()
        for timer in self._timers:
            timer.cancel()
        await self._drain()
        counting.cancel()
        stopped.cancel()
        results = await asyncio.gather(publishing, counting, stopped, return_exceptions=True)
        for problem in results:
            if isinstance(problem, Exception):
                raise problem

    def _schedule(self, client: str, spec: SubscriptionSpec) -> None:
        begin = partial(self.subscribe, client, spec.id, spec.condition, spec.group)
        begin() if spec.from_us == 0 else self.at(spec.from_us, begin)
        if spec.until_us is not None:
            self.at(spec.until_us, partial(self.unsubscribe, client, spec.id))

    async def _publish_all(self) -> None:
        """The workload, each publication at its time; nobody waits for a slow broker, as in the simulator."""
        at_once = 0
        for planned in self.network.publications(self.seed):
            wait_us = planned.at_us - self.now_us
            at_once += 1
            if wait_us > 0 or at_once >= _AT_ONCE:
                at_once = 0
                await asyncio.sleep(max(0, wait_us) / 1e6)
            self.lag_us = max(self.lag_us, self.now_us - planned.at_us)
            attributes, encoded = encoded_event(planned.attributes)
            driver = self._clients[planned.client].driver
            driver.publish(attributes, encoded, bytes(planned.payload_bytes), planned.lifetime_us)

    async def _count(self, progress: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._take_rows()
            progress()

    def _take_rows(self) -> None:
        for name, client in self._clients.items():
            self._books.on_rows(self._participants[name].take(client.driver, client.counters, BYTES_MAX))
        for host in self._hosts.values():
            if isinstance(host, Member) and host.name not in self._down:
                self._books.on_rows(host.take_rows())

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        delays_us = sum(sorted(each.delay_us + each.jitter_us for each in self._links.values())[-10:])
        reliability = self.network.reliability
        durable = reliability.hops.durable  # what is missing is in a store, and comes
        recovers = durable or reliability.guarantees != BEST_EFFORT or reliability.gossip is not None
        end_s = loop.time() + (_RECOVERY_S if recovers else _DRAIN_S)
        quiet_s = (_QUIET_S if reliability.gossip is None else _GOSSIP_S) + delays_us / 1e6
        seen, seen_s = -1, loop.time()
        while self._books.missing and loop.time() < end_s:
            delivered = sum(each.delivered for each in self._participants.values())
            if delivered != seen:
                seen, seen_s = delivered, loop.time()
            elif (
                not durable
                and loop.time() - seen_s > quiet_s
                and all(each.recovered for each in self._clients.values())
            ):
                break
            await asyncio.sleep(0.05)
        if self.network.transport.mqtt_port is not None:  # nobody here knows what clients of MQTT still wait for
            await asyncio.sleep(quiet_s)

    # Stopping ------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Clients leave, then brokers stop; what is left in queues is counted."""
        self._stopping = True
        if self._job is not None:
            await asyncio.wait([self._job], timeout=_DRAIN_S)
        await asyncio.gather(*[each.close(in_haste=True) for each in self._clients.values()], return_exceptions=True)
        running = [host for name, host in self._hosts.items() if name not in self._down]
        await asyncio.gather(*[each.stop() for each in running], return_exceptions=True)
        self._take_rows()

    # What happens to it --------------------------------------------------------------------------

    def _do(self, job: Awaitable[None]) -> None:
        """Things that take time happen one after the other, in the order in which they were asked for."""
        self._jobs.append(job)
        if self._job is None or self._job.done():
            self._job = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._jobs:
            try:
                await self._jobs.popleft()
            except TransportError as problem:
                self.note("run", Incident("task_failed", reason=str(problem)))

    def note(self, node: str, incident: Incident) -> None:
        self._books.on_rows([incident_row(node, self._clock.now_us(), incident)])

    def want(self, wanted: ReplicaWanted) -> None:
        """Start a replica as a process like the others, unless there is one already that its neighbours do not know.

        A relief replica that has died is not replaced: the broker beside it is there.
        """
        beside, relief = wanted.use != "failover", self._roles.get(wanted.faulty)
        running = [role for name, role in self._roles.items() if name not in self._down]
        alike = [each for each in running if each.faulty == wanted.faulty and (each.use != "failover") == beside]
        if self._stopping or len(alike) > wanted.beside or (relief is not None and relief.use != "failover"):
            return
        name = f"{wanted.faulty}+{len(self._roles) + 1}"
        if not beside:
            self._replicas[wanted.faulty] = name
        self._roles[name] = Role(wanted.faulty, wanted.neighbours, wanted.copying, wanted.use)
        self.note(name, Incident("replica_wanted", wanted.faulty))
        self._do(self._start_replica(name))

    async def _start_replica(self, name: str) -> None:
        role = self._roles[name]
        faulty = role.faulty
        if role.use == "failover":
            if faulty not in self._down and await self._hosts[faulty].answers():
                self.note(name, Incident("replica_not_needed", faulty))
                self._down.add(name)  # it never came up; the next one who asks gets another
                return
            await self._end(faulty)  # it may only hang, or be cut off: its place is to be free
        near = self._near(role)
        role = self._roles[name] = replace(role, neighbours=tuple(near))
        try:
            await self._start_somewhere(name, role)
        except TransportError:
            self._down.add(name)  # the next one who asks gets another
            raise
        self.note(name, Incident("replica_started", faulty))
        for neighbour, spec in near.items():
            await self._link_replica(name, neighbour, spec)

    def _near(self, role: Role) -> dict[str, LinkSpec]:
        """All that a broker was linked with, by its link; in the place of one that was replaced, its replica."""
        links = {far: spec for ends, spec in self._links.items() if role.faulty in ends for far in ends - {role.faulty}}
        return {self._standing_for(far): spec for far, spec in links.items()}

    def _standing_for(self, name: str) -> str:
        latest = self._replicas.get(name)
        if latest is None or latest not in self._hosts:
            return name
        return self._standing_for(latest)

    async def _start_somewhere(self, name: str, role: Role) -> None:
        """Where the faulty broker's clients look for it, if it takes over and the address is to be had."""
        if role.use == "failover":
            self._addresses[name] = self._addresses[role.faulty]
            try:
                await self._start_broker(name)
                return
            except TransportError as problem:
                self.note(name, Incident("replica_address_changed", reason=str(problem)))
        self._addresses[name] = Address(self.network.transport.kind, self.network.transport.host, 0)
        await self._start_broker(name)

    async def _link_replica(self, name: str, neighbour: str, spec: LinkSpec) -> None:
        role = self._roles[name]
        link = self._links[frozenset((name, neighbour))] = replace(spec, a=name, b=neighbour)
        try:
            if neighbour not in self._down:
                if role.use == "failover":
                    await self._hosts[neighbour].unlink(role.faulty)
                await self._hosts[neighbour].link(link, name, None)
        except TransportError as problem:  # it has died or hangs, and may come back; the others go on
            self.note(name, Incident("replica_not_linked", neighbour, reason=str(problem)))
        await self._hosts[name].link(link, neighbour, self._addresses[neighbour])  # dialled until it is there

    def subscribe(self, client: str, id_: str, condition: str, group: str = "") -> None:
        self._clients[client].driver.give(SubscribeCall(id_, condition, group, HANDED_MAX if group else 0))
        self._books.on_subscribed(client, id_, condition, group, self._clock.now_us())

    def unsubscribe(self, client: str, id_: str) -> None:
        self._clients[client].driver.give(UnsubscribeCall(id_))
        self._books.on_unsubscribed(client, id_, self._clock.now_us())

    def attach(self, client: str, broker: str) -> None:
        self._homes[client] = broker
        self._do(self._clients[client].attach(self._addresses[broker]))

    def detach(self, client: str) -> None:
        self._do(self._clients[client].detach())

    def connect(self, spec: LinkSpec) -> None:
        async def connect() -> None:
            self._links[frozenset((spec.a, spec.b))] = spec
            await self._hosts[spec.b].link(spec, spec.a, None)
            await self._hosts[spec.a].link(spec, spec.b, self._addresses[spec.b])

        self._do(connect())

    def disconnect(self, a: str, b: str) -> None:
        async def disconnect() -> None:
            self._links.pop(frozenset((a, b)), None)
            for one, other in ((a, b), (b, a)):
                if one not in self._down:
                    await self._hosts[one].unlink(other)

        self._do(disconnect())

    def set_link(self, a: str, b: str, up: bool) -> None:
        async def set_link() -> None:
            for one, other in ((a, b), (b, a)):
                if one not in self._down:
                    await self._hosts[one].set_link(other, up)

        self._do(set_link())
        (self.cut_links.discard if up else self.cut_links.add)(frozenset((a, b)))
        self.note(a, Incident("link_recovered" if up else "link_failed", b))

    def crash(self, name: str) -> None:
        self._do(self._end(name))

    async def _end(self, name: str) -> None:
        """As kill -9 does."""
        if name not in self._down:
            self._on_gone(name)
            await self._hosts[name].crash()

    def _on_gone(self, name: str) -> None:
        """A broker is killed: by us, or by somebody else while we look on."""
        if name in self._down:
            return
        self._down.add(name)
        self.note(name, Incident("crash"))
        self._unlink_if_relief(name)
        for client, home in self._homes.items():
            if self._addresses.get(home) == self._addresses.get(name):
                self.note(client, Incident("broker_lost", name))

    def _on_released(self, name: str) -> None:
        self._do(self._end_released(name))

    async def _end_released(self, name: str) -> None:
        """A relief replica that nobody needs any more, and that nobody is linked with."""
        host = self._hosts[name]
        if name in self._down:
            return
        await host.stop()
        if isinstance(host, Member):
            self._books.on_rows(host.take_rows())
        self._down.add(name)
        self._unlink_if_relief(name)
        self.note(name, Incident("replica_ended"))

    def _unlink_if_relief(self, name: str) -> None:
        """A relief replica that is down does not come back: nobody is to wait for it."""
        if name in self._roles and self._roles[name].use != "failover":
            self._links = {ends: spec for ends, spec in self._links.items() if name not in ends}

    def hang(self, name: str) -> None:
        self._signal(name, "hang")

    def resume(self, name: str) -> None:
        self._signal(name, "resume")

    def _signal(self, name: str, what: Literal["hang", "resume"]) -> None:
        if name not in self._down:
            host = self._hosts[name]
            self.note(name, Incident(what))
            self._do(host.hang() if what == "hang" else host.resume())

    def restart(self, name: str) -> None:
        async def restart() -> None:
            if name in self._down:
                await self._start_broker(name)
                self._down.discard(name)
                for spec in self._links.values():
                    if name in (spec.a, spec.b):
                        far = spec.b if name == spec.a else spec.a
                        address = self._addresses[far] if name == spec.a else None
                        await self._hosts[name].link(spec, far, address)

        self._do(restart())
        self.note(name, Incident("restart"))

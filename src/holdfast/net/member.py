"""One broker of a run that a network file describes, and what it reports for the trace.

The run tells it which links it has and what they do to messages; it reports rows of the trace's tables: messages sent
and received by kind, incidents, and how full its queues are. It may live in the process of the run or in its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from holdfast.books.rows import Row
from holdfast.model.errors import TransportError
from holdfast.mqtt.settings import MqttSettings
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.directory import directory_at
from holdfast.net.http import HttpServer
from holdfast.net.link import Impairment
from holdfast.net.node import BrokerNode
from holdfast.net.row_collector import RowCollector
from holdfast.net.settings import NodeSettings
from holdfast.net.status import status_of
from holdfast.net.tls import TlsFiles
from holdfast.net.watching import watch
from holdfast.net.witness import GuestBook
from holdfast.network.schema import LinkSpec, Network
from holdfast.protocol.effects import ReplicaWanted
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.replication.settings import Role
from holdfast.protocol.settings import Guarantees

OnWanted = Callable[[ReplicaWanted], None]  # somebody asks for a replica
OnGone = Callable[[str], None]
NewImpairment = Callable[[LinkSpec, str, str], Impairment]  # of a link, in the direction from one node to another


class MemberHandle(Protocol):
    """A broker as the run sees it, wherever it lives."""

    name: str
    on_gone: OnGone  # it has ended, and nobody here has asked for that
    on_released: OnGone  # it was a relief replica, and nobody needs it any more

    async def start(self, listen: Address) -> Address: ...

    def status(self) -> dict[str, Any] | None:
        """What `/status` tells, a second old at most while it runs; None before the first."""

    async def link(self, spec: LinkSpec, far: str, address: Address | None) -> None:
        """There is a link to this broker; with an address, dial it."""

    async def unlink(self, far: str) -> None: ...

    async def set_link(self, far: str, up: bool) -> None:
        """The link fails or recovers without anybody being told."""

    async def connected(self, far: str) -> None:
        """Wait for the connection."""

    async def answers(self) -> bool:
        """Whether it works: somebody takes it for dead, and may be wrong."""

    async def hang(self) -> None:
        """Do nothing until it is resumed, with all connections open."""

    async def resume(self) -> None: ...
    async def crash(self) -> None: ...
    async def stop(self) -> None: ...


@dataclass
class _Cut:
    """An impairment with a switch: a link that has failed lets nothing through."""

    inner: Impairment
    up: bool = True

    def arrivals_us(self, size: int, now_us: int, may_be_lost: bool) -> tuple[int, ...]:
        return self.inner.arrivals_us(size, now_us, may_be_lost) if self.up else ()


class Member:
    def __init__(
        self,
        name: str,
        network: Network,
        new_impairment: NewImpairment,
        clock: Clock,
        role: Role | None = None,
        on_wanted: OnWanted = lambda wanted: None,
    ) -> None:
        self.name = name
        self.role = role
        self.on_wanted = on_wanted
        self.on_gone: OnGone = lambda name: None  # it ends when this process does
        self.on_released: OnGone = lambda name: None
        self._network = network
        self._new_impairment = new_impairment
        self._clock = clock
        self._impairments: dict[str, _Cut] = {}
        self._rows: RowCollector
        self._guests: GuestBook
        self._watched: HttpServer | None = None
        self.node: BrokerNode

    async def start(self, listen: Address) -> Address:
        network, transport = self._network, self._network.transport
        outside = None if network.replication is None else network.replication.directory
        self._rows = RowCollector(self.name, self._clock)
        self._guests = GuestBook(self.name, self._clock)
        settings = NodeSettings(
            self.name,
            (listen, *self._mqtt_listen()),
            mqtt=_mqtt_settings(network.reliability.guarantees),
            routing=network.routing,
            protocol=network.protocol,
            hops=network.reliability.hops,
            store=None if network.reliability.store is None else Path(network.reliability.store) / f"{self.name}.db",
            replication=network.replication,
            role=self.role,
            tls=TlsFiles(transport.certificate, transport.key, transport.ca),
            impairments=self._impairments,
            lossy_control=network.lossy_control,
            gossip=network.reliability.gossip,
            new_witness=self._guests.witness,
            directory=directory_at(outside) if outside else None,
        )
        self.node = BrokerNode(settings, self._rows, clock=self._clock, tallied=True)
        self.node.driver.on_replica_wanted = self.on_wanted
        self.node.driver.on_replica_released = lambda: self.on_released(self.name)
        await self.node.start()
        await self._watch()
        return self.node.listening[0]

    def _mqtt_listen(self) -> tuple[Address, ...]:
        """A replica that takes over serves the clients of MQTT where the broker before it did."""
        transport, names = self._network.transport, [each.id for each in self._network.brokers]
        place = self.name if self.role is None or self.role.use != "failover" else self.role.faulty
        if transport.mqtt_port is None or place not in names:
            return ()
        return (Address("mqtt", transport.host, transport.mqtt_port + names.index(place)),)

    async def _watch(self) -> None:
        """A replica has no place in the file, and so no port of its own."""
        transport, names = self._network.transport, [each.id for each in self._network.brokers]
        if transport.metrics_port is not None and self.name in names:
            port = transport.metrics_port + names.index(self.name)
            self._watched = await watch(self.node, Address("tcp", transport.host, port))

    async def link(self, spec: LinkSpec, far: str, address: Address | None) -> None:
        impairment = self._impairments[far] = _Cut(self._new_impairment(spec, self.name, far))
        if far in self.node.driver.links:  # it was quicker than we
            self.node.driver.links[far].impairment = impairment
        if address is not None:
            self.node.add_peer(far, address)

    async def unlink(self, far: str) -> None:
        self.node.remove_peer(far)

    async def set_link(self, far: str, up: bool) -> None:
        self._impairments[far].up = up

    async def connected(self, far: str) -> None:
        await self.node.connected_to(far)

    def status(self) -> dict[str, Any]:
        return status_of(self.node).details()

    def take_rows(self) -> list[Row]:
        queue_bytes = self.node.settings.queue_bytes
        own = self._rows.take(self.node.driver, self.node.counters, queue_bytes)
        return [*own, *self._guests.take(queue_bytes)]

    async def answers(self) -> bool:
        return True  # it is as alive as who asks

    async def hang(self) -> None:
        raise TransportError(f"the broker {self.name} cannot hang alone: it runs in the process of all others")

    async def resume(self) -> None: ...

    async def crash(self) -> None:
        self._unwatch()
        self.node.crash()

    async def stop(self) -> None:
        self._unwatch()
        await self.node.stop()

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._watched.close()


def _mqtt_settings(bought: Guarantees) -> MqttSettings:
    """Clients of MQTT get what the file buys for its own; payloads that are JSON are events as theirs are."""
    recovers = isinstance(bought.recovery, RecoverySettings)
    return MqttSettings(json=("#",), recovery=recovers, order="none" if bought.order is None else bought.order.mode)

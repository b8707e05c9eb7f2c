"""One broker of a run that a network file describes, and what it reports for the trace.

The run tells it which links it has and what they do to messages; it reports rows of the trace's tables: messages sent
and received by kind, incidents, and how full its queues are. It may live in the process of the run or in its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from holdfast.books.rows import (
    Row,
    acknowledged_incident,
    incident_row,
    link_row,
    lost_incident,
    message_row,
    sample_rows,
)
from holdfast.model.errors import TransportError
from holdfast.model.messages import Publication
from holdfast.mqtt.settings import MqttSettings
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.counters import WORTH_TELLING, Counters
from holdfast.net.directory import directory_at
from holdfast.net.driver import Driver
from holdfast.net.http import HttpServer
from holdfast.net.link import Impairment
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.status import status_of
from holdfast.net.tls import TlsFiles
from holdfast.net.watching import watch
from holdfast.network.schema import LinkSpec, Network
from holdfast.protocol.effects import Acknowledged, Delivered, DeliveredBatch, Incident, Lost, ReplicaWanted
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


class RowCollector:
    """Collects a node's rows: its incidents as they happen, its counts once an interval."""

    def __init__(self, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._rows: list[Row] = []
        self._from_us = clock.now_us()
        self._reported: dict[str, int] = {}

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...

    def on_lost(self, lost: Lost, now_us: int) -> None:
        self.on_incident(lost_incident(lost), now_us)

    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None:
        self.on_incident(acknowledged_incident(self._node, acknowledged), now_us)

    def on_incident(self, incident: Incident, now_us: int) -> None:
        self._rows.append(incident_row(self._node, now_us, incident))

    def take(self, driver: Driver, counters: Counters, queue_bytes: int) -> list[Row]:
        """All since the last time."""
        now_us = self._clock.now_us()
        for kind, tally in (driver.tallies or {}).items():
            self._rows.append(message_row(self._node, kind, self._from_us, now_us, tally))
        if driver.tallies:
            driver.tallies.clear()
        for far, tally in driver.on_links.items():
            self._rows.append(link_row(self._node, far, self._from_us, now_us, tally))
        driver.on_links.clear()
        for what in WORTH_TELLING:
            count = getattr(counters, what)
            if count > self._reported.get(what, 0):
                self.on_incident(Incident(what, count=count - self._reported.get(what, 0)), now_us)
                self._reported[what] = count
        fullest = max((link.outbox.waiting_bytes for link in driver.links.values()), default=0)
        gauges = {"queue bytes": (fullest, queue_bytes), **driver.machine.gauges()}
        self._rows += sample_rows(self._node, now_us, gauges)
        self._from_us = now_us
        rows, self._rows = self._rows, []
        return rows


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
        self._network = network
        self._new_impairment = new_impairment
        self._clock = clock
        self._impairments: dict[str, _Cut] = {}
        self._rows: RowCollector
        self._watched: HttpServer | None = None
        self.node: BrokerNode

    async def start(self, listen: Address) -> Address:
        network, transport = self._network, self._network.transport
        outside = None if network.replication is None else network.replication.directory
        self._rows = RowCollector(self.name, self._clock)
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
            directory=directory_at(outside) if outside else None,
        )
        self.node = BrokerNode(settings, self._rows, clock=self._clock, tallied=True)
        self.node.driver.on_replica_wanted = self.on_wanted
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
        return self._rows.take(self.node.driver, self.node.counters, self.node.settings.queue_bytes)

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

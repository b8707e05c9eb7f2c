"""A broker as an object of a program: for tests, notebooks, and applications that bring their own.

    async with holdfast.Broker("tcp://127.0.0.1:7001", name="b1") as broker:
        async with holdfast.connect(broker.address) as client:
            ...

Addresses are texts, and settings keyword arguments. `SyncBroker` is the same without `async`, with its event loop in a
thread. What runs underneath is a `BrokerNode`. What it has to tell goes to the logger `holdfast`, a few lines a second.
"""

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from holdfast.model.errors import InputError, MisuseError
from holdfast.mqtt.settings import MqttSettings
from holdfast.net.address import Address, parse_address
from holdfast.net.counters import Counters
from holdfast.net.history_settings import HistorySettings
from holdfast.net.http import HttpServer, parse_place
from holdfast.net.journal import Journal
from holdfast.net.node import BrokerNode
from holdfast.net.outbox import BYTES_MAX
from holdfast.net.settings import NodeSettings
from holdfast.net.setup import check_broker, check_peers, check_places
from holdfast.net.status import status_of
from holdfast.net.tls import TlsFiles
from holdfast.net.watching import watch
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.settings import Hops, HopSettings
from holdfast.protocol.settings import ProtocolSettings, Routing
from holdfast.trust.budget import BudgetSettings
from holdfast.trust.settings import TrustSettings

T = TypeVar("T")

_TICK_S = 1.0  # between looks at the counters that should not grow
_LOGGER = logging.getLogger("holdfast")


class EmbeddedBroker(ABC):
    """What `Broker` and `SyncBroker` have in common: how they are set up, and what can be asked of them."""

    def __init__(
        self,
        listen: str | Sequence[str] = "tcp://127.0.0.1:0",
        *,
        name: str | None = None,
        peers: Mapping[str, str] | None = None,
        routing: Routing = "subscriptions",
        hops: Hops | HopSettings = "basic",
        store: str | os.PathLike[str] | None = None,
        gossip: GossipSettings | None = None,
        settings: ProtocolSettings | None = None,
        push_back: bool = False,
        queue_bytes: int = BYTES_MAX,
        certificate: str | None = None,
        key: str | None = None,
        ca: str | None = None,
        broker_key: str | os.PathLike[str] | None = None,
        token_keys: str | os.PathLike[str] | None = None,
        rights: str | os.PathLike[str] | None = None,
        metrics: str | None = None,
        mqtt: MqttSettings | None = None,
        history: str | os.PathLike[str] | HistorySettings | None = None,
        budgets: BudgetSettings | None = None,
    ) -> None:
        """A broker that listens at these addresses (port 0: a free one) and dials its peers, by name.

        What the keywords mean is what the options of `holdfast broker` of the same names do. `hops="retransmission"`
        needs a `store`, a file; `metrics` is HOST:PORT, for /metrics and /health. `mqtt` says how clients of MQTT are
        served, at addresses such as mqtt://127.0.0.1:1883; `budgets`, what a connection and an identity may cost.
        `history` is the folder where it keeps events for later subscribers.
        """
        places = [listen] if isinstance(listen, str) else list(listen)
        if not places:
            raise InputError("a broker needs an address to listen on, such as tcp://127.0.0.1:7001")
        self._settings = NodeSettings(
            f"broker-{token_hex(3)}" if name is None else name,
            tuple(map(parse_address, places)),
            _parsed(peers or {}),
            routing,
            settings or ProtocolSettings(),
            hops if isinstance(hops, HopSettings) else HopSettings(hops),
            None if store is None else Path(store),
            tls=TlsFiles(certificate, key, ca),
            trust=TrustSettings(*[None if each is None else Path(each) for each in (broker_key, token_keys, rights)]),
            budgets=budgets or BudgetSettings(),
            queue_bytes=queue_bytes,
            push_back=push_back,
            mqtt=mqtt or MqttSettings(),
            history=history if isinstance(history, HistorySettings | None) else HistorySettings(Path(history)),
            gossip=gossip,
        )
        check_broker(self._settings)
        self._metrics = None if metrics is None else parse_place(metrics)
        check_places(self._settings.listen, self._metrics)
        self._node: BrokerNode | None = None
        self._server: HttpServer | None = None
        self._ticking: asyncio.Task[None] | None = None

    @abstractmethod
    def _do(self, function: Callable[[], T]) -> T:
        """The result of a function that must be called where the broker runs."""

    @property
    def name(self) -> str:
        """Unique in its network."""
        return self._settings.name

    @property
    def node(self) -> BrokerNode:
        """The broker underneath; a MisuseError unless it runs."""
        if self._node is None:
            raise MisuseError(f"the broker {self.name} does not run; enter it with `with` or `async with`, or start it")
        return self._node

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens."""
        return tuple(map(str, self.node.listening))

    @property
    def address(self) -> str:
        """The first of these."""
        return self.addresses[0]

    @property
    def metrics(self) -> str | None:
        """Where it serves /metrics and /health, such as http://127.0.0.1:9100; None if it does not."""
        return None if self._server is None else self._server.address

    @property
    def counters(self) -> Counters:
        """What it has counted since it was started."""
        return self.node.counters

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Brokers and clients that are connected."""
        return self._do(lambda: self.node.neighbours)

    def health(self) -> dict[str, object]:
        """How it is, as /health says it: `ok`, `problems`, `peers` and more."""
        return self._do(lambda: status_of(self.node).as_json())

    def set_peers(self, peers: Mapping[str, str]) -> None:
        """Dial these brokers and no others. Who stays is not touched."""
        parsed = _parsed(peers)
        check_peers(self.name, self._settings.listen, parsed)
        self._do(lambda: self.node.set_peers(parsed))

    def read_trust(self) -> None:
        """Read keys, rights and certificates again; an InputError when one is no good, and then nothing has changed."""
        self._do(self.node.read_trust)

    def __repr__(self) -> str:
        if self._node is None:
            return f"<{type(self).__name__} {self.name}, not running>"
        return f"<{type(self).__name__} {self.name} on {', '.join(self.addresses)}>"

    async def _start(self) -> None:
        if self._node is not None:
            raise MisuseError(f"the broker {self.name} runs already")
        journal = Journal(self.name, "text", _LOGGER.info)
        node = BrokerNode(self._settings, journal, journal.note)
        await node.start()
        try:
            if self._metrics is not None:
                self._server = await watch(node, self._metrics)
        except BaseException:
            await node.stop(0)
            raise
        self._node = node
        self._ticking = asyncio.create_task(_tick(node, journal))

    async def _stop(self) -> None:
        node, server, ticking = self._node, self._server, self._ticking
        self._node = self._server = self._ticking = None
        if ticking is not None:
            ticking.cancel()
        if server is not None:
            server.close()
        if node is not None:
            await node.stop()


class Broker(EmbeddedBroker):
    """A broker that runs in this event loop, from `async with` or `start` on."""

    async def start(self) -> None:
        """Listen, and begin to dial; a TransportError when a port is not to be had."""
        await self._start()

    async def stop(self) -> None:
        """Handle what has come, send what waits as far as others take it, and end."""
        await self._stop()

    async def connected_to(self, *names: str) -> None:
        """Wait until there are connections to these brokers and clients."""
        await self.node.connected_to(*names)

    def _do(self, function: Callable[[], T]) -> T:
        return function()

    async def __aenter__(self) -> "Broker":
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()


def _parsed(peers: Mapping[str, str]) -> dict[str, Address]:
    return {name: parse_address(address, to_dial=True) for name, address in peers.items()}


async def _tick(node: BrokerNode, journal: Journal) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        journal.tick(node.counters)

"""A client of a run that a network file describes, and whom it tells what it does."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from holdfast.books.rows import Row
from holdfast.model.messages import Publication
from holdfast.net.address import Address
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.driver import Application
from holdfast.net.row_collector import RowCollector
from holdfast.net.tls import TlsFiles
from holdfast.network.schema import Network
from holdfast.protocol.effects import Delivered, GroupDone


class Books(Protocol):
    """Who keeps account of a run."""

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, client: str, delivered: Delivered, now_us: int) -> GroupDone | None: ...
    def on_subscribed(self, client: str, id_: str, condition: str, group: str, now_us: int) -> None: ...
    def on_unsubscribed(self, client: str, id_: str, now_us: int) -> None: ...
    def on_rows(self, rows: list[Row]) -> None: ...

    @property
    def missing(self) -> int:
        """How many deliveries are still owed."""


class Participant(RowCollector):
    """A client of the run, as its driver tells of it."""

    def __init__(self, name: str, clock: Clock, books: Books) -> None:
        super().__init__(name, clock)
        self._name = name
        self._books = books
        self.delivered = 0
        self.give: Callable[[GroupDone], None]  # to its machine

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._books.on_published(publication, now_us)

    def on_delivered(self, delivered: Delivered, now_us: int) -> None:
        self.delivered += 1
        done = self._books.on_delivered(self._name, delivered, now_us)
        if done is not None:
            asyncio.get_running_loop().call_soon(self.give, done)


class ClientParts(NamedTuple):
    """What a client of a run is made of, beside what the file says of all."""

    name: str
    clock: Clock
    observer: Application


NewClient = Callable[[Network, int, Address, ClientParts], Client]


def new_client(network: Network, seed: int, address: Address, parts: ClientParts) -> Client:
    """A client of the file's brokers."""
    transport = network.transport
    return Client(
        [address],
        parts.name,
        TlsFiles(transport.certificate, transport.key, transport.ca),
        network.protocol,
        clock=parts.clock,
        first_seq=1,
        observer=parts.observer,
        tallied=True,
        guarantees=network.reliability.guarantees,
        hops=network.reliability.hops,
    )

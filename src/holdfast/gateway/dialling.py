"""Who carries what a gateway reads and publishes: Holdfast's brokers, or a bus of somebody else's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.carriers.addresses import BusAddress, bus_address, is_bus
from holdfast.carriers.connecting import bus_client
from holdfast.carriers.stub import Body
from holdfast.net.address import Address, parse_address
from holdfast.net.client import Client
from holdfast.net.tls import TlsFiles
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import Guarantees, ProtocolSettings


@dataclass(frozen=True)
class BusSpace:
    """What all clients of a space of a bus agree on; brokers have no use for it."""

    space: str = "holdfast"
    lanes: str = ""
    body: Body = "native"


@dataclass(frozen=True)
class Upstream:
    """Where a gateway finds its brokers or its bus, and how it is let in."""

    brokers: Sequence[Address]
    tls: TlsFiles | None = None
    token: str | None = None
    bus: BusSpace = BusSpace()

    @property
    def is_bus(self) -> bool:
        return any(isinstance(each, BusAddress) for each in self.brokers)

    def client(self, name: str, first_seq: int | None = None) -> Client:
        """Not connected yet. Over a bus it recovers what that loses, and keeps its own events for those who ask."""
        urls = [each.url for each in self.brokers if isinstance(each, BusAddress)]
        if not urls:
            own = self.brokers, name, self.tls, ProtocolSettings()
            return Client(*own, first_seq=first_seq, token=self.token)
        bus = self.bus
        return bus_client(
            urls, name, None, Guarantees(RecoverySettings()), bus.space, bus.lanes, bus.body, first_seq=first_seq
        )


def addresses_of(texts: Iterable[str], to_dial: bool = False) -> tuple[Address, ...]:
    """Of brokers or of a bus; an InputError when one is neither."""
    return tuple(bus_address(each) if is_bus(each) else parse_address(each, to_dial=to_dial) for each in texts)

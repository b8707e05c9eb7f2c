"""A client whose broker is a bus: the same class and the same machines, with a stub broker in its process."""

from collections.abc import Callable, Sequence

from holdfast.carriers.addresses import BusAddress, bus_address, carrier_of
from holdfast.carriers.bus_wire import BusWire
from holdfast.carriers.carrier import BusCarrier
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.lanes import Template
from holdfast.carriers.stub import Body, BusTerms, StubBroker
from holdfast.model.errors import InputError, MisuseError
from holdfast.net.address import Address
from holdfast.net.client import Client
from holdfast.net.replaying import Since
from holdfast.net.session import open_session
from holdfast.net.subscription import QUEUE_MAX, Subscription, WhenFull
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Wire
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings

NewCarrier = Callable[[BusAddress], BusCarrier]


def _by_scheme(address: BusAddress) -> BusCarrier:
    return carrier_of(address)()


class BusClient(Client):
    """A client of a space on a bus."""

    def __init__(
        self,
        addresses: Sequence[BusAddress],
        name: str | None,
        settings: ProtocolSettings,
        guarantees: Guarantees,
        space: str,
        template: Template,
        body: Body,
        new_carrier: NewCarrier = _by_scheme,
    ) -> None:
        super().__init__(addresses, name, None, settings, guarantees=guarantees)
        self._space = space
        self._template = template
        self._body: Body = body
        self._new_carrier = new_carrier
        self._recovers = guarantees != BEST_EFFORT
        self._book = LaneBook(keeps_layout=self._recovers and bool(template.attributes))

    async def _dial(self, address: Address) -> None:
        await open_session(address, self, reach=self._reach)

    async def _reach(self, address: Address, accept: Accept, tls: TlsFiles | None) -> Wire:
        assert isinstance(address, BusAddress)
        carrier = self._new_carrier(address)
        terms = BusTerms(self._space, self._template, self._body, carrier.has_headers, carrier.prefixes)
        stub = StubBroker(self.name, terms, self._book, self._recovers, self._clock.now_us())
        wire = BusWire(str(address), carrier, stub, self.driver, self._recovers)
        await carrier.connect(wire)
        wire.start(accept)
        return wire

    async def attach(self, *addresses: str | Address) -> None:
        await super().attach(*(bus_address(each) if isinstance(each, str) else each for each in addresses))

    async def forget(self) -> None:
        raise MisuseError("forget() needs brokers that store events; a bus keeps nothing for its clients")

    def subscribe(
        self,
        condition: str,
        *,
        group: str = "",
        queue_max: int = QUEUE_MAX,
        when_full: WhenFull = "drop-oldest",
        last: int | None = None,
        since: Since = None,
    ) -> Subscription:
        """The events that a SQL condition describes, from now on; a bus has neither groups nor history."""
        if group:
            raise InputError("groups need Holdfast's brokers, which hand each event to one member; a bus does not")
        if last is not None or since is not None:
            raise InputError("last and since need a Holdfast broker that keeps history; a bus keeps nothing")
        return super().subscribe(condition, queue_max=queue_max, when_full=when_full)

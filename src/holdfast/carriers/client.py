"""A client whose broker is a bus: the same class and the same machines, with a stub broker in its process."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from holdfast.carriers.addresses import BusAddress, bus_address, carrier_of
from holdfast.carriers.answered import answered
from holdfast.carriers.bus_wire import BusWire
from holdfast.carriers.carrier import BusCarrier, SelectingCarrier
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.stub import Body, BusTerms, StubBroker
from holdfast.language.lanes import Template
from holdfast.model.errors import InputError, MisuseError, TransportError
from holdfast.net.address import Address
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.driver import Application
from holdfast.net.replaying import Since
from holdfast.net.session import open_session
from holdfast.net.signing import UNSIGNED, Signing
from holdfast.net.subscription import QUEUE_MAX, Subscription, WhenFull
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Wire
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings

# For all of connecting, twice what our carriers allow themselves: one that is never done is never dialled again.
_CONNECT_S = 10.0
_CLOSE_S = 2.0  # for a connection that was given up to be taken down

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
        clock: Clock | None = None,
        first_seq: int | None = None,
        observer: Application | None = None,
        tallied: bool = False,
        signing: Signing = UNSIGNED,
    ) -> None:
        """Clock, number, observer and tallies are for runs of a network file, and for who numbers its events itself."""
        own = clock, first_seq, observer, tallied, guarantees
        super().__init__(addresses, name, None, settings, *own, signing=signing)
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
        selects = isinstance(carrier, SelectingCarrier) and self._body == "json"
        terms = BusTerms(self._space, self._template, self._body, carrier.has_headers, carrier.prefixes, selects)
        stub = StubBroker(self.name, terms, self._book, self._recovers, self._clock.now_us())
        wire = BusWire(str(address), carrier, stub, self.driver, self._recovers)
        try:
            await answered(carrier.connect(wire), _CONNECT_S, f"cannot connect to {address}")
        except TransportError:
            with suppress(TransportError):
                await answered(carrier.close(), _CLOSE_S, str(address))
            raise
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

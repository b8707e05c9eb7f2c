"""A client whose broker is a bus: the same class and the same machines, with a stub broker in its process."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from errno import ECONNREFUSED
from secrets import randbits

from holdfast.carriers.addresses import BusAddress, bus_address, carrier_of
from holdfast.carriers.answered import answered
from holdfast.carriers.bus_wire import BusWire
from holdfast.carriers.carrier import BusCarrier, SelectingCarrier
from holdfast.carriers.json_body import json_message
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.stub import Body, BusTerms, StubBroker
from holdfast.language.lanes import Template
from holdfast.model.errors import InputError, MisuseError, TransportError
from holdfast.model.messages import AttributeValue, Publication
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
_AROUND = 512  # bytes of a message around one event, in a repair as well: names, numbers, what is stated
_GROWS_TO = 8  # times as large as JSON, at most, about: what is smaller than that need not be looked at
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
        self._id = randbits(32)  # tells it from others of its name
        self._message_max = 0  # bytes of a message that the bus takes, when it has said so
        self._book = LaneBook(keeps_layout=self._recovers and bool(template.attributes))

    async def _dial(self, address: Address) -> None:
        await open_session(address, self, reach=self._reach)

    async def _reach(self, address: Address, accept: Accept, tls: TlsFiles | None) -> Wire:
        assert isinstance(address, BusAddress)
        carrier = self._new_carrier(address)
        selects = isinstance(carrier, SelectingCarrier) and self._body == "json"
        terms = BusTerms(self._space, self._template, self._body, carrier.has_headers, carrier.prefixes, selects)
        stub = StubBroker(self.name, terms, self._book, self._recovers, self._clock.now_us())
        wire = BusWire(str(address), carrier, stub, self.driver, self._recovers, self._id)
        try:
            await answered(carrier.connect(wire), _CONNECT_S, f"cannot connect to {address}")
        except TransportError as problem:
            with suppress(TransportError):
                await answered(carrier.close(), _CLOSE_S, str(address))
            if f"[Errno {ECONNREFUSED}]" in str(problem):  # libraries hand it on in words of their own
                raise TransportError(
                    f"cannot connect to {address}: connection refused; is its server running?"
                ) from None
            raise
        self._message_max = carrier.payload_max
        wire.start(accept)
        return wire

    def _check_fits(self, attributes: Mapping[str, AttributeValue], encoded: bytes, payload: bytes) -> None:
        super()._check_fits(attributes, encoded, payload)
        size, most = len(encoded) + len(payload), self._message_max
        if not most or size < most // _GROWS_TO:
            return
        if self._body == "json":
            event = Publication(self.name, 1, 0, None, dict(attributes), payload)
            size = len(json_message((), event, 0, has_headers=False).payload)
        if size + _AROUND > most:
            raise InputError(
                f"the event takes {size + _AROUND:,} bytes and the bus {most:,} in a message; "
                "store larger data elsewhere and send its address"
            )

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

"""What a bus is to a client: lanes to publish on and to subscribe to, and word of what becomes of the connection.

A carrier is one connection. It does not reconnect: when the connection is gone it says so once, and the client makes
the next one. It may lose, double and reorder messages; what it knows to have dropped it counts. A message to itself
comes behind what the bus had for it before, so that it knows how far behind it is. Whoever writes one puts it to the
checks of `holdfast.testing.carriers`.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from holdfast.language.lanes import Lane, Pattern

Headers = Mapping[str, str]
NO_HEADERS: Headers = {}


class BusMessage(NamedTuple):
    """What is published, or has come."""

    lane: Lane
    payload: bytes
    headers: Headers = NO_HEADERS  # none where the bus has none


class Passenger(Protocol):
    """Who rides on a carrier; its methods are called from the event loop that has connected it."""

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        """A message has come; where an awaitable is returned there is no room, and the next one has to wait for it."""

    def on_dropped(self, messages: int) -> None:
        """So many, at least, were dropped because they were not taken fast enough."""

    def on_down(self, reason: str) -> None:
        """The connection is gone; nothing is called after this."""


class BusCarrier(Protocol):
    has_headers: bool  # else what they would say travels in the payload
    prefixes: bool  # a pattern can ask for the beginning of a token
    payload_max: int  # bytes of one message

    async def connect(self, passenger: Passenger) -> None:
        """Connect, once; a TransportError that says in one line why that is not possible."""

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        """Hand over messages in order, when there is room; a TransportError when the connection is gone."""

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        """Whatever is published on these lanes from when this returns on comes, as long as the bus loses nothing."""

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None: ...

    async def flush(self) -> None:
        """Until the bus has everything that was published before; a TransportError when that cannot be known."""

    async def close(self) -> None:
        """Leave. `on_down` is not called for it."""


@runtime_checkable
class SelectingCarrier(Protocol):
    """A carrier whose server can hold back messages of events by a selector (`carriers.selectors`)."""

    async def select(self, selector: str) -> None:
        """From now on only what this selector passes comes on lanes of events; empty: everything."""


@runtime_checkable
class EchoingCarrier(Protocol):
    """A carrier whose bus does not bring its own messages back to it, or not behind those of others."""

    async def echo(self, message: BusMessage) -> None:
        """Hand this to the passenger behind all that the bus has for it now; or not, if that cannot be known."""

"""Who writes down what clients of MQTT do, in the trace of a run: to the run they are clients as its own are.

An event is delivered when its broker has put it into the client's session: from there on the packets of MQTT see to it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.books.rows import Row, guest_row, publication_row
from holdfast.model.messages import Publication, Publish
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.driver import Application, Driver
from holdfast.net.row_collector import RowCollector
from holdfast.protocol.effects import Acknowledged, Delivered, DeliveredBatch, Incident, Lost
from holdfast.protocol.groups.settings import group_subscriber
from holdfast.wire.codec import size_of


class WitnessedSeat(Protocol):
    """A client of MQTT at its broker."""

    name: str
    counters: Counters

    @property
    def driver(self) -> Driver: ...
    @property
    def is_durable(self) -> bool: ...
    @property
    def has_begun(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...


class SeatWitness(Application, Protocol):
    """Is told of one seat."""

    def on_subscribed(self, id_: str, condition: str, group: str, now_us: int) -> None: ...
    def on_unsubscribed(self, id_: str, now_us: int) -> None: ...
    def on_left(self, now_us: int) -> None:
        """The client is away, and its broker keeps events for it."""


NewWitness = Callable[[WitnessedSeat], SeatWitness]


class _NoWitness:
    """Where there is no trace."""

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...
    def on_lost(self, lost: Lost, now_us: int) -> None: ...
    def on_incident(self, incident: Incident, now_us: int) -> None: ...
    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None: ...
    def on_subscribed(self, id_: str, condition: str, group: str, now_us: int) -> None: ...
    def on_unsubscribed(self, id_: str, now_us: int) -> None: ...
    def on_left(self, now_us: int) -> None: ...


NO_WITNESS: SeatWitness = _NoWitness()


class GuestRows(RowCollector):
    """The rows of one client of MQTT at one broker."""

    def __init__(self, seat: WitnessedSeat, broker: str, clock: Clock) -> None:
        super().__init__(seat.name, clock)
        self.seat = seat
        self._broker = broker
        self._groups: dict[str, str] = {}  # by subscription, who is the subscriber to the books

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._rows.append(publication_row(publication, size_of(Publish(publication))))

    def on_delivered(self, delivered: Delivered, now_us: int) -> None:
        each = delivered.publication
        subscriber = self._groups.get(delivered.subscriptions[0], self._node)
        self._rows.append(("deliveries", subscriber, each.source, each.seq, now_us, delivered.via, delivered.held_us))

    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None:
        for each, ids in zip(delivered.publications, delivered.subscriptions, strict=True):
            self.on_delivered(Delivered(each, tuple(ids), "original"), now_us)

    def on_subscribed(self, id_: str, condition: str, group: str, now_us: int) -> None:
        if group:
            self._groups[id_] = group_subscriber(group, condition)
        self._tell(id_, condition, now_us, self.seat.is_durable)

    def on_unsubscribed(self, id_: str, now_us: int) -> None:
        self._tell(id_, None, now_us, False)
        self._groups.pop(id_, None)

    def _tell(self, id_: str, condition: str | None, now_us: int, lasts: bool) -> None:
        group = self._groups.get(id_)
        who = (self._node, id_) if group is None else (group, f"{self._node} {id_}")
        self._rows.append(guest_row(*who, condition, now_us, self._broker, lasts))

    def on_left(self, now_us: int) -> None:
        self._rows.append(guest_row(self._node, None, None, now_us, self._broker, True))


class GuestBook:
    """All clients of MQTT at a broker, until what they did was taken."""

    def __init__(self, broker: str, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._guests: list[GuestRows] = []

    def witness(self, seat: WitnessedSeat) -> GuestRows:
        guest = GuestRows(seat, self._broker, self._clock)
        self._guests.append(guest)
        return guest

    def take(self, queue_bytes: int) -> Sequence[Row]:
        rows = [
            row
            for guest in self._guests
            if guest.seat.has_begun
            for row in guest.take(guest.seat.driver, guest.seat.counters, queue_bytes)
        ]
        self._guests = [guest for guest in self._guests if not guest.seat.is_over]
        return rows

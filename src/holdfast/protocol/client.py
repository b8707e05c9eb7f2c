"""A client: publishes, subscribes, and hands each publication to the application at most once.

It keeps two tables with its broker, what it wants and what it will publish, and matches what arrives against its own
subscriptions again: so a broker whose table is out of date cannot deliver what was not asked for.
"""

from collections.abc import Callable, Sequence
from random import Random

from holdfast.model.errors import MisuseError
from holdfast.model.messages import TABLES, Deliver, Detach, Message, Publication, Publish, Summary, Table
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.effects import (
    AdvertiseCall,
    Delivered,
    Effect,
    Gauges,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    PublishCall,
    Published,
    Received,
    Send,
    SubscribeCall,
    UnadvertiseCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.seen import Seen
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import Told


class Client:
    def __init__(
        self,
        name: str,
        settings: ProtocolSettings,
        book: ConditionBook,
        new_index: Callable[[], EventIndex[str]],
        epoch: int,
        rng: Random,
        first_seq: int = 1,  # above all that an earlier incarnation of this name has used, or they pass for duplicates
    ) -> None:
        self.name = name
        self._settings = settings
        self._book = book
        self._epoch = epoch
        self.last_seq = first_seq - 1  # the number of the last publication
        self._broker: str | None = None
        self._told: dict[Table, Told] = {}
        self._wanted: dict[Table, dict[str, str]] = {table: {} for table in TABLES}  # by the application's id
        self._index = new_index()
        self._seen = Seen(settings.dedup_window, settings.dedup_sources)
        self._due_us = epoch + int(settings.heartbeat_us * rng.random())

    def next_due_us(self) -> int | None:
        return None if self._broker is None else self._due_us

    def gauges(self) -> Gauges:
        return {"sources remembered": (len(self._seen), self._settings.dedup_sources)}

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        """What `Received` with each of these would do, in one go."""
        effects: list[Effect] = []
        for message in messages:
            if type(message) is Deliver:
                effects.append(self._on_deliver(message, now_us))
            else:
                effects += self._on_control(message, now_us)
        return effects

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:  # nearly always
            return self.receive(given.sender, (given.message,), now_us)
        match given:
            case PublishCall():
                return self._publish(given, now_us)
            case Wake():
                self._due_us = max(self._due_us + self._settings.heartbeat_us, now_us + 1)
                return self._beat()
            case LinkUp(neighbour=broker):
                return self._attach(broker, now_us)
            case LinkDown(neighbour=broker):
                return self._detach() if broker == self._broker else []
            case SubscribeCall(id=id_, condition=condition):
                return self._want("subscriptions", id_, condition, now_us)
            case AdvertiseCall(id=id_, condition=condition):
                return self._want("advertisements", id_, condition, now_us)
            case UnsubscribeCall(id=id_):
                return self._unwant("subscriptions", id_, now_us)
            case UnadvertiseCall(id=id_):
                return self._unwant("advertisements", id_, now_us)
            case _:
                raise AssertionError(f"a client cannot handle {given!r}")

    # The broker ----------------------------------------------------------------------------------

    def _attach(self, broker: str, now_us: int) -> list[Effect]:
        left: list[Effect] = []
        if self._broker not in (None, broker):
            left = self._detach()
        self._broker = broker
        self._due_us = now_us + self._settings.heartbeat_us
        effects = self._beat()
        for table in TABLES:
            self._told[table] = Told(table, now_us)
            change = self._told[table].change(self._wanted[table].values(), (), now_us)
            if change is not None:
                effects.append(Send(broker, change))
        return left + effects

    def _detach(self) -> list[Effect]:
        broker, self._broker = self._broker, None
        self._told.clear()
        return [] if broker is None else [Send(broker, Detach())]

    def _beat(self) -> list[Effect]:
        if self._broker is None:
            return []
        return [Send(self._broker, Summary(self._epoch, ((0, 0), (0, 0)), kind="client"))]

    def _on_control(self, message: Message, now_us: int) -> list[Effect]:
        match message:
            case Summary(heard=heard):
                wholes = []
                for table, (version, digest) in zip(TABLES, heard, strict=False):
                    told = self._told.get(table)
                    if told is not None:
                        wholes.append(told.on_heard(version, digest, now_us, self._settings.heartbeat_us // 2))
                return [Send(self._broker, whole) for whole in wholes if whole is not None and self._broker]
            case _:
                return [Incident("unexpected message", self._broker or "")]

    # Events --------------------------------------------------------------------------------------

    def _publish(self, call: PublishCall, now_us: int) -> list[Effect]:
        self.last_seq += 1
        publication = Publication(self.name, self.last_seq, now_us, call.lifetime_us, call.attributes, call.payload)
        if self._broker is None:
            return [Published(publication), Incident("published while detached", self.name)]
        return [Published(publication), Send(self._broker, Publish(publication))]

    def _on_deliver(self, message: Deliver, now_us: int) -> Effect:
        publication = message.publication
        if publication.lifetime_us is not None and publication.expired(now_us):
            return Incident("expired", publication.id_text)
        wanted = self._index.match(publication.attributes)
        if not wanted:
            return Incident("not wanted", publication.source)
        if not self._seen.first_time(publication.source, publication.seq):
            return Incident("duplicate", publication.source)
        return Delivered(publication, tuple(wanted), message.via)

    # Subscriptions and advertisements ------------------------------------------------------------

    def _want(self, table: Table, id_: str, condition: str, now_us: int) -> list[Effect]:
        wanted = self._wanted[table]
        if id_ in wanted:
            raise MisuseError(f"{self.name} has a {table[:-1]} {id_!r} already")
        subscription = self._book.subscription(condition)
        wanted[id_] = str(subscription)
        if table == "subscriptions":
            self._index.add(id_, subscription.filters)
        return self._tell(table, [wanted[id_]], [], now_us)

    def _unwant(self, table: Table, id_: str, now_us: int) -> list[Effect]:
        wanted = self._wanted[table]
        if id_ not in wanted:
            raise MisuseError(f"{self.name} has no {table[:-1]} {id_!r}")
        condition = wanted.pop(id_)
        if table == "subscriptions":
            self._index.remove(id_, self._book.subscription(condition).filters)
        return self._tell(table, [], [] if condition in wanted.values() else [condition], now_us)

    def _tell(self, table: Table, add: list[str], drop: list[str], now_us: int) -> list[Effect]:
        told = self._told.get(table)
        change = told.change(add, drop, now_us) if told is not None else None
        return [] if change is None or self._broker is None else [Send(self._broker, change)]

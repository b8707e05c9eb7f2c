"""A client of brokers that store events: it keeps what it publishes until a broker has it, and says what it has got.

It stands around a client that knows nothing of it. While there is no broker, or the broker is down, publications wait;
whoever comes next takes them. What the broker hands over to us is handled in order and each once, also when the
broker crashed in between. `runs` lets publications that are made in a row travel in one message.
"""

from collections.abc import Iterable, Sequence

from holdfast.model.messages import Handover, Message, Publication, Publish, Run, Scalar, Taken
from holdfast.protocol.client import Client
from holdfast.protocol.effects import (
    Acknowledged,
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
    Wake,
)
from holdfast.protocol.hops.changes import Body
from holdfast.protocol.hops.incoming import Incoming
from holdfast.protocol.hops.outgoing import Kept, Outgoing
from holdfast.protocol.hops.settings import HandoverSettings

_RUN_EVENTS_MAX = 256  # in one message: what the broker's store then writes as one row
_RUN_BYTES_MAX = 128 * 1024  # of texts and payloads in it
_FOR_EVER_US = 2**61


class _Row:
    """Events that are to leave in one message."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self._times_us: list[int] = []
        self._attributes: list[dict[str, Scalar]] = []
        self._payloads: list[bytes] = []
        self._bytes = 0

    def add(self, seq: int, time_us: int, attributes: dict[str, Scalar], payload: bytes) -> bool:
        """Whether it is full now."""
        self.seqs.append(seq)
        self._times_us.append(time_us)
        self._attributes.append(attributes)
        self._payloads.append(payload)
        self._bytes += len(payload) + sum([len(each) for each in attributes.values() if type(each) is str])
        return len(self.seqs) >= _RUN_EVENTS_MAX or self._bytes >= _RUN_BYTES_MAX

    def message(self, source: str) -> Publish | Run:
        if len(self.seqs) == 1:
            first = self._times_us[0], None, self._attributes[0], self._payloads[0]
            return Publish(Publication(source, self.seqs[0], *first))
        payloads = tuple(self._payloads) if any(self._payloads) else ()
        return Run(tuple(self.seqs), source, tuple(self._times_us), tuple(self._attributes), payloads, 0)


class DurableClient:
    def __init__(self, client: Client, settings: HandoverSettings, runs: bool = False) -> None:
        self.name = client.name
        self.client = client
        self._settings = settings
        self._runs = runs
        self._incoming: dict[str, Incoming] = {}  # by broker: we may come back to one
        self._broker: str | None = None
        self._outgoing = Outgoing(0, settings)
        self._for: str | None = None  # the broker whose numbers these are
        self._row = _Row()  # published since the last message
        self._row_due_us: int | None = None
        self.unacknowledged = 0  # publications

    @property
    def last_seq(self) -> int:
        return self.client.last_seq

    @property
    def settled(self) -> bool:
        return self.client.settled and not self.unacknowledged

    @property
    def has_told(self) -> bool:
        return self.client.has_told

    @property
    def counts(self) -> dict[str, int]:
        return self.client.counts

    @property
    def answered_us(self) -> Iterable[int]:
        return self.client.answered_us

    @property
    def full(self) -> bool:
        """Whether so much waits to be taken that no more should be published."""
        return self.unacknowledged >= self._settings.published_max

    def gauges(self) -> Gauges:
        return {**self.client.gauges(), "not acknowledged": (self.unacknowledged, self._settings.published_max)}

    def next_due_us(self) -> int | None:
        due = (self.client.next_due_us(), self._outgoing.due_us if self._broker else None, self._row_due_us)
        return min((each for each in due if each is not None), default=None)

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        """What `Received` with each of these would do, in one go."""
        effects: list[Effect] = []
        handed = False
        for message in messages:
            if type(message) is Handover:
                handed = True
                effects += self._on_handover(sender, message, now_us)
            elif type(message) is Taken:
                effects += self._on_taken(message, now_us)
            else:
                effects += self.client.receive(sender, (message,), now_us)
        if handed and sender in self._incoming:
            effects.append(Send(sender, self._incoming[sender].taken))
        return effects

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        match given:
            case Received():
                return self.receive(given.sender, (given.message,), now_us)
            case PublishCall():
                return self._publish(given, now_us)
            case Wake():
                return self._on_wake(now_us)
            case LinkUp():
                return self._attach(given, now_us)
            case LinkDown():
                if given.neighbour == self._broker:
                    self._broker = None
                return self.client.handle(given, now_us)
            case _:
                return self.client.handle(given, now_us)

    # Publishing ----------------------------------------------------------------------------------

    def _publish(self, call: PublishCall, now_us: int) -> list[Effect]:
        if self.full:
            return [Incident("too many not acknowledged", self.name)]
        published, *_ = self.client.handle(call, now_us)  # sending it is our part
        assert isinstance(published, Published)
        publication = published.publication
        self.unacknowledged += 1
        if not self._runs or publication.lifetime_us is not None or publication.record is not None:
            return [published, *self._send_row(now_us), *self._put(Publish(publication), now_us)]
        full = self._row.add(publication.seq, now_us, publication.attributes, publication.payload)
        self._row_due_us = now_us
        return [published, *self._send_row(now_us)] if full else [published]

    def publish_plain(self, attributes: dict[str, Scalar], payload: bytes, now_us: int) -> bool:
        """The short way of an event that nobody but the broker wants to know of; whether it is time for a `Wake`."""
        self.client.last_seq += 1
        self.unacknowledged += 1
        self._row_due_us = now_us
        return self._row.add(self.client.last_seq, now_us, attributes, payload)

    @property
    def takes_plain(self) -> bool:
        return self._runs

    def _send_row(self, now_us: int) -> list[Effect]:
        row, self._row_due_us = self._row, None
        if not row.seqs:
            return []
        self._row = _Row()
        return self._put(row.message(self.name), now_us)

    def _put(self, message: Body, now_us: int) -> list[Effect]:
        self._outgoing.put(Kept(0, message, now_us, _FOR_EVER_US))
        return self._hand_over(self._outgoing.release(self._outgoing.seq, now_us)) if self._broker else []

    def _hand_over(self, handovers: list[Handover]) -> list[Effect]:
        assert self._broker is not None
        return [Send(self._broker, each) for each in handovers]

    def _on_taken(self, taken: Taken, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for kept in self._outgoing.on_taken(taken, now_us):
            self.unacknowledged -= kept.events
            message = kept.message
            seqs = message.seqs if isinstance(message, Run) else (message.publication.seq,)
            effects.append(Acknowledged(seqs[0], seqs[-1]))
        if self._broker is not None:
            again = [*self._outgoing.missed(taken, now_us), *self._outgoing.fill(now_us)]
            effects += self._hand_over(again)
        return effects

    # The broker ----------------------------------------------------------------------------------

    def _attach(self, given: LinkUp, now_us: int) -> list[Effect]:
        self._broker = given.neighbour
        effects = self.client.handle(given, now_us)
        effects.append(Send(self._broker, Taken(0, 0)))
        if self._for != self._broker:
            self._for = self._broker
            waiting = self._outgoing.kept()
            self._outgoing = Outgoing(now_us, self._settings)
            for kept in waiting:
                self._outgoing.put(kept)
            return effects + self._hand_over(self._outgoing.release(self._outgoing.seq, now_us))
        self._outgoing.release(self._outgoing.seq, now_us)
        return effects + self._hand_over(self._outgoing.try_again(now_us))

    def _on_handover(self, sender: str, handover: Handover, now_us: int) -> list[Effect]:
        incoming = self._incoming.get(sender)
        if incoming is None:
            incoming = self._incoming[sender] = Incoming(self._settings.window)
        ready = [each for each in incoming.take(handover) or () if each is not None]
        incoming.stored = incoming.accepted
        return self.client.receive(sender, ready, now_us) if ready else []

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._row_due_us is not None:
            effects += self._send_row(now_us)
        due_us = self.client.next_due_us()
        if due_us is not None and due_us <= now_us:
            effects += self.client.handle(given=Wake(), now_us=now_us)
        if self._broker is not None:
            effects += self._hand_over(self._outgoing.on_timer(now_us))
        return effects

"""A client of brokers that store events: it keeps what it publishes until a broker has it, and says what it has got.

It stands around a client that knows nothing of it. While there is no broker, or the broker is down, publications wait;
whoever comes next takes them. What the broker hands over to us is handled in order and each once, also when the
broker crashed in between. `runs` lets publications that are made in a row travel in one message.
"""

from collections.abc import Iterable, Sequence

from holdfast.model.messages import Handover, Message, Publication, Publish, Run, Taken
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
        self._row: list[Publication] = []  # published since the last message
        self._row_bytes = 0
        self._row_due_us: int | None = None
        self.unacknowledged = 0  # publications

    @property
    def last_seq(self) -> int:
        return self.client.last_seq

    @property
    def settled(self) -> bool:
        return self.client.settled and not self.unacknowledged

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
        if self._runs and publication.lifetime_us is None and publication.record is None:
            self._row.append(publication)
            self._row_bytes += len(publication.payload)
            self._row_bytes += sum([len(each) for each in publication.attributes.values() if type(each) is str])
            self._row_due_us = now_us
            if len(self._row) < _RUN_EVENTS_MAX and self._row_bytes < _RUN_BYTES_MAX:
                return [published]
            return [published, *self._send_row(now_us)]
        return [published, *self._send_row(now_us), *self._put(Publish(publication), now_us)]

    def _send_row(self, now_us: int) -> list[Effect]:
        row, self._row, self._row_bytes, self._row_due_us = self._row, [], 0, None
        if not row:
            return []
        if len(row) == 1:
            return self._put(Publish(row[0]), now_us)
        payloads = [each.payload for each in row]
        run = Run(
            tuple([each.seq for each in row]),
            self.name,
            tuple([each.time_us for each in row]),
            tuple([each.attributes for each in row]),
            tuple(payloads) if any(payloads) else (),
            0,
        )
        return self._put(run, now_us)

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

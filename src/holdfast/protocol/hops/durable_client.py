"""A client of brokers that store events: it keeps what it publishes until a broker has it, and says what it has got.

It stands around a client that knows nothing of it. While there is no broker, or the broker is down, publications wait;
whoever comes next takes them. What the broker hands over to us is handled in order and each once, also when the
broker crashed in between. `batches` lets publications that are made in a row travel in one message.

What it wants outlives it: it leaves without a word, and the broker keeps its table and its events until it is back.
Where the application `confirms`, events are handed out when it has subscribed to all that it wants (`Begin`), and the
broker is told that they are taken when it is done with them (`Consumed`).
"""

from collections.abc import Iterable, Sequence

from holdfast.model.limits import BATCH_EVENTS_MAX
from holdfast.model.messages import (
    Batch,
    Detach,
    GivenUp,
    Handover,
    Heartbeat,
    Message,
    Publication,
    Publish,
    Scalar,
    Snapshot,
    StoredAck,
)
from holdfast.protocol.changes import Body
from holdfast.protocol.client import Client
from holdfast.protocol.effects import (
    Absence,
    Acknowledged,
    Begin,
    Consumed,
    Effect,
    ForgetCall,
    Gauges,
    HandedOut,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    PublishCall,
    Published,
    Received,
    Send,
    SubscribeCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.hops.handing_out import HandingOut
from holdfast.protocol.hops.incoming import Incoming
from holdfast.protocol.hops.outgoing import Kept, Outgoing
from holdfast.protocol.hops.settings import HandoverSettings

_RUN_EVENTS_MAX = 256  # in one message: what the broker's store then writes as one row
_RUN_BYTES_MAX = 128 * 1024  # of texts and payloads in it
_FOR_EVER_US = 2**61
_HELD_BACK = "messages held back"  # the gauge of whoever keeps the order
_TAKES, _NOT_YET = StoredAck(0, 0), StoredAck(0, 1)


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

    def message(self, source: str) -> Publish | Batch:
        if len(self.seqs) == 1:
            first = self._times_us[0], None, self._attributes[0], self._payloads[0]
            return Publish(Publication(source, self.seqs[0], *first))
        payloads = tuple(self._payloads) if any(self._payloads) else ()
        return Batch(tuple(self.seqs), source, tuple(self._times_us), tuple(self._attributes), payloads, 0)


class DurableClient:
    def __init__(
        self, client: Client, settings: HandoverSettings, batches: bool = False, confirms: bool = False
    ) -> None:
        self.name = client.name
        self.client = client
        self._settings = settings
        self._batches = batches
        self._incoming: dict[str, Incoming] = {}  # by broker: we may come back to one
        self._broker: str | None = None
        self._outgoing = Outgoing(0, settings)
        self._for: str | None = None  # the broker whose numbers these are
        self._row = _Row()  # published since the last message
        self._row_due_us: int | None = None
        self.unacknowledged = 0  # publications
        self._out = HandingOut(settings.untaken_max, settings.window) if confirms else None
        self._before = 0  # of the batch that the application is at, it is done with all before this number
        self._said = 0  # the token of the last `HandedOut`
        self._begun = not confirms
        self._subscriptions = 0
        self._left: tuple[str, int] | None = None  # the broker that we are away from, and since when
        self._told_of: dict[str, tuple[int, int]] = {}  # by broker, what it last gave up: since when and how many

    @property
    def last_seq(self) -> int:
        return self.client.last_seq

    @property
    def settled(self) -> bool:
        return self.client.settled and not self.unacknowledged

    def has_settled(self, now_us: int) -> bool:
        return self.settled

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
    def confirms(self) -> bool:
        return self._out is not None

    @property
    def handed_out_max(self) -> int:
        """Events that the application may have and not be done with: one message may come on top of the limit."""
        return self._settings.untaken_max + BATCH_EVENTS_MAX

    @property
    def full(self) -> bool:
        """Whether so much waits to be taken that no more should be published."""
        return self.unacknowledged >= self._settings.published_max

    def missing(self) -> list[tuple[str, int, int]]:
        return self.client.missing()

    def held(self, id_: str) -> int:
        return self.client.held(id_)

    def gauges(self) -> Gauges:
        untaken = 0 if self._out is None else self._out.untaken
        return {
            **self.client.gauges(),
            "not acknowledged": (self.unacknowledged, self._settings.published_max),
            "not taken": (untaken, self.handed_out_max),
        }

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
            elif type(message) is StoredAck:
                effects += self._on_taken(message, now_us)
            elif type(message) is GivenUp:
                effects += self._on_given_up(sender, message, now_us)
            else:
                effects += self._unless_early(self.client.receive(sender, (message,), now_us))
                effects += self._handed_out() if self._out is not None else []
        if handed and sender in self._incoming:
            effects += [*self._hand_out(now_us), Send(sender, self._taken(sender))]
        return effects

    def _unless_early(self, effects: list[Effect]) -> list[Effect]:
        """Before we have begun the broker has the table of an earlier life, which is not to be mended yet."""
        if self._begun:
            return effects
        return [each for each in effects if not (isinstance(each, Send) and isinstance(each.message, Snapshot))]

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
                return self._detach(given, now_us)
            case Begin():
                return self._begin()
            case Consumed():
                return self._on_consumed(given, now_us)
            case ForgetCall():
                return self._leave_for_good(given, now_us)
            case SubscribeCall() | UnsubscribeCall():
                self._subscriptions += 1 if isinstance(given, SubscribeCall) else -1
                return self.client.handle(given, now_us)
            case _:
                return self.client.handle(given, now_us)

    # Publishing ----------------------------------------------------------------------------------

    def _publish(self, call: PublishCall, now_us: int) -> list[Effect]:
        if self.full:
            return [Incident("unacknowledged_limit", self.name)]
        published, *_ = self.client.handle(call, now_us)  # sending it is our part
        assert isinstance(published, Published)
        publication = published.publication
        self.unacknowledged += 1
        if not self._batches or publication.lifetime_us is not None or publication.record is not None:
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
        return self._batches

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

    def _on_taken(self, taken: StoredAck, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for kept in self._outgoing.on_taken(taken, now_us):
            self.unacknowledged -= kept.events
            message = kept.message
            seqs = message.seqs if isinstance(message, Batch) else (message.publication.seq,)
            effects.append(Acknowledged(seqs[0], seqs[-1]))
        if self._broker is not None:
            again = [*self._outgoing.missed(taken, now_us), *self._outgoing.fill(now_us)]
            effects += self._hand_over(again)
        return effects

    # The broker ----------------------------------------------------------------------------------

    def _attach(self, given: LinkUp, now_us: int) -> list[Effect]:
        effects = self._away_from_another(given.neighbour, now_us)
        self._broker, self._left = given.neighbour, None
        for each in _without_goodbye(self.client.handle(given, now_us)):
            effects.append(each)
            if isinstance(each, Send) and isinstance(
                each.message, Heartbeat
            ):  # it belongs to what this says of our life
                effects.append(Send(self._broker, _TAKES if self._begun else _NOT_YET))
        if self._broker in self._incoming:
            effects.append(Send(self._broker, self._taken(self._broker)))
        if self._for != self._broker:
            self._for = self._broker
            waiting = self._outgoing.kept()
            self._outgoing = Outgoing(now_us, self._settings)
            for kept in waiting:
                self._outgoing.put(kept)
            return effects + self._hand_over(self._outgoing.release(self._outgoing.seq, now_us))
        self._outgoing.release(self._outgoing.seq, now_us)
        return effects + self._hand_over(self._outgoing.try_again(now_us))

    def _away_from_another(self, broker: str, now_us: int) -> list[Effect]:
        """What was for us while we were away is kept at the broker that we left, and this is another."""
        if self._left is None or self._left[0] == broker or not self._subscriptions:
            return []
        left, since_us = self._left
        reason = f"what came meanwhile is kept at {left}, and this is {broker}"
        return self.client.handle(Absence(since_us, now_us, reason), now_us)

    def _detach(self, given: LinkDown, now_us: int) -> list[Effect]:
        if given.neighbour == self._broker:
            self._left, self._broker = (self._broker, now_us), None
        return _without_goodbye(self.client.handle(given, now_us))

    def _leave_for_good(self, call: ForgetCall, now_us: int) -> list[Effect]:
        if self._broker is None:
            return []
        broker = self._broker
        effects = self.client.handle(LinkDown(broker), now_us)
        if call.stays:
            return effects + self._attach(LinkUp(broker, "broker"), now_us)
        self._broker = None
        return effects

    def _begin(self) -> list[Effect]:
        if self._begun:
            return []
        self._begun = True
        return [] if self._broker is None else [Send(self._broker, _TAKES)]

    # What comes ----------------------------------------------------------------------------------

    def _on_given_up(self, sender: str, given_up: GivenUp, now_us: int) -> list[Effect]:
        heard: list[Effect] = [Send(sender, given_up)]
        about = given_up.since_us, given_up.events
        if self._told_of.get(sender) == about:
            return heard
        self._told_of[sender] = about
        absence = Absence(given_up.since_us, given_up.until_us, given_up.reason, given_up.events)
        return heard + self.client.handle(absence, now_us)

    def _taken(self, broker: str) -> StoredAck:
        incoming = self._incoming[broker]
        taken = incoming.taken
        if incoming.accepted == incoming.stored:
            return taken
        return StoredAck(taken.stream, taken.seq, taken.missing, incoming.accepted, self._before)

    def _on_consumed(self, given: Consumed, now_us: int) -> list[Effect]:
        assert self._out is not None
        done = given.seq > 0
        self._before = 0
        for broker, stream, seq in self._out.consumed(given.token):
            incoming = self._incoming[broker]
            if incoming.stream == stream:
                incoming.stored = max(incoming.stored, seq)
            done = done or broker == self._broker
        if self._broker is not None and given.seq:
            self._before = self._out.batch_done_to(self._broker, given.source, given.seq)
        effects = self._hand_out(now_us)
        if done and self._broker is not None:
            effects.append(Send(self._broker, self._taken(self._broker)))
        return effects

    def _on_handover(self, sender: str, handover: Handover, now_us: int) -> list[Effect]:
        if not self._begun or (self._out is not None and self._out.full):
            return []  # it comes again
        incoming = self._incoming.get(sender)
        if incoming is None:
            incoming = self._incoming[sender] = Incoming(self._settings.window)
        taken = incoming.take(handover) or []
        if self._out is None:
            ready = [each for each in taken if each is not None]
            incoming.stored = incoming.accepted
            return self.client.receive(sender, ready, now_us) if ready else []
        for seq, each in enumerate(taken, incoming.accepted - len(taken) + 1):
            self._out.put((sender, incoming.stream, seq), each)
        return []

    def _hand_out(self, now_us: int) -> list[Effect]:
        """To the application, as much as it may have at a time."""
        if self._out is None:
            return []
        effects: list[Effect] = []
        while (found := self._out.next()) is not None:
            broker, message = found
            effects += self.client.receive(broker, (message,), now_us) if message is not None else []
            effects += self._handed_out()
        return effects

    def _handed_out(self) -> list[Effect]:
        """The application has all of it, unless something is held back for the sake of order."""
        assert self._out is not None
        held, _ = self.client.gauges().get(_HELD_BACK, (0, 0))
        if held or self._said == self._out.token:
            return []
        self._said = self._out.token
        return [HandedOut(self._out.token)]

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._row_due_us is not None:
            effects += self._send_row(now_us)
        due_us = self.client.next_due_us()
        if due_us is not None and due_us <= now_us:
            effects += self.client.handle(given=Wake(), now_us=now_us)
            effects += self._handed_out() if self._out is not None else []
        if self._broker is not None:
            effects += self._hand_over(self._outgoing.on_timer(now_us))
        return effects


def _without_goodbye(effects: list[Effect]) -> list[Effect]:
    """What the broker has of us is to stay."""
    return [each for each in effects if not (isinstance(each, Send) and isinstance(each.message, Detach))]

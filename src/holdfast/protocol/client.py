"""A best-effort client: publishes, subscribes, and hands each publication to the application at most once.

It keeps two tables with its broker, what it wants and what it will publish, and matches what arrives against its own
subscriptions again: so a broker whose table is out of date cannot deliver what was not asked for. What is done about
losses and order are layers around it (`reliable_client`): to the broker, publications and subscriptions like others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from random import Random

from msgspec import Raw
from msgspec.structs import replace

from holdfast.model.encoded import joined
from holdfast.model.errors import MisuseError
from holdfast.model.hash_tree import HASH_BYTES
from holdfast.model.messages import (
    TABLES,
    AttributeValue,
    Batch,
    Deliver,
    Detach,
    Heartbeat,
    Message,
    Outage,
    Publication,
    Publish,
    Reachable,
    Table,
    TableRefused,
    Via,
)
from holdfast.protocol.apart import Apart
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import (
    Absence,
    AdvertiseCall,
    Delivered,
    DeliveredBatch,
    Effect,
    Gauges,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    PublishCall,
    Published,
    Received,
    Send,
    SubscribeCall,
    UnadvertiseCall,
    UnsubscribeCall,
    Wake,
)
from holdfast.protocol.reach import known_everywhere
from holdfast.protocol.recovery.control import CONTROL_ADVERTISEMENT, CONTROL_SEQ, leaves_out_control
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.signing import EventSigner, EventVerifier, refused
from holdfast.protocol.tables import SentTable

_BATCH_BYTES_MAX = 63 * 1024  # of one batch: it fills a frame of the usual size
_EVENT_BYTES = 23  # of an event besides attributes and payload: its number, its time and a length, at most


class CoreClient:
    def __init__(
        self,
        name: str,
        settings: ProtocolSettings,
        book: ConditionBook,
        new_index: Callable[[], EventIndex[str]],
        epoch: int,
        rng: Random,
        first_seq: int = 1,  # above all that an earlier incarnation of this name has used, or they pass for duplicates
        *,
        batches: int = 0,  # events that may leave in one message; then no `Published` is returned for these
        recovers: bool = False,  # it takes part in recovery, and gets no control messages but those that it follows
        signer: EventSigner | None = None,
        verifier: EventVerifier | None = None,
        keeps_proofs: bool = False,  # what it gets stays signed, for those whom it is handed on to
    ) -> None:
        self.name = name
        self._settings = settings
        self._book = book
        self._greeting = Heartbeat(epoch, ((0, 0), (0, 0)), kind="client")
        self.first_seq = first_seq
        self.last_seq = first_seq - 1  # of the last publication
        self.broker: str | None = None
        self.shares = False  # it is a member of groups, and misses what their homes miss
        self._sent_tables: dict[Table, SentTable] = {}
        self._agreed: tuple[tuple[int, int], ...] | None = None  # what the broker has, if that is what we last sent
        self._wants_version = 0  # of our subscriptions as sent to the broker, when we last began to want more
        self._apart = Apart(epoch, settings.heartbeat_us, settings.lease_us)
        self._wanted: dict[Table, dict[str, str]] = {table: {} for table in TABLES}  # by the application's id
        self._index = new_index()
        self.seen = Seen(settings.dedup_window, settings.dedup_sources)
        self._due_us = epoch + int(settings.heartbeat_us * rng.random())
        self._recovers = recovers
        self._followed: dict[str, None] = {}  # conditions on control messages of other clients
        self._signer = signer
        self._verifier = verifier
        self._keeps_proofs = keeps_proofs
        self._event_bytes = _EVENT_BYTES + (0 if signer is None else HASH_BYTES)
        self._batches_max = batches
        self._batches = False  # events leave in batches for now: the link loses nothing
        # Published and not sent yet, event by event; they leave with the next `Wake`.
        self._times_us: list[int] = []
        self._bodies: list[bytes] = []
        self._payloads: dict[int, bytes] = {}  # of those that have one, by their place
        self._batch_bytes = 0
        self._batch_record: bytes | None = None

    def next_due_us(self) -> int | None:
        broker_us = None if self.broker is None else self._due_us
        return self._times_us[0] if self._times_us else broker_us

    def has_settled(self, now_us: int) -> bool:
        return True

    @property
    def has_announced(self) -> bool:
        return True

    @property
    def unacknowledged(self) -> int:
        return 0

    @property
    def sent_and_confirmed(self) -> tuple[int, int]:
        return 0, 0

    @property
    def has_sent_enough(self) -> bool:
        return False

    @property
    def is_full(self) -> bool:
        return False

    @property
    def handed_over(self) -> tuple[int, int]:
        return 0, 0

    def missing(self) -> list[tuple[str, int, int]]:
        return []

    def held(self, id_: str | None = None) -> int:
        return 0

    def gauges(self) -> Gauges:
        return {"sources remembered": (len(self.seen), self._settings.dedup_sources)}

    @property
    def counts(self) -> Mapping[str, int]:
        return {}

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        return {}

    @property
    def is_known(self) -> bool:
        """Whether the broker has confirmed all our subscriptions: what it leaves out of a batch is not for us."""
        sent = self._sent_tables.get("subscriptions")
        return sent is not None and sent.confirmed >= self._wants_version

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if len(messages) == 1 and type(messages[0]) is Deliver:
            return self._on_publication(messages[0].publication, messages[0].via, now_us)
        effects: list[Effect] = []
        for message in messages:
            if type(message) is Deliver:
                effects += self._on_publication(message.publication, message.via, now_us)
            elif type(message) is Batch:
                effects += self._on_batch(message, now_us)
            else:
                effects += self._on_control(message, now_us)
        return effects

    def beat(self, now_us: int) -> tuple[str, Heartbeat] | None:
        if self._times_us or self.broker is None or now_us < self._due_us or not self._apart.is_over():
            return None
        self._due_us = max(self._due_us + self._settings.heartbeat_us, now_us + 1)
        return self.broker, self._greeting

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        return heartbeat.heard == self._agreed and self._apart.hears_again(now_us)

    def passes_on(self, sender: str, message: Message, now_us: int) -> None:
        return None

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:  # nearly always
            return self.receive(given.sender, (given.message,), now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        match given:
            case PublishCall():
                return self.publish(given.attributes, given.payload, given.lifetime_us, now_us)
            case LinkUp(neighbour=broker):
                self._batches = given.reliable and self._batches_max > 0
                return self._attach(broker, now_us)
            case LinkDown(neighbour=broker):
                return self._detach() if broker == self.broker else []
            case Absence():
                return [*self._apart.on_absence(given, now_us)]
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
        left = self._detach() if self.broker not in (None, broker) else []
        self.broker = broker
        self._due_us = now_us + self._settings.heartbeat_us
        self._agreed = None
        effects: list[Effect] = [*self._apart.on_broker(broker, now_us), Send(broker, self._greeting)]
        for table in TABLES:
            self._sent_tables[table] = SentTable(table, now_us)
            effects += [Send(broker, each) for each in self._sent_tables[table].change(self._rows(table), (), now_us)]
        self._wants_version = self._sent_tables["subscriptions"].version
        return left + effects

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects = self._send_batch()
        if self.broker is not None and now_us >= self._due_us:
            self._due_us = max(self._due_us + self._settings.heartbeat_us, now_us + 1)
            effects += [Send(self.broker, self._greeting), *self._apart.on_heartbeat(now_us)]
        return effects

    def _detach(self) -> list[Effect]:
        left = self._send_batch()
        broker, self.broker, self._batches = self.broker, None, False
        self._sent_tables.clear()
        self._agreed = None
        return left if broker is None else [*left, Send(broker, Detach())]

    def _on_control(self, message: Message, now_us: int) -> list[Effect]:
        if type(message) is Heartbeat:
            return self._on_summary(message, now_us)
        match message:
            case TableRefused():
                return self._on_refused(message, now_us)
            case Outage():
                return [*self._apart.on_outage(message, now_us)] if self.shares or self._wanted["subscriptions"] else []
            case Reachable():
                self._apart.on_reachable(message.names)
                return []
            case _:
                return [Incident("unexpected_message", self.broker or "")]

    def _on_summary(self, summary: Heartbeat, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for table, (version, digest) in zip(self._sent_tables.values(), summary.heard, strict=False):
            snapshots = table.on_heard(version, digest, now_us, self._settings.heartbeat_us // 2)
            effects += [Send(self.broker, each) for each in snapshots if self.broker]
        self._apart.on_summary(summary, now_us)
        sent = self._sent_tables.get("subscriptions")
        if sent is None or known_everywhere(sent, summary) < self._wants_version:
            return effects
        if len(summary.heard) == len(TABLES):  # else it says something else of others each time
            have = zip(self._sent_tables.values(), summary.heard, strict=True)
            self._agreed = summary.heard if all(table.digest == digest for table, (_, digest) in have) else None
        return [*effects, *self._apart.on_known(now_us)]

    def _on_refused(self, answer: TableRefused, now_us: int) -> list[Effect]:
        """What follows from it is lost for as long as it lasts; reported once until the table is smaller."""
        sent = self._sent_tables.get(answer.table)
        if sent is None or sent.refused:
            return []
        sent.refused = True
        return [Incident("conditions_refused", self.broker or ""), Lost("", 0, 0, answer.reason, now_us)]

    # Publishing ----------------------------------------------------------------------------------

    def publish(
        self,
        attributes: Mapping[str, AttributeValue],
        payload: bytes,
        lifetime_us: int | None,
        now_us: int,
        encoded: bytes | None = None,
        at_once: bool = False,
        record: bytes | None = None,  # what it lists of those before it, for recovery
    ) -> list[Effect]:
        if self._batches and encoded is not None and lifetime_us is None and not record:
            if at_once and record is None and not self._times_us:
                self.last_seq += 1
                return [self._alone(self.last_seq, now_us, encoded, payload)]
            size = len(encoded) + len(payload) + self._event_bytes
            effects: list[Effect] = []
            if self._batch_bytes + size > _BATCH_BYTES_MAX or len(self._times_us) >= self._batches_max:
                effects = self._send_batch()
            if payload:
                self._payloads[len(self._times_us)] = payload
            self.last_seq += 1
            self._times_us.append(now_us)
            self._bodies.append(encoded)
            self._batch_bytes += size
            self._batch_record = record
            return effects
        effects = self._send_batch()
        seq = self.last_seq = self.last_seq + 1
        publication = Publication(self.name, seq, now_us, lifetime_us, attributes, payload, record)  # type: ignore[arg-type]
        effects.append(Published(publication))
        if self.broker is None:
            return [*effects, Incident("published_while_detached", self.name)]
        if self._signer is not None:
            (publication,) = self._signer.signed([publication])
        elif encoded is not None:  # it is not encoded a second time
            publication = Publication(self.name, seq, now_us, lifetime_us, Raw(encoded), payload, record)  # type: ignore[arg-type]
        return [*effects, Send(self.broker, Publish(publication))]

    def publish_many(
        self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes], now_us: int
    ) -> list[Effect]:
        count = len(encoded)
        size = sum(map(len, encoded)) + count * self._event_bytes
        if not self._batches or size > _BATCH_BYTES_MAX or count > self._batches_max:
            each = zip(events, encoded, strict=True)
            return [one for event, body in each for one in self.publish(event, b"", None, now_us, body)]
        effects: list[Effect] = []
        if self._batch_bytes + size > _BATCH_BYTES_MAX or len(self._times_us) + count > self._batches_max:
            effects = self._send_batch()
        self.last_seq += count
        self._times_us += repeat(now_us, count)
        self._bodies += encoded
        self._batch_bytes += size
        self._batch_record = None
        return effects

    def _send_batch(self) -> list[Effect]:
        """What was published since the last one, in one message."""
        if not self._times_us:
            return []
        times_us, self._times_us = self._times_us, []
        bodies, self._bodies = self._bodies, []
        payloads, self._payloads = self._payloads, {}
        self._batch_bytes = 0
        last, record = self.last_seq, self._batch_record
        if len(times_us) == 1 and record is None:  # it is through sooner than as a batch
            return [self._alone(last, times_us[0], bodies[0], payloads.get(0, b""))]
        first = last - len(times_us) + 1
        proof = b"" if self._signer is None else self._signer.together(first, times_us, bodies, payloads)
        some = tuple([payloads.get(at, b"") for at in range(len(bodies))]) if payloads else ()
        stated = (0, 0) if record is None else (1, 0)
        events = tuple(range(first, last + 1)), self.name, tuple(times_us), joined(bodies), some
        assert self.broker is not None
        return [Send(self.broker, Batch(*events, 0, *stated, proof))]  # type: ignore[arg-type]

    def _alone(self, seq: int, time_us: int, encoded: bytes, payload: bytes) -> Send:
        assert self.broker is not None
        if self._signer is not None:
            encoded = self._signer.body(seq, time_us, encoded, payload)
        publication = Publication(self.name, seq, time_us, None, Raw(encoded), payload)  # type: ignore[arg-type]
        return Send(self.broker, Publish(publication))

    # Receiving -----------------------------------------------------------------------------------

    def _on_publication(self, publication: Publication, via: Via, now_us: int) -> list[Effect]:
        if publication.seq == CONTROL_SEQ:
            return []  # we want everything, and so got what others use for recovery
        if self._verifier is not None:
            opened = self._verifier.opened(publication)
            if opened is None:
                return self._refuse([refused(publication.source, publication.seq)])
            publication = opened
        if publication.lifetime_us is not None and publication.expired(now_us):
            return [Incident("expired", source=publication.source, first=publication.seq)]
        wanted = self._index.match(publication.attributes)
        if not wanted:
            return [Incident("not_subscribed", source=publication.source)]
        if not self.seen.first_time(publication.source, publication.seq):
            return [Incident("duplicate", source=publication.source)]
        return [Delivered(publication, tuple(wanted), via)]

    def notes_expired(self, publication: Publication) -> bool:
        """Whether an event that came too late was for us, and is the first copy of it to come; later ones count as
        duplicates, and nobody needs to look for it.
        """
        wanted = bool(self._index.match(publication.attributes))
        return wanted and self.seen.first_time(publication.source, publication.seq)

    def _on_batch(self, batch: Batch, now_us: int) -> list[Effect]:
        if not batch.seqs:
            return []
        if CONTROL_SEQ in batch.seqs:
            return [one for each in batch.publications() for one in self._on_publication(each, "original", now_us)]
        incidents: list[Effect] = []
        if self._verifier is not None:
            batch, unverified = self._verifier.opened_batch(batch)
            incidents = self._refuse(unverified)
            if not batch.seqs:
                return incidents
        elif batch.proof and not self._keeps_proofs:
            batch = replace(batch, proof=b"")
        publications, wanted, seqs = batch.publications(), self._index.match_each(batch.attributes), batch.seqs
        if not all(wanted):
            incidents.append(Incident("not_subscribed", source=batch.source, count=wanted.count([])))
            publications, wanted = list(compress(publications, wanted)), [each for each in wanted if each]
            if not publications:
                return incidents
            seqs = tuple([each.seq for each in publications])
        new = self.seen.first_times(batch.source, seqs)
        if not all(new):
            incidents.append(Incident("duplicate", source=batch.source, count=new.count(False)))
            publications, wanted = list(compress(publications, new)), list(compress(wanted, new))
        return [DeliveredBatch(publications, wanted), *incidents] if publications else incidents

    def _refuse(self, incidents: Sequence[Incident]) -> list[Effect]:
        """Events whose proof is none: who does not recover has lost them."""
        lost = [] if self._recovers else [Lost(each.source, each.first, each.first, each.reason) for each in incidents]
        return [*incidents, *lost]

    def opened(self, publication: Publication) -> Publication | None:
        return publication if self._verifier is None else self._verifier.opened(publication)

    def may_be_signed(self, source: str) -> bool:
        """Whether there is a key of a source that a proof could be checked with."""
        return self._verifier is not None and self._verifier.knows(source)

    # Control messages ----------------------------------------------------------------------------

    def signed(self, publications: list[Publication]) -> list[Publication]:
        return publications if self._signer is None else self._signer.signed(publications)

    def send_control(self, attributes: dict[str, AttributeValue], payload: bytes, now_us: int) -> list[Effect]:
        if self.broker is None:
            return []
        publication = Publication(self.name, CONTROL_SEQ, now_us, None, attributes, payload)
        return [Send(self.broker, Publish(publication))]

    def follow(self, condition: str, now_us: int) -> list[Effect]:
        text = str(self._book.subscription(condition))
        first = not (self._recovers or self._followed)
        self._followed[text] = None
        effects = self._change("advertisements", [CONTROL_ADVERTISEMENT], [], now_us) if first else []
        return effects + self._change("subscriptions", [text], [], now_us)

    def unfollow(self, condition: str, now_us: int) -> list[Effect]:
        text = str(self._book.subscription(condition))
        if text not in self._followed:
            return []
        del self._followed[text]
        return self._change("subscriptions", [], [text], now_us)

    # Subscriptions and advertisements ------------------------------------------------------------

    def _want(self, table: Table, id_: str, condition: str, now_us: int) -> list[Effect]:
        wanted = self._wanted[table]
        if id_ in wanted:
            raise MisuseError(f"{self.name} has a {table[:-1]} {id_!r} already")
        subscription = self._book.subscription(condition)
        wanted[id_] = str(subscription)
        if table == "subscriptions":
            self._index.add(id_, subscription.filters)
        effects = self._change(table, [self._as_sent(table, wanted[id_])], [], now_us)
        if table == "subscriptions" and table in self._sent_tables:
            self._wants_version = self._sent_tables[table].version
        return effects

    def _unwant(self, table: Table, id_: str, now_us: int) -> list[Effect]:
        wanted = self._wanted[table]
        if id_ not in wanted:
            raise MisuseError(f"{self.name} has no {table[:-1]} {id_!r}")
        condition = wanted.pop(id_)
        if table == "subscriptions":
            self._index.remove(id_, self._book.subscription(condition).filters)
        dropped = [] if condition in wanted.values() else [self._as_sent(table, condition)]
        return self._change(table, [], dropped, now_us)

    def _as_sent(self, table: Table, condition: str) -> str:
        """A condition as the broker gets it: who recovers follows control messages apart from what it wants."""
        if not self._recovers or table != "subscriptions":
            return condition
        return leaves_out_control(self._book.subscription(condition))

    def _rows(self, table: Table) -> list[str]:
        """All conditions of a table, as the broker gets them."""
        rows = [self._as_sent(table, condition) for condition in self._wanted[table].values()]
        if table == "subscriptions":
            return [*rows, *self._followed]
        return [*rows, CONTROL_ADVERTISEMENT] if self._recovers or self._followed else rows

    def _change(self, table: Table, add: list[str], drop: list[str], now_us: int) -> list[Effect]:
        self._agreed = None
        sent = self._sent_tables.get(table)
        changes = sent.change(add, drop, now_us) if sent is not None else []
        return [Send(self.broker, each) for each in changes if self.broker is not None]

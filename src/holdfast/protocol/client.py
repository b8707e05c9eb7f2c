"""A client: publishes, subscribes, and hands each publication to the application at most once.

It keeps two tables with its broker, what it wants and what it will publish, and matches what arrives against its own
subscriptions again: so a broker whose table is out of date cannot deliver what was not asked for. What it does about
losses and order, if anything, is its `Assurance`; to the broker, that is publications and subscriptions like others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from random import Random

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.messages import (
    TABLES,
    Batch,
    Deliver,
    Detach,
    Heartbeat,
    Message,
    Outage,
    Publication,
    Publish,
    Scalar,
    Snapshot,
    Table,
    TableRefused,
    Via,
)
from holdfast.protocol.assurance import Assurance, Outcome
from holdfast.protocol.conditions import ConditionBook, EventIndex
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
from holdfast.protocol.recovery.control import CONTROL_ADVERTISEMENT, CONTROL_SEQ, leaves_out_control
from holdfast.protocol.recovery.says import Follow, Recovered, Say, State, Unfollow, Unrecoverable
from holdfast.protocol.seen import Seen
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings
from holdfast.protocol.tables import SentTable


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
        guarantees: Guarantees = BEST_EFFORT,
    ) -> None:
        self.name = name
        self._settings = settings
        self._book = book
        self._epoch = epoch
        self._first_seq = first_seq
        self.last_seq = first_seq - 1  # the number of the last publication
        self._broker: str | None = None
        self._told: dict[Table, SentTable] = {}
        self._wants_version = 0  # of our subscriptions as told to the broker, when we last began to want more
        self._states = False  # whether we state what we have published, which only a link that loses nothing may carry
        self._stated = 0  # up to here our broker has been sent all that we have published, or will have no more of it
        self._wanted: dict[Table, dict[str, str]] = {table: {} for table in TABLES}  # by the application's id
        self._index = new_index()
        self._seen = Seen(settings.dedup_window, settings.dedup_sources)
        self._due_us = epoch + int(settings.heartbeat_us * rng.random())
        self._since: dict[str, int] = {}  # when each subscription began
        self._followed: dict[str, None] = {}  # conditions on what other clients say about recovery
        self._assurance: Assurance | None = None
        if guarantees != BEST_EFFORT:
            dice = Random(f"{rng.getrandbits(64)}/recovery")
            self._assurance = Assurance(name, epoch, guarantees, self._seen, first_seq, dice)
            self._fulfil(self._assurance.start(), epoch)

    def next_due_us(self) -> int | None:
        beat_us = None if self._broker is None else self._due_us
        if self._assurance is None:
            return beat_us
        due_us = self._assurance.next_due_us(self._broker is not None)
        return min((each for each in (beat_us, due_us) if each is not None), default=None)

    @property
    def settled(self) -> bool:
        """Whether it neither looks for anything nor has anything to tell that others may look for."""
        return self._assurance is None or self._assurance.settled

    def has_settled(self, now_us: int) -> bool:
        return self.settled

    @property
    def has_told(self) -> bool:
        """Whether those who may have lost something of what it published know enough to ask for it, or did."""
        return self._assurance is None or self._assurance.has_told

    def missing(self) -> list[tuple[str, int, int]]:
        """Publishers, and numbers of theirs of which events for us are missing, or may be."""
        return [] if self._assurance is None else self._assurance.missing()

    def held(self, id_: str) -> int:
        """Events that are held back from this subscription, for the sake of order."""
        return 0 if self._assurance is None else self._assurance.held(id_)

    def gauges(self) -> Gauges:
        own = {"sources remembered": (len(self._seen), self._settings.dedup_sources)}
        return own if self._assurance is None else {**own, **self._assurance.gauges()}

    @property
    def counts(self) -> dict[str, int]:
        """What it has done to recover losses."""
        return {} if self._assurance is None else self._assurance.counts

    @property
    def answered_us(self) -> Iterable[int]:
        """How long its last requests took to be answered."""
        return () if self._assurance is None else self._assurance.answered_us

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        """What `Received` with each of these would do, in one go."""
        effects: list[Effect] = []
        for message in messages:
            if type(message) is Deliver:
                effects += self._on_publication(message.publication, message.via, now_us)
            elif type(message) is Batch:
                effects += self._on_batch(message, now_us)
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
                return self._on_wake(now_us)
            case LinkUp(neighbour=broker):
                self._states = given.reliable and self._assurance is not None
                if self._assurance is not None:
                    self._assurance.on_link(given.reliable)
                return self._attach(broker, now_us)
            case LinkDown(neighbour=broker):
                return self._detach() if broker == self._broker else []
            case Absence():
                lost = Lost("", 0, 0, given.reason, given.since_us, given.until_us, given.events)
                return [
                    lost,
                    *([] if self._assurance is None else self._fulfil(self._assurance.on_absence(now_us), now_us)),
                ]
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
            self._told[table] = SentTable(table, now_us)
            effects += [Send(broker, each) for each in self._told[table].change(self._to_tell(table), (), now_us)]
        self._wants_version = self._told["subscriptions"].version
        if self.last_seq >= self._first_seq:
            self._stated = self.last_seq  # what the earlier broker did not take, this one does not know of
        return left + effects

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._broker is not None and now_us >= self._due_us:
            self._due_us = max(self._due_us + self._settings.heartbeat_us, now_us + 1)
            effects = self._beat()
        if self._assurance is not None:
            effects += self._fulfil(self._assurance.on_timer(now_us, self._broker is not None), now_us)
            effects += self._fulfil(self._assurance.reconcile(None, now_us), now_us)
        return effects

    def _detach(self) -> list[Effect]:
        broker, self._broker = self._broker, None
        self._told.clear()
        return [] if broker is None else [Send(broker, Detach())]

    def _beat(self) -> list[Effect]:
        if self._broker is None:
            return []
        return [Send(self._broker, Heartbeat(self._epoch, ((0, 0), (0, 0)), kind="client"))]

    def _on_control(self, message: Message, now_us: int) -> list[Effect]:
        match message:
            case Heartbeat(heard=heard):
                wholes: list[Snapshot] = []
                for table, (version, digest) in zip(TABLES, heard, strict=False):
                    told = self._told.get(table)
                    if told is not None:
                        wholes += told.on_heard(version, digest, now_us, self._settings.heartbeat_us // 2)
                return [Send(self._broker, whole) for whole in wholes if self._broker]
            case TableRefused():
                return self._on_refused(message, now_us)
            case Outage() if self._since:
                return self._on_outage(message, now_us)
            case Outage():
                return []  # we subscribe to nothing
            case _:
                return [Incident("unexpected_message", self._broker or "")]

    def _on_outage(self, outage: Outage, now_us: int) -> list[Effect]:
        """Those whom we follow can be asked; others may have published something for us."""
        reason = f"the link between {outage.one} and {outage.other} was down"
        until_us = now_us + self._settings.heartbeat_us  # then brokers everywhere know our subscriptions again
        return self.handle(Absence(now_us - outage.ago_us, until_us, reason), now_us)

    def _on_refused(self, refused: TableRefused, now_us: int) -> list[Effect]:
        """What follows from it is lost for as long as it lasts; said once until the table is smaller."""
        told = self._told.get(refused.table)
        if told is None or told.refused:
            return []
        told.refused = True
        return [Incident("conditions_refused", self._broker or ""), Lost("", 0, 0, refused.reason, now_us)]

    # Events --------------------------------------------------------------------------------------

    def _publish(self, call: PublishCall, now_us: int) -> list[Effect]:
        seq = self.last_seq = self.last_seq + 1
        record = self._assurance.record_for(seq, now_us) if self._assurance is not None else None
        publication = Publication(self.name, seq, now_us, call.lifetime_us, call.attributes, call.payload, record)
        if self._assurance is not None:
            self._assurance.on_published(publication, now_us)
        if self._broker is None:
            return [Published(publication), Incident("published_while_detached", self.name)]
        effects: list[Effect] = [Published(publication), Send(self._broker, Publish(publication))]
        if self._states and not record:  # or whoever keeps the order would wait for the next statement
            effects.append(Send(self._broker, self._statement()))
        return effects

    @property
    def sends_batches(self) -> bool:
        """Whether publications can travel in batches: not when each has to tell of those before it."""
        return self._assurance is None or not self._assurance.carries_records

    def number(self, attributes: Mapping[str, Scalar], payload: bytes, now_us: int) -> tuple[int, int]:
        """Publish an event that leaves in a batch: its number, and since which number the batch states all, or 0.

        The short way of many events in a row; the driver has them encoded and puts them together.
        """
        seq = self.last_seq = self.last_seq + 1
        if self._assurance is None:
            return seq, 0
        publication = Publication(self.name, seq, now_us, None, dict(attributes), payload, b"")
        self._assurance.on_published(publication, now_us)
        since, self._stated = self._stated + 1, seq
        return seq, since

    def _statement(self) -> Batch:
        """All that we have published was sent before this."""
        since, self._stated = min(self._stated + 1, self.last_seq), self.last_seq
        return Batch((), self.name, (), (), (), 0, since, self.last_seq)

    def _on_publication(
        self, publication: Publication, via: Via, now_us: int, wanted: list[str] | None = None
    ) -> list[Effect]:
        if publication.seq == CONTROL_SEQ:
            return self._on_control_publication(publication, now_us)
        if publication.lifetime_us is not None and publication.expired(now_us):
            return [Incident("expired", source=publication.source, first=publication.seq)]
        if wanted is None:
            wanted = self._index.match(publication.attributes)
        if not wanted:
            return [Incident("not_subscribed", source=publication.source)]
        if not self._seen.first_time(publication.source, publication.seq):
            return [Incident("duplicate", source=publication.source)]
        if self._assurance is None:
            return [Delivered(publication, tuple(wanted), via)]
        try:
            effects = self._fulfil(self._assurance.on_event(publication, tuple(wanted), via, now_us), now_us)
            return effects + self._fulfil(self._assurance.reconcile(publication.source, now_us), now_us)
        except PeerError:
            return [Delivered(publication, tuple(wanted), via), Incident("bad_record", source=publication.source)]

    def _on_batch(self, batch: Batch, now_us: int) -> list[Effect]:
        publications, wanted = batch.publications(), self._index.match_each(batch.attributes) if batch.seqs else []
        if CONTROL_SEQ in batch.seqs:
            each = zip(publications, wanted, strict=True)
            return [one for event, ids in each for one in self._on_publication(event, "original", now_us, ids)]
        effects: list[Effect] = []
        if not all(wanted):
            effects.append(Incident("not_subscribed", source=batch.source, count=wanted.count([])))
            publications, wanted = list(compress(publications, wanted)), [each for each in wanted if each]
        if publications:
            whole = len(publications) == len(batch.seqs)
            seqs = batch.seqs if whole else tuple([each.seq for each in publications])
            new = self._seen.first_times(batch.source, seqs)
            if not all(new):
                effects.append(Incident("duplicate", source=batch.source, count=new.count(False)))
                publications, wanted = list(compress(publications, new)), list(compress(wanted, new))
        if self._assurance is None:
            return [DeliveredBatch(publications, wanted), *effects] if publications else effects
        told = self._told.get("subscriptions")
        trusted = told is not None and told.confirmed >= self._wants_version
        effects += self._fulfil(self._assurance.on_batch(batch, publications, wanted, trusted, now_us), now_us)
        return effects + self._fulfil(self._assurance.reconcile(batch.source, now_us), now_us)

    # Losses and order ----------------------------------------------------------------------------

    def _on_control_publication(self, publication: Publication, now_us: int) -> list[Effect]:
        if self._assurance is None:
            return []  # we want everything, and so got what others say to each other
        try:
            effects = self._fulfil(self._assurance.on_control(publication, now_us), now_us)
            return effects + self._fulfil(self._assurance.reconcile(publication.source, now_us), now_us)
        except PeerError:
            return [Incident("bad_recovery_message", source=publication.source)]

    def _fulfil(self, outcomes: Iterable[Outcome], now_us: int) -> list[Effect]:
        assert self._assurance is not None
        effects: list[Effect] = []
        for outcome in outcomes:
            match outcome:
                case Say():
                    if self._broker is not None:
                        said = Publication(self.name, CONTROL_SEQ, now_us, None, outcome.attributes, outcome.payload)
                        effects.append(Send(self._broker, Publish(said)))
                case State():
                    if self._broker is not None and self.last_seq >= self._first_seq:
                        effects.append(Send(self._broker, self._statement()))
                case Follow():
                    condition = self._canonical(outcome.condition)
                    self._followed[condition] = None
                    effects += self._tell("subscriptions", [condition], [], now_us)
                case Unfollow():
                    condition = self._canonical(outcome.condition)
                    if self._followed.pop(condition, self) is None:
                        effects += self._tell("subscriptions", [], [condition], now_us)
                case Recovered(publication=publication):
                    effects += self._on_publication(publication, "repair", now_us)
                    self._assurance.on_answered(publication, now_us)
                case Unrecoverable():
                    effects.append(Lost(outcome.source, outcome.first, outcome.last, outcome.reason))
                    effects += self._fulfil(self._assurance.on_lost(outcome, now_us), now_us)
                case _:
                    effects.append(outcome)
        return effects

    # Subscriptions and advertisements ------------------------------------------------------------

    def _want(self, table: Table, id_: str, condition: str, now_us: int) -> list[Effect]:
        wanted = self._wanted[table]
        if id_ in wanted:
            raise MisuseError(f"{self.name} has a {table[:-1]} {id_!r} already")
        subscription = self._book.subscription(condition)
        wanted[id_] = str(subscription)
        if table == "subscriptions":
            self._index.add(id_, subscription.filters)
            self._since[id_] = now_us
        effects = self._reconsider(now_us) if table == "subscriptions" else []
        told = self._tell(table, [self._told_text(table, wanted[id_])], [], now_us)
        if table == "subscriptions" and table in self._told:
            self._wants_version = self._told[table].version
        return told + effects

    def _unwant(self, table: Table, id_: str, now_us: int) -> list[Effect]:
        wanted = self._wanted[table]
        if id_ not in wanted:
            raise MisuseError(f"{self.name} has no {table[:-1]} {id_!r}")
        condition = wanted.pop(id_)
        if table == "subscriptions":
            self._index.remove(id_, self._book.subscription(condition).filters)
            del self._since[id_]
        effects = self._reconsider(now_us) if table == "subscriptions" else []
        dropped = [] if condition in wanted.values() else [self._told_text(table, condition)]
        return self._tell(table, [], dropped, now_us) + effects

    def _canonical(self, condition: str) -> str:
        """The text by which brokers know a condition, however it is spelt."""
        return str(self._book.subscription(condition))

    def _reconsider(self, now_us: int) -> list[Effect]:
        """Which losses matter has changed with the subscriptions."""
        if self._assurance is None:
            return []
        wanted = self._wanted["subscriptions"]
        since = [(self._since[id_], self._book.subscription(text)) for id_, text in wanted.items()]
        return self._fulfil(self._assurance.on_subscriptions(since), now_us)

    def _told_text(self, table: Table, condition: str) -> str:
        """How the broker hears of a condition."""
        if self._assurance is None or table != "subscriptions":
            return condition
        return leaves_out_control(self._book.subscription(condition))

    def _to_tell(self, table: Table) -> list[str]:
        """The whole of a table."""
        told = [self._told_text(table, condition) for condition in self._wanted[table].values()]
        if self._assurance is None:
            return told
        return [*told, *(self._followed if table == "subscriptions" else [CONTROL_ADVERTISEMENT])]

    def _tell(self, table: Table, add: list[str], drop: list[str], now_us: int) -> list[Effect]:
        told = self._told.get(table)
        changes = told.change(add, drop, now_us) if told is not None else []
        return [Send(self._broker, each) for each in changes if self._broker is not None]

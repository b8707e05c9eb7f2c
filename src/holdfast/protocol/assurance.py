"""What a client does beyond best effort: it recovers what was lost, and keeps the events of each source in order.

Recovery finds out what is missing; order holds back what came after it: strictly, until recovery says that nothing
earlier is missing, or (`fifo` without recovery) by a latch, as long as it is likely to come. Either works without the
other: order alone looks at the records that publications carry and asks for nothing, recovery alone delivers as things
come.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

from holdfast.model.messages import Batch, Publication, Via
from holdfast.protocol.effects import Delivered, DeliveredBatch, Gauges, Incident
from holdfast.protocol.order.latch import Dropped, Latch
from holdfast.protocol.order.latch import Effect as OrderEffect
from holdfast.protocol.order.strict import StrictQueue
from holdfast.protocol.recovery.recovery import Recovery
from holdfast.protocol.recovery.says import Unrecoverable, Wish
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.recovery import SrmRecovery
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.seen import Seen
from holdfast.protocol.settings import Guarantees

RECORD = 10  # publications that each one tells of where order is kept: the record of papers 000 and 002

Outcome = Wish | Delivered | DeliveredBatch | Incident


class Assurance:
    def __init__(self, name: str, epoch: int, guarantees: Guarantees, seen: Seen, first_seq: int, rng: Random) -> None:
        self._name = name
        order = guarantees.order
        settings = guarantees.recovery or RecoverySettings(asks=False)
        if order is not None and not settings.record:
            settings = replace(settings, record=RECORD)
        self._recovery: Recovery | SrmRecovery
        if isinstance(settings, SrmSettings):
            self._recovery = SrmRecovery(name, epoch, settings, seen, first_seq, rng)
        else:
            self._recovery = Recovery(name, epoch, settings, seen, first_seq, settings.record if order else 0)
        self._strict: StrictQueue[Delivered] | None = None
        self._latch: Latch[Delivered] | None = None
        asks = isinstance(guarantees.recovery, RecoverySettings) and guarantees.recovery.asks
        # What is lost comes back where it is asked for, and fifo has to wait for it as strict does: a client loses too
        # little of a source to learn how long repairs take, and half of the losses are of numbers not yet told of.
        if order is not None and (order.mode == "strict" or asks):
            self._strict = StrictQueue(order)
        elif order is not None:
            self._latch = Latch(order)
        self.start = self._recovery.start
        self.on_link = self._recovery.on_link
        self.on_subscriptions = self._recovery.on_subscriptions
        self.record_for = self._recovery.record_for
        self.on_published = self._recovery.on_published
        self.on_control = self._recovery.on_control
        self.on_answered = self._recovery.on_answered
        self.on_absence = self._recovery.on_absence

    def next_due_us(self, attached: bool) -> int | None:
        due = [
            self._recovery.next_due_us() if attached else None,
            None if self._latch is None else self._latch.next_due_us(),
            None if self._strict is None else self._strict.next_due_us(),
        ]
        return min((each for each in due if each is not None), default=None)

    @property
    def settled(self) -> bool:
        held = (self._latch is not None and self._latch.next_due_us() is not None) or (
            self._strict is not None and bool(self._strict.blocked)
        )
        return self._recovery.settled and not held

    @property
    def has_told(self) -> bool:
        return self._recovery.has_told

    @property
    def carries_records(self) -> bool:
        """Whether publications tell of those before them."""
        return self._recovery.carries_records

    def missing(self) -> list[tuple[str, int, int]]:
        """Publishers, and ranges of their numbers that are looked for."""
        return self._recovery.missing()

    def held(self, id_: str) -> int:
        """Events that are held back from this subscription."""
        order = self._latch or self._strict
        return 0 if order is None else sum(id_ in each.subscriptions for each in order.held())

    def gauges(self) -> Gauges:
        order = self._latch or self._strict
        return {**self._recovery.gauges(), **({} if order is None else order.gauges())}

    @property
    def counts(self) -> dict[str, int]:
        """What the recovery of paper 000 has counted; that of ours is seen in the traffic."""
        return self._recovery.counts if isinstance(self._recovery, SrmRecovery) else {}

    @property
    def answered_us(self) -> Iterable[int]:
        """How long requests of paper 000's recovery took to be answered, of the last ones."""
        return self._recovery.answered_us if isinstance(self._recovery, SrmRecovery) else ()

    def on_timer(self, now_us: int, attached: bool) -> list[Outcome]:
        """While the client has no broker, nothing is asked for."""
        outcomes: list[Outcome] = [*self._recovery.on_timer(now_us)] if attached else []
        if self._latch is not None:
            outcomes += _released(self._latch.on_timer(now_us))
        return outcomes

    def on_event(
        self, publication: Publication, subscriptions: tuple[str, ...], via: Via, now_us: int
    ) -> list[Outcome]:
        """An event for these subscriptions, for the first time; raises only PeerError, for a record that is none."""
        delivered = Delivered(publication, subscriptions, via)
        if publication.source == self._name:  # nobody tells us what we have published ourselves
            return [delivered]
        wishes = self._recovery.on_event(publication, now_us, via)
        return [*self._in_order(delivered, now_us), *wishes]

    def on_batch(
        self,
        batch: Batch,
        publications: list[Publication],
        subscriptions: Sequence[Sequence[str]],
        trusted: bool,
        now_us: int,
    ) -> list[Outcome]:
        """Those events of a batch that are for us, each for the first time and in order; and what the batch states."""
        if batch.source == self._name:
            return [DeliveredBatch(publications, subscriptions)] if publications else []
        seqs = [each.seq for each in publications]
        wishes: list[Outcome] = [*self._recovery.on_batch(batch, seqs, trusted, now_us)]
        if not publications:
            return wishes
        if self._passes(batch.source, seqs, publications, now_us):
            return [DeliveredBatch(publications, subscriptions), *wishes]
        for publication, wanted in zip(publications, subscriptions, strict=True):
            wishes += self._in_order(Delivered(publication, tuple(wanted), "original"), now_us)
        return wishes

    def _passes(self, source: str, seqs: list[int], publications: list[Publication], now_us: int) -> bool:
        """Whether events that came in a row are in order as they are, and nothing earlier is missing."""
        if self._strict is None and self._latch is None:
            return True
        if any([after <= before for before, after in pairwise(seqs)]):
            return False
        departure_us = publications[-1].time_us
        if self._strict is not None:
            return self._strict.passes(source, seqs, departure_us, self._recovery.frontier(source))
        assert self._latch is not None
        return not self._recovery.has_noticed(source) and self._latch.passes(source, seqs, departure_us, now_us)

    def _in_order(self, delivered: Delivered, now_us: int) -> list[Outcome]:
        publication = delivered.publication
        source, seq, departure_us = publication.source, publication.seq, publication.time_us
        if self._strict is not None:
            frontier = self._recovery.frontier(source)
            return _released(self._strict.on_message(source, seq, departure_us, now_us, frontier, delivered))
        if self._latch is not None:
            gaps, is_repair = self._recovery.noticed(source, seq), delivered.via != "original"
            return _released(self._latch.on_message(source, seq, departure_us, now_us, gaps, delivered, is_repair))
        return [delivered]

    def reconcile(self, source: str | None, now_us: int) -> list[Outcome]:
        """To be called when wishes are fulfilled: what is missing may have become less, or clearer.

        Without a source, of all of them.
        """
        if self._strict is not None:
            return self._advance(self._strict, source, now_us)
        outcomes: list[Outcome] = []
        if self._latch is not None:
            for each in self._latch.blocked if source is None else [source]:
                cleared = self._recovery.cleared(each)
                top = self._latch.highest_held(each) if cleared else None
                if top is not None:  # first wait for what is missing in the range, then let go of what stood for it
                    self._latch.await_also(each, self._recovery.noticed(each, top), now_us)
                    for seq in cleared:
                        outcomes += _released(self._latch.on_lost(each, seq, now_us))
        return outcomes

    def _advance(self, strict: StrictQueue[Delivered], source: str | None, now_us: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for each in strict.blocked if source is None else [source] if strict.holds(source) else []:
            outcomes += _released(strict.on_frontier(each, self._recovery.frontier(each), now_us))
        if source is None or strict.too_many:
            for each, seq, reason in strict.overdue(now_us):
                outcomes += self._recovery.give_up_below(each, seq, reason)
                outcomes += _released(strict.on_frontier(each, self._recovery.frontier(each), now_us))
        return outcomes

    def on_lost(self, lost: Unrecoverable, now_us: int) -> list[Outcome]:
        if self._latch is None:
            return []
        outcomes: list[Outcome] = []
        for seq in self._latch.awaited_within(lost.source, lost.first, lost.last):
            outcomes += _released(self._latch.on_lost(lost.source, seq, now_us))
        return outcomes


def _released(effects: list[OrderEffect[Delivered]]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for effect in effects:
        delivered = effect.item
        if isinstance(effect, Dropped):
            outcomes.append(
                Incident("out_of_order", source=delivered.publication.source, first=delivered.publication.seq)
            )
        elif effect.held_us:
            held = Delivered(delivered.publication, delivered.subscriptions, delivered.via, effect.held_us)
            outcomes.append(held)
        else:
            outcomes.append(delivered)
    return outcomes

"""What a client does beyond best effort: it recovers what was lost, and keeps the events of each source in order.

Recovery finds out what is missing; the latch holds back what came after it. Either works without the other: order alone
looks at the records that publications carry and asks for nothing, recovery alone delivers as things come.
"""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from holdfast.model.messages import Publication, Via
from holdfast.protocol.effects import Delivered, Gauges, Incident
from holdfast.protocol.order.latch import Dropped, Latch
from holdfast.protocol.order.latch import Effect as LatchEffect
from holdfast.protocol.recovery.recovery import Recovery
from holdfast.protocol.recovery.says import Unrecoverable, Wish
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.recovery import SrmRecovery
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.seen import Seen
from holdfast.protocol.settings import Guarantees

RECORD = 10  # publications that each one tells of where order is kept: the record of papers 000 and 002

Outcome = Wish | Delivered | Incident


class Assurance:
    def __init__(self, name: str, epoch: int, guarantees: Guarantees, seen: Seen, first_seq: int, rng: Random) -> None:
        self._name = name
        in_order = guarantees.order is not None
        settings = guarantees.recovery or RecoverySettings(asks=False)
        if in_order and not settings.record:
            settings = replace(settings, record=RECORD)
        self._recovery: Recovery | SrmRecovery
        if isinstance(settings, SrmSettings):
            self._recovery = SrmRecovery(name, epoch, settings, seen, first_seq, rng)
        else:
            self._recovery = Recovery(name, epoch, settings, seen, first_seq, settings.record if in_order else 0)
        self._latch: Latch[Delivered] | None = None if guarantees.order is None else Latch(guarantees.order)
        self._strict = guarantees.order is not None and guarantees.order.mode == "strict"
        self.start = self._recovery.start
        self.on_subscriptions = self._recovery.on_subscriptions
        self.record_for = self._recovery.record_for
        self.on_published = self._recovery.on_published
        self.on_control = self._recovery.on_control
        self.on_answered = self._recovery.on_answered

    def next_due_us(self, attached: bool) -> int | None:
        due = [
            self._recovery.next_due_us() if attached else None,
            None if self._latch is None else self._latch.next_due_us(),
        ]
        return min((each for each in due if each is not None), default=None)

    @property
    def settled(self) -> bool:
        held = self._latch is not None and self._latch.next_due_us() is not None
        return self._recovery.settled and not held

    @property
    def has_told(self) -> bool:
        return self._recovery.has_told

    def gauges(self) -> Gauges:
        return {**self._recovery.gauges(), **({} if self._latch is None else self._latch.gauges())}

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
        if self._latch is None:
            return [delivered, *wishes]
        source, seq = publication.source, publication.seq
        top = self._latch.highest_held(source) if self._strict else None
        if top is not None and top > seq:  # this may be the one that stood for a range nobody has told us of
            self._latch.await_also(source, self._recovery.gaps(source, top, True), now_us)
        gaps = self._recovery.gaps(source, seq, self._strict)
        effects = self._latch.on_message(source, seq, publication.time_us, now_us, gaps, delivered, via != "original")
        return [*_released(effects), *wishes]

    def reconcile(self, source: str | None, now_us: int) -> list[Outcome]:
        """To be called when wishes are fulfilled: where order is strict, an event waits for whatever may be missing
        before it, of which a digest may have told us more, and for nothing else. Without a source, of all of them.
        """
        if self._latch is None or not self._strict:
            return []
        outcomes: list[Outcome] = []
        for each in self._latch.blocked if source is None else [source]:
            top = self._latch.highest_held(each)
            if top is not None:
                outcomes += _released(self._latch.await_only(each, self._recovery.gaps(each, top, True), now_us))
        return outcomes

    def on_lost(self, lost: Unrecoverable, now_us: int) -> list[Outcome]:
        if self._latch is None:
            return []
        outcomes: list[Outcome] = []
        for seq in self._latch.awaited_within(lost.source, lost.first, lost.last):
            outcomes += _released(self._latch.on_lost(lost.source, seq, now_us))
        return outcomes


def _released(effects: list[LatchEffect[Delivered]]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for effect in effects:
        delivered = effect.item
        if isinstance(effect, Dropped):
            outcomes.append(Incident("too late for its order", delivered.publication.id_text))
        elif effect.held_us:
            held = Delivered(delivered.publication, delivered.subscriptions, delivered.via, effect.held_us)
            outcomes.append(held)
        else:
            outcomes.append(delivered)
    return outcomes

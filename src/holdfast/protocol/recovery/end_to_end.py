"""End-to-end recovery of one client: a publisher's half, a subscriber's half, and what arrives for either."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.language.subscription import Subscription
from holdfast.model.errors import PeerError
from holdfast.model.messages import Batch, Publication, Via
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Gauges, Incident
from holdfast.protocol.node import sooner
from holdfast.protocol.recovery.blinding import Blinding
from holdfast.protocol.recovery.control import (
    Digest,
    Greeting,
    Repair,
    Request,
    address_condition,
    decode_untrusted,
    from_open_untrusted,
    is_open_repair,
)
from holdfast.protocol.recovery.publisher import Publisher
from holdfast.protocol.recovery.recovery import ControlChannel, Gaps
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.subscriber import Subscriber


class EndToEndRecovery:
    def __init__(
        self,
        name: str,
        epoch: int,
        settings: RecoverySettings,
        seen: Seen,
        first_seq: int,
        record_wanted: int,
        channel: ControlChannel,
        blinding: Blinding | None = None,
    ) -> None:
        self._name = name
        self._channel = channel
        self._publisher = Publisher(name, epoch, settings, first_seq, channel, blinding)
        self._subscriber = Subscriber(settings, seen, record_wanted, channel)
        self._blinding = blinding

    def start(self, now_us: int) -> list[Effect]:
        return self._channel.follow(address_condition(self._name), now_us)

    def next_due_us(self) -> int | None:
        publishing_us, due_us = self._publisher.next_due_us(), self._subscriber.next_due_us()
        return due_us if publishing_us is None else sooner(publishing_us, due_us)

    def on_timer(self, now_us: int) -> list[Effect]:
        return self._publisher.on_timer(now_us) + self._subscriber.on_timer(now_us)

    def on_link(self, reliable: bool) -> None:
        self._publisher.on_link(reliable)

    def on_subscriptions(self, subscriptions: Iterable[tuple[int, Subscription]], now_us: int) -> list[Effect]:
        self._subscriber.on_subscriptions(subscriptions)
        return []

    def on_absence(self, now_us: int) -> list[Effect]:
        return self._subscriber.on_absence(now_us)

    # Publishing ----------------------------------------------------------------------------------

    def record_for(self, seq: int, now_us: int) -> bytes:
        return self._publisher.record_for(seq, now_us)

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._publisher.on_published(publication, now_us)

    def announces(self, now_us: int) -> bool:
        return self._publisher.announces(now_us)

    # Receiving -----------------------------------------------------------------------------------

    def on_event(self, publication: Publication, via: Via, now_us: int) -> list[Effect]:
        effects = self._subscriber.on_event(publication, via, now_us)
        if publication.record:
            try:
                if self._blinding is not None:
                    about = publication.source, publication.seq, publication.time_us
                    record = self._blinding.opened_untrusted(publication.record, *about)
                    publication = replace(publication, record=record)
                effects += self._subscriber.on_record(publication, now_us)
            except PeerError:
                effects.append(Incident("bad_record", source=publication.source))
        return effects

    def on_batch(self, batch: Batch, seqs: Sequence[int], trusted: bool, now_us: int) -> list[Effect]:
        return self._subscriber.on_batch(batch, seqs, trusted, now_us)

    def on_control(self, publication: Publication, now_us: int) -> tuple[list[Effect], list[Publication]]:
        if publication.source == self._name:
            return [], []
        if is_open_repair(publication.attributes):
            repaired = from_open_untrusted(publication)
            if repaired.source != publication.source:
                raise PeerError(
                    "a repair of another publisher's event"
                )  # only the publisher itself keeps its events here
            return [], [repaired]
        control = decode_untrusted(publication)
        if isinstance(control, Digest):
            if self._blinding is not None:
                about = publication.source, control.epoch, control.last_seq, control.oldest, publication.time_us
                control = replace(control, record=self._blinding.opened_untrusted(control.record, *about))
            return self._subscriber.on_digest(publication, control, now_us), []
        if isinstance(control, Request):
            return self._publisher.on_request(publication.source, control, now_us), []
        if isinstance(control, Greeting):
            self._publisher.on_greeting(publication.source, control, now_us)
            return [], []
        if isinstance(control, Repair):
            return self._subscriber.on_repair(publication, control)
        return [], []  # of the paper's scheme

    def on_refused(self, source: str, seq: int, reason: str, now_us: int) -> list[Effect]:
        return self._subscriber.on_refused(source, seq, reason, now_us)

    def on_repaired(self, publication: Publication, now_us: int) -> None:
        self._subscriber.on_repaired(publication, now_us)

    # Answering for itself ------------------------------------------------------------------------

    @property
    def gaps(self) -> Gaps:
        return self._subscriber

    @property
    def settled(self) -> bool:
        return self._publisher.settled and self._subscriber.settled

    @property
    def has_announced(self) -> bool:
        return self._publisher.has_announced

    def missing(self) -> list[tuple[str, int, int]]:
        return self._subscriber.missing()

    def gauges(self) -> Gauges:
        return {**self._publisher.gauges(), **self._subscriber.gauges()}

    @property
    def counts(self) -> Mapping[str, int]:
        return {}  # what it does is seen in the traffic

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]:
        return {}

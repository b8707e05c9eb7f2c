"""End-to-end recovery of one client: a publisher's half, a subscriber's half, and what arrives for either."""

from holdfast.model.errors import PeerError
from holdfast.model.messages import Publication, Via
from holdfast.protocol.effects import Gauges
from holdfast.protocol.recovery.control import (
    Digest,
    Greeting,
    Request,
    address_condition,
    decode_untrusted,
    from_open_untrusted,
    is_open_repair,
)
from holdfast.protocol.recovery.publisher import Publisher
from holdfast.protocol.recovery.says import Follow, Recovered, Wish
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.subscriber import Subscriber
from holdfast.protocol.seen import Seen


class Recovery:
    def __init__(
        self, name: str, epoch: int, settings: RecoverySettings, seen: Seen, first_seq: int, record_wanted: int
    ) -> None:
        self._name = name
        self._publisher = Publisher(name, epoch, settings, first_seq)
        self._subscriber = Subscriber(settings, seen, record_wanted)
        self.on_batch = self._subscriber.on_batch
        self.on_link = self._publisher.on_link
        self.noticed = self._subscriber.noticed
        self.has_noticed = self._subscriber.has_noticed
        self.cleared = self._subscriber.cleared
        self.frontier = self._subscriber.frontier
        self.on_absence = self._subscriber.on_absence
        self.missing = self._subscriber.missing
        self.give_up_below = self._subscriber.give_up_below
        self.on_answered = self._subscriber.on_answered
        self.on_subscriptions = self._subscriber.on_subscriptions
        self.record_for = self._publisher.record_for
        self.on_published = self._publisher.on_published

    def start(self) -> list[Wish]:
        return [Follow(address_condition(self._name))]

    def next_due_us(self) -> int | None:
        due = self._publisher.next_due_us(), self._subscriber.next_due_us()
        return min((each for each in due if each is not None), default=None)

    @property
    def settled(self) -> bool:
        return self._publisher.settled and self._subscriber.settled

    @property
    def has_told(self) -> bool:
        return self._publisher.has_told

    @property
    def carries_records(self) -> bool:
        return self._publisher.record > 0

    def gauges(self) -> Gauges:
        return {**self._publisher.gauges(), **self._subscriber.gauges()}

    def on_timer(self, now_us: int) -> list[Wish]:
        return self._publisher.on_timer(now_us) + self._subscriber.on_timer(now_us)

    def on_event(self, publication: Publication, now_us: int, via: Via) -> list[Wish]:
        """An event for us, for the first time; raises only PeerError, for a record that is none."""
        wishes = self._subscriber.on_event(publication, now_us, via)
        if publication.record:
            wishes += self._subscriber.on_record(publication, now_us)
        return wishes

    def on_control(self, publication: Publication, now_us: int) -> list[Wish]:
        """Raises only PeerError, for what is not acceptable."""
        if publication.source == self._name:
            return []
        if is_open_repair(publication.attributes):
            repaired = from_open_untrusted(publication)
            if repaired.source != publication.source:
                raise PeerError("a repair in another's name")  # only the publisher itself keeps its events here
            return [Recovered(repaired)]
        control = decode_untrusted(publication)
        if isinstance(control, Digest):
            return self._subscriber.on_digest(publication, control, now_us)
        if isinstance(control, Request):
            return self._publisher.on_request(publication.source, control, now_us)
        if isinstance(control, Greeting):
            self._publisher.on_greeting(publication.source, control, now_us)
            return []
        return self._subscriber.on_repair(publication.source, control)

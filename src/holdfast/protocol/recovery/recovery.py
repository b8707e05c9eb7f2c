"""What a client that recovers losses asks of its recovery: ours (`end_to_end`) and that of paper 000 (`srm`) are two.

Facts go in, ordinary effects come out. Control messages and the subscriptions to them go through a `ControlChannel`,
which the client is. What it knows of gaps is for whoever keeps the order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.language.subscription import Subscription
from holdfast.model.messages import AttributeValue, Batch, Publication, Via
from holdfast.protocol.effects import Effect, Gauges


class ControlChannel(Protocol):
    """How control messages travel: as publications and subscriptions of the client."""

    def send_control(self, attributes: dict[str, AttributeValue], payload: bytes, now_us: int) -> list[Effect]:
        """Publish a control message; nothing while there is no broker."""
        ...

    def follow(self, condition: str, now_us: int) -> list[Effect]:
        """Subscribe to control messages that meet this condition."""
        ...

    def unfollow(self, condition: str, now_us: int) -> list[Effect]: ...

    def signed(self, publications: list[Publication]) -> list[Publication]:
        """Our own publications with a proof that they are, where we sign."""
        ...


class Gaps(Protocol):
    """What recovery knows of missing publications, for whoever keeps the order."""

    def frontier(self, source: str) -> int:
        """The lowest sequence number that is missing or may be: all below it have come, are not for us, or are lost."""
        ...

    def noticed(self, source: str, below: int) -> list[tuple[int, int]]:
        """Numbers and departures of publications below this one that are missing."""
        ...

    def has_noticed(self, source: str) -> bool: ...

    def cleared(self, source: str) -> list[int]:
        """Numbers that were noticed in place of a range, and turned out not to be missing."""
        ...

    def give_up_below(self, source: str, seq: int, reason: str) -> list[Effect]:
        """Nothing below this number is looked for any longer."""
        ...


class Recovery(Protocol):
    def start(self, now_us: int) -> list[Effect]: ...

    def next_due_us(self) -> int | None: ...

    def on_timer(self, now_us: int) -> list[Effect]: ...

    def on_link(self, reliable: bool) -> None:
        """There is a link to a broker, which loses nothing or may."""
        ...

    def on_subscriptions(self, subscriptions: Iterable[tuple[int, Subscription]], now_us: int) -> list[Effect]:
        """The client's subscriptions have changed: each condition with the time since when."""
        ...

    def on_absence(self, now_us: int) -> list[Effect]:
        """The client was away, and may have missed anything."""
        ...

    # Publishing

    def record_for(self, seq: int, now_us: int) -> bytes:
        """What the publication with this number, which is about to be made, lists of those before it."""
        ...

    def on_published(self, publication: Publication, now_us: int) -> None: ...

    def announces(self, now_us: int) -> bool:
        """Whether the next `on_timer` tells subscribers how far we have published."""
        ...

    # Receiving

    def on_event(self, publication: Publication, via: Via, now_us: int) -> list[Effect]:
        """An event for us, for the first time."""
        ...

    def on_batch(self, batch: Batch, seqs: Sequence[int], trusted: bool, now_us: int) -> list[Effect]:
        """A batch over a link that loses nothing, and those of its events that are for us, for the first time.

        `trusted`: the broker knew all our subscriptions when it made up the batch, so its statement is about them all.
        """
        ...

    def on_control(self, publication: Publication, now_us: int) -> tuple[list[Effect], list[Publication]]:
        """A control message: what follows, and the publications that it brings back. Raises only PeerError."""
        ...

    def on_refused(self, source: str, seq: int, reason: str, now_us: int) -> list[Effect]:
        """Something came in the place of an event, and is not its publisher's."""
        ...

    def on_repaired(self, publication: Publication, now_us: int) -> None:
        """A publication was brought back and handled; even if it is nothing for us, it is no longer missing."""
        ...

    # Answering for itself

    @property
    def gaps(self) -> Gaps: ...

    @property
    def settled(self) -> bool:
        """Whether it looks for nothing, and has nothing to announce that others may look for."""
        ...

    @property
    def has_announced(self) -> bool: ...

    def missing(self) -> list[tuple[str, int, int]]: ...

    def gauges(self) -> Gauges: ...

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def phases_us(self) -> Mapping[str, Iterable[int]]: ...

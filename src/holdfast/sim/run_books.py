"""What applications of a simulated run do, into its ledger and its trace."""

from typing import TYPE_CHECKING

from holdfast.books.ledger import Ledger
from holdfast.books.sharing import Sharing
from holdfast.model.messages import Publication, Publish
from holdfast.protocol.effects import Delivered, GroupDone
from holdfast.wire.codec import size_of

if TYPE_CHECKING:
    from holdfast.books.trace import TraceWriter


class RunBooks:
    def __init__(self, ledger: Ledger, trace: "TraceWriter | None") -> None:
        self._ledger = ledger
        self._trace = trace
        self._sharing = Sharing()
        self._since: dict[tuple[str, str], int] = {}  # live subscriptions, and since when

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._ledger.published(publication, now_us)
        if self._trace is not None:
            self._trace.publication(publication, size_of(Publish(publication)))

    def on_delivered(self, client: str, effect: Delivered, now_us: int) -> GroupDone | None:
        """What the client says if it is a member of a group, and done with the event at once."""
        publication = effect.publication
        subscriber, done = self._sharing.done(client, effect)
        self._ledger.delivered(subscriber, publication, now_us, effect.via, effect.held_us)
        if self._trace is not None:
            row = subscriber, publication.source, publication.seq, now_us, effect.via, effect.held_us
            self._trace.add("deliveries", *row)
        return done

    def on_subscribed(self, client: str, id_: str, condition: str, group: str, now_us: int) -> None:
        known = self._sharing.begin(client, id_, condition, group)
        self._ledger.subscribed(*known, condition)
        self._since[known] = now_us

    def on_unsubscribed(self, client: str, id_: str, now_us: int) -> None:
        known = self._sharing.end(client, id_)
        self._record(*known, self._ledger.unsubscribed(*known), now_us)

    def on_end(self) -> None:
        """Subscriptions that never ended."""
        for known, condition in self._ledger.live():
            self._record(*known, condition, None)

    def _record(self, subscriber: str, id_: str, condition: str, until_us: int | None) -> None:
        since_us = self._since.pop((subscriber, id_))
        if self._trace is not None:
            self._trace.add("subscriptions", subscriber, id_, condition, since_us, until_us)

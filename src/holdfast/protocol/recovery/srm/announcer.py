"""The publisher: every publication tells of those before it; a quiet publisher may repeat its record by itself."""

from holdfast.model.messages import Publication
from holdfast.protocol.effects import Effect
from holdfast.protocol.records import RecordWriter
from holdfast.protocol.recovery.cache import Cache
from holdfast.protocol.recovery.control import Digest, encoded, labels
from holdfast.protocol.recovery.recovery import ControlChannel
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.settings import SrmSettings


class Announcer:
    def __init__(
        self,
        name: str,
        epoch: int,
        settings: SrmSettings,
        first_seq: int,
        counts: c.Counts,
        channel: ControlChannel,
    ) -> None:
        self._name = name
        self._channel = channel
        self._epoch = epoch
        self._settings = settings
        self._counts = counts
        self._writer = RecordWriter(settings.records, first_seq)
        self._known_book = self._writer.book_id  # to all from the beginning
        self._book_since = first_seq  # the first number that was listed under the present book
        self._book_id = self._known_book
        self._pause_us = settings.soft_state_us
        self._due_us: int | None = None
        self.published = Cache(settings.published_max, settings.published_bytes_max, settings.published_us)

    def next_due_us(self) -> int | None:
        return self._due_us

    @property
    def settled(self) -> bool:
        """The end has been announced several times, where it is announced at all."""
        often_us = min(8 * self._settings.soft_state_us, self._settings.soft_state_us_max)
        return self._due_us is None or self._pause_us >= often_us

    def record_for(self, seq: int, now_us: int) -> bytes:
        return self._writer.record(self._settings.record, seq, now_us, with_book=self._carries_book(seq))

    def _carries_book(self, seq: int) -> bool:
        """A learned book is sent at once to those who are there, and every so often to those who come later."""
        if self._writer.book_id == self._known_book:
            return False
        every = self._settings.book_every
        return seq - self._book_since < every or seq % every == 0

    def on_published(self, publication: Publication, now_us: int) -> None:
        self._writer.add(publication.attributes, publication.time_us)
        if self._book_id != self._writer.book_id:
            self._book_id, self._book_since = self._writer.book_id, publication.seq + 1
        if self._settings.publisher_cache:
            self.published.add(publication, now_us)
        if self._settings.soft_state_us:
            self._pause_us = self._settings.soft_state_us
            self._due_us = now_us + self._pause_us

    def on_timer(self, now_us: int) -> list[Effect]:
        if self._due_us is None or now_us < self._due_us:
            return []
        self._pause_us = min(2 * self._pause_us, self._settings.soft_state_us_max)
        self._due_us = now_us + self._pause_us
        last = self._writer.last_seq
        record = self._writer.record(max(1, self._settings.record), last, now_us, with_book=self._carries_book(0))
        digest = Digest(self._epoch, last, last - len(self._writer) + 1, record)
        self._counts[c.SOFT_STATE] += 1
        return self._channel.send_control(labels(digest, (), self._name), encoded(digest), now_us)

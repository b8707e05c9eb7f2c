"""Our tables on their way to a replica, and behind them the word that this was all.

The tables are told as to any neighbour, but they go through the replica's queue: control messages before events, each
in its turn. When everything is told, the replica gets a digest of it, and again when the digest has changed or nothing
has come of it.
"""

from collections.abc import Mapping

from holdfast.model.messages import Delta, Snapshot, Table
from holdfast.model.replication_messages import CopyProtocol, LastAdvertisement, LastSubscription, ReplicaRequest
from holdfast.protocol.effects import Effect, Send
from holdfast.protocol.replication.out_queue import OutQueue
from holdfast.protocol.replication.replica import Copies
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.tables import SentTable


class TableCopy:
    def __init__(self, settings: ReplicationSettings, now_us: int) -> None:
        self.out = OutQueue(settings.pace_us, settings.pending_max)
        self.epoch = 0
        self.copying: CopyProtocol = settings.copying
        self._retry_us = settings.retry_us
        self._sent_us = now_us
        self._advertisements: int | None = None  # digests that the replica was told last
        self._subscriptions: tuple[int, int] | None = None

    def begin(self, request: ReplicaRequest, now_us: int) -> None:
        self.epoch, self.copying, self._sent_us = request.epoch, request.copying, now_us
        self._advertisements = self._subscriptions = None

    @property
    def due_us(self) -> int:
        return self._sent_us + self._retry_us

    def on_timer(self, now_us: int) -> None:
        if now_us >= self.due_us:
            self._subscriptions = None  # say it again
            self._sent_us = now_us

    def all_again(self, replica: str, tables: Mapping[Table, SentTable]) -> list[Effect]:
        self._advertisements = self._subscriptions = None
        return [Send(replica, part) for each in tables.values() for part in each.snapshots()]

    def queue(
        self,
        replica: str,
        effects: list[Effect],
        copies: Copies,
        tables: Mapping[Table, SentTable],
        is_all: tuple[bool, bool],
        now_us: int,
    ) -> list[Effect]:
        """Tables for the replica go through its queue, and behind them the word that this was all, once it is."""
        left: list[Effect] = []
        for effect in effects:
            if type(effect) is Send and effect.to == replica and isinstance(effect.message, Delta | Snapshot):
                self.out.put_control(effect.message)
            else:
                left.append(effect)
        if is_all[0] and self._advertisements != copies.sent_advertisements:
            self._advertisements = copies.sent_advertisements
            self.out.put_control(LastAdvertisement(self.epoch, copies.sent_advertisements))
        answers = copies.heard_advertisements, tables["subscriptions"].digest
        if is_all[1] and self._subscriptions != answers:
            self._subscriptions, self._sent_us = answers, now_us
            self.out.put_control(LastSubscription(self.epoch, *answers))
        return left

"""Answering for others: SRM's repair timers.

Who holds what is asked for waits a random while, longer the farther away the one who asks is, and publishes it again
unless another's repair comes first. For some time after a repair, requests for the same are taken for answered.
(The paper prints the distance to the publisher for this timer too; SRM's is that to the one who asks.)
"""

from random import Random

import msgspec

from holdfast.model.messages import Publication
from holdfast.protocol.effects import Effect
from holdfast.protocol.recovery.recovery import ControlChannel
from holdfast.protocol.recovery.srm import counts as c
from holdfast.protocol.recovery.srm.messages import addressed, repair_attributes
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.source import SrmSource
from holdfast.protocol.recovery.srm.timers import Alarms

_Id = tuple[str, int]


class _Pending(msgspec.Struct, gc=False):
    known: SrmSource
    publication: Publication | None  # None: we had it and keep it no longer
    distance_us: int  # to the one who asks
    asked_us: int
    to: dict[str, None]  # all who have asked


class _Held(msgspec.Struct, gc=False):
    until_us: int
    distance_us: int
    sent_us: int | None  # by us,
    to: dict[str, None] | None = None  # and to whom, unless to all
    is_twice: bool = False


class Repairer:
    def __init__(
        self, name: str, settings: SrmSettings, rng: Random, counts: c.Counts, channel: ControlChannel
    ) -> None:
        self._name = name
        self._channel = channel
        self._settings = settings
        self._rng = rng
        self._counts = counts
        self._pending: dict[_Id, _Pending] = {}
        self._alarms: Alarms[_Id] = Alarms()
        self._held: dict[_Id, _Held] = {}

    def next_due_us(self) -> int | None:
        return self._alarms.next_due_us()

    def __len__(self) -> int:
        return len(self._pending)

    def is_answered(self, source: str, seq: int, requester: str, now_us: int) -> bool:
        """Whether a repair for this one is about to be sent, or was a moment ago."""
        pending = self._pending.get((source, seq))
        if pending is not None:
            pending.to[requester] = None
            return True
        held = self._held.get((source, seq))
        return held is not None and now_us < held.until_us and (held.to is None or requester in held.to)

    def on_request(
        self,
        known: SrmSource,
        seq: int,
        publication: Publication | None,
        requester: str,
        distance_us: int,
        now_us: int,
    ) -> None:
        """Somebody at this distance asks for what we hold, or held: then we find out whether another does."""
        if len(self._pending) >= self._settings.repairs_max:
            self._counts[c.NOT_REPAIRED] += 1
            return
        if publication is not None:
            known.repairs.on_new_loss(known.group.size(now_us), known.group.log_size())
        key = known.name, seq
        self._pending[key] = _Pending(known, publication, distance_us, now_us, {requester: None})
        self._alarms.set(key, now_us + known.repairs.draw_us(self._rng, distance_us))

    def on_timer(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for key in self._alarms.pop_due(now_us):
            pending = self._pending.pop(key)
            pending.known.ring.on_provider(now_us)
            if pending.publication is not None:
                effects += self._repair(key, pending, pending.publication, now_us)
        return effects

    def _repair(self, key: _Id, pending: _Pending, publication: Publication, now_us: int) -> list[Effect]:
        distance_us, window = pending.distance_us, pending.known.repairs
        to = pending.to if self._settings.repairs == "addressed" else None
        attributes, payload = repair_attributes(publication, distance_us), publication.payload
        if to is not None:
            attributes, payload = addressed(publication, tuple(to), distance_us)
        if attributes is None:
            self._counts[c.NOT_REPAIRED] += 1
            return []
        window.on_first(now_us - pending.asked_us, distance_us)
        window.on_sent()
        self._hold(key, _Held(self._held_until_us(distance_us, now_us), distance_us, now_us, to))
        self._counts[c.REPAIRED] += 1
        return self._channel.send_control(attributes, payload, now_us)

    def on_repair(
        self, known: SrmSource, seq: int, others_us: int, own_us: int, sender: str, sent_us: int, now_us: int
    ) -> None:
        """A repair is heard, from one at another distance from who asked; `own_us` is ours from the publisher."""
        key = known.name, seq
        pending = self._pending.pop(key, None)
        if pending is not None:
            self._alarms.cancel(key)
            own_us = pending.distance_us
            if pending.publication is not None:
                known.repairs.on_first(now_us - pending.asked_us, own_us)
        held = self._held.get(key)
        if held is None or now_us >= held.until_us:
            self._hold(key, _Held(self._held_until_us(own_us, now_us), own_us, None))
        elif held.sent_us is not None:
            self._on_duplicate(known, held, others_us, (sent_us, sender) < (held.sent_us, self._name))

    def _on_duplicate(self, known: SrmSource, held: _Held, others_us: int, was_first: bool) -> None:
        known.repairs.on_duplicate(others_us, held.distance_us)
        if not known.repairs.is_closest:
            known.ring.on_nearer_provider()
        if was_first and not held.is_twice:
            held.is_twice = True
            self._counts[c.REPAIRED_TWICE] += 1

    def _held_until_us(self, distance_us: int, now_us: int) -> int:
        return now_us + int(self._settings.hold_down * distance_us)

    def _hold(self, key: _Id, held: _Held) -> None:
        """The order is that of the beginnings; those at the front that are over make room."""
        self._held.pop(key, None)
        self._held[key] = held
        if len(self._held) > self._settings.remembered_max:
            del self._held[next(iter(self._held))]

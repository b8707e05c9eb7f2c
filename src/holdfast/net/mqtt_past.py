"""What a broker has kept of the subscriptions of one MQTT client, read before anything new is delivered to it.

While it is read, what is new waits in the client's queue; and what comes both ways is delivered once. A broker says
where its history ends when it has all that it has passed on so far, and it is asked when it knows the subscription: so
nothing is missing in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.model.errors import TransportError
from holdfast.model.messages import Publication
from holdfast.mqtt.events import topic_of
from holdfast.mqtt.replays import Round
from holdfast.mqtt.session import MqttSubscription
from holdfast.net.replaying import PastRefusedError
from holdfast.net.seat import Seat
from holdfast.net.subscription import QUEUE_MAX

_AHEAD_MAX = 1_000  # events that are read and not delivered before reading waits: one part of the history
_REPEATS_MAX = 2 * QUEUE_MAX  # that are recognised: what is new and waits is in the queue, or stored by the broker

Replay = tuple[str, Publication, MqttSubscription, Round]  # an event, behind its topic; what it is replayed for


class PastOf:
    def __init__(self, now_us: Callable[[], int], template: str) -> None:
        self._now_us = now_us
        self._template = template  # of topics
        self._asked: deque[tuple[MqttSubscription, Round]] = deque()
        self._found: deque[Replay] = deque()
        self._room = asyncio.Event()
        self._seen: dict[tuple[str, str, int], None] = {}  # what was read last: filter, source and number
        self._reading: asyncio.Task[None] | None = None
        self._is_known = asyncio.Event()  # where the history ends, of the first that was asked for
        self._may_go = True  # what was read to the client, which has its answer

    @property
    def is_reading(self) -> bool:
        """Whether something of the past may still come: what is new has to wait."""
        return self._reading is not None or bool(self._found or self._asked)

    async def ask(self, wanted: list[MqttSubscription], seat: Seat, stir: Callable[[], None]) -> None:
        """Begin to read; until it is known where the history ends. `stir` is called when there is something to deliver.

        So what is published after the client has its answer is new, and not one of the last events before; but not for
        what has to wait until an earlier one is read.
        """
        self._asked += [(each, Round(each.asked.filter, self._now_us(), lasts=False)) for each in wanted]
        if wanted and self._reading is None:
            self._may_go = False
            self._is_known.clear()
            self._reading = asyncio.create_task(self._read(seat, stir))
            await self._is_known.wait()

    def let_go(self) -> None:
        """The client has its answer."""
        self._may_go = True

    def stop(self) -> None:
        """The client is gone, and asks again when it comes back."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._asked.clear()
        self._found.clear()
        self._seen.clear()
        self._is_known.set()
        self._may_go = True

    def take(self) -> list[Replay]:
        """What was read meanwhile."""
        if not self._may_go:
            return []
        found, self._found = list(self._found), deque()
        self._room.set()
        return found

    def without_repeats(self, event: Publication, wanted: list[MqttSubscription]) -> list[MqttSubscription]:
        """Of the subscriptions that a new event is for, those that have not had it from the past."""
        if not self._seen:
            return wanted
        return [each for each in wanted if (each.asked.filter, event.source, event.seq) not in self._seen]

    async def _read(self, seat: Seat, stir: Callable[[], None]) -> None:
        while self._asked:
            wanted, round_ = self._asked[0]
            try:
                await self._read_one(seat, wanted, round_, stir)
            except PastRefusedError as problem:
                seat.on_loss(f"no history for {wanted.asked.filter}: {problem}")
            except TransportError:
                pass  # the broker stops
            self._asked.popleft()
        self._reading = None
        self._is_known.set()
        stir()

    async def _read_one(self, seat: Seat, wanted: MqttSubscription, round_: Round, stir: Callable[[], None]) -> None:
        assert wanted.past is not None
        since_us = self._now_us() - wanted.past.since_us if wanted.past.ago else wanted.past.since_us
        async for part in seat.past(wanted.condition, wanted.past.last, max(0, since_us)):
            for each in part:
                event = each.publication
                topic = topic_of(event, self._template)
                if wanted.wants(topic, event.source == seat.name):
                    self._found.append((topic, event, wanted, round_))
                    self._seen[wanted.asked.filter, event.source, event.seq] = None
                    if len(self._seen) > _REPEATS_MAX:
                        del self._seen[next(iter(self._seen))]
            self._is_known.set()
            stir()
            while len(self._found) >= _AHEAD_MAX:
                self._room.clear()
                await self._room.wait()

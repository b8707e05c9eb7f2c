"""A keeper: stores the events that a condition describes, and answers for publishers that do not answer any more.

It is a client with recovery, so it gets what the bus loses while publishers live. It hears requests to others, on a
connection of its own. Where a publisher stays silent, the keeper sends who asked the events themselves, as that
publisher, and states the numbers of which it has all: so a subscriber knows that nothing else is missing among them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from time import time_ns

from holdfast.carriers.answered import answered
from holdfast.carriers.bus_format import Control, control_payload, events_payload, read_untrusted
from holdfast.carriers.carrier import BusCarrier, BusMessage
from holdfast.carriers.client import BusClient
from holdfast.carriers.deputy import Deputy, Unanswered
from holdfast.carriers.lane_accounts import ranges_of
from holdfast.language.lanes import ANY, Token, exactly
from holdfast.model.errors import PeerError, TransportError
from holdfast.model.event import RESERVED
from holdfast.model.messages import Batch, Deliver, Publication
from holdfast.net.backoff import Backoff
from holdfast.net.subscription import Subscription
from holdfast.protocol.recovery.control import (
    CONTROL_SEQ,
    Digest,
    Greeting,
    Repair,
    Request,
    address_of,
    decode_untrusted,
    encoded,
    labels,
)
from holdfast.store.kept_events import KeptEvents, NotWrittenError
from holdfast.wire.codec import encode_message

_STORED_AT_ONCE = 1_000  # events in one transaction
_LOOK_S = 0.2
_TRY_AGAIN_S = 1.0  # when the disk refuses a write
_ANSWER_EVENTS = 4_096  # of one request: who asks for more asks again
_MESSAGE_BYTES = 48_000  # of one message of the bus
_CONNECT_S = 10.0  # twice what our carriers allow themselves, as for a client
_ANSWER_S = 60.0  # to a subscription: the longest of our carriers, one of 30 s for each of two answers
_CLOSE_S = 2.0  # for a connection to be taken down


class _Ears:
    """Who rides on a connection that hears requests; one that is given up is not taken for the next."""

    def __init__(self, hear: Callable[[BusMessage], None]) -> None:
        self._hear = hear
        self.down = asyncio.Event()

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        self._hear(message)
        return None

    def on_dropped(self, messages: int) -> None: ...

    def on_down(self, reason: str) -> None:
        self.down.set()


class Keeper:
    def __init__(
        self,
        client: BusClient,
        condition: str,
        store: Path,
        bytes_max: int,
        space: str,
        new_carrier: Callable[[], BusCarrier],
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._report = report
        self._condition = condition
        self._store = KeptEvents(store, bytes_max)
        root = f"{RESERVED}{space}"
        self._all, self._at = (root, "all"), (root, "at")
        self._new_carrier = new_carrier
        self._deputy = Deputy()
        self._ears = _Ears(self._on_message)
        self._carrier: BusCarrier | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.stored = self.answered = 0

    def __len__(self) -> int:
        """Events that are stored."""
        return len(self._store)

    async def start(self) -> None:
        """A TransportError when the bus is not there."""
        for source, (epoch, first, last) in self._store.sources().items():
            self._deputy.on_kept(source, epoch, first, last, self._now_us())
        await self._client.__aenter__()
        await self._connect()
        subscription = self._client.subscribe(self._condition, when_full="push-back")
        await self._client.flush()
        workers = self._keep(subscription), self._answer(), self._stay_connected()
        self._tasks = [asyncio.create_task(each) for each in workers]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close(in_haste=True)
        await self._disconnect()
        self._store.close()

    @staticmethod
    def _now_us() -> int:
        return time_ns() // 1_000

    # Keeping -------------------------------------------------------------------------------------

    async def _keep(self, subscription: Subscription) -> None:
        while deliveries := await subscription.batch(_STORED_AT_ONCE):
            publications = [each.publication for each in deliveries if each.publication.record is not None]
            await self._add(publications)
            self.stored += len(publications)
            ends: dict[str, tuple[int, int]] = {}
            for each in publications:
                first, last = ends.get(each.source, (each.seq, each.seq))
                ends[each.source] = min(first, each.seq), max(last, each.seq)
            for source, (first, last) in ends.items():
                # A digest may have come before the first event was stored, when the deputy did not know its source.
                self._deputy.on_kept(source, self._store.epoch(source), first, last, self._now_us())

    async def _add(self, publications: list[Publication]) -> None:
        """Until they are stored: while the disk is full, what comes waits in the client, and then at the bus."""
        told = False
        while True:
            try:
                await asyncio.to_thread(self._store.add, publications)
            except NotWrittenError as problem:
                if not told:
                    self._report(f"cannot store events: {problem}; retrying")
                told = True
                await asyncio.sleep(_TRY_AGAIN_S)
                continue
            if told:
                self._report("stores events again")
            return

    # Hearing -------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        ears, carrier = _Ears(self._on_message), self._new_carrier()
        requests = (Token("exact", self._at[0]), Token("exact", self._at[1]), ANY)
        try:
            await answered(carrier.connect(ears), _CONNECT_S, "the bus")
            await answered(carrier.subscribe([requests, exactly(self._all)]), _ANSWER_S, "the bus")
        except BaseException:
            await _close(carrier)
            raise
        self._ears, self._carrier = ears, carrier

    async def _stay_connected(self) -> None:
        backoff = Backoff(Random())
        while True:
            await self._ears.down.wait()  # of the last connection that came about
            await self._disconnect()
            await asyncio.sleep(backoff.delay_s())
            with suppress(TransportError):
                await self._connect()
                backoff.reset()

    async def _disconnect(self) -> None:
        carrier, self._carrier = self._carrier, None
        if carrier is not None:
            await _close(carrier)

    def _on_message(self, message: BusMessage) -> None:
        with suppress(PeerError):  # of somebody who does not speak as we do
            found = read_untrusted(message.payload)
            if isinstance(found, Control):
                self._hear(message.lane[-1], found.publication)

    def _hear(self, address: str, publication: Publication) -> None:
        control, now_us = decode_untrusted(publication), self._now_us()
        if isinstance(control, Digest):
            self._deputy.on_digest(publication.source, control, now_us)
            with suppress(NotWrittenError):  # the next digest says it again
                self._store.note_epoch(publication.source, control.epoch)
        elif isinstance(control, Repair):
            self._deputy.on_answer(publication.source, now_us)
        elif isinstance(control, Request):
            self._deputy.on_request(address, publication.source, control, now_us)
        elif isinstance(control, Greeting):
            self._deputy.on_greeting(address, publication.source, control.since_us)

    # Answering -----------------------------------------------------------------------------------

    async def _answer(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            now_us = self._now_us()
            messages = [each for asked in self._deputy.due(now_us) for each in await self._answers(asked)]
            messages += [self._announcement(*each) for each in self._deputy.to_announce(now_us)]
            if messages and self._carrier is not None:
                with suppress(TransportError):
                    await self._carrier.publish(messages)

    async def _answers(self, asked: Unanswered) -> list[BusMessage]:
        found: dict[int, Publication] = {}
        for first, last in asked.ranges:
            left = _ANSWER_EVENTS - len(found)
            events = await asyncio.to_thread(self._store.between, asked.source, first, last, left) if left else []
            found.update((each.seq, each) for each in events)
        self.answered += len(found)
        lane = (*self._at, address_of(asked.by)[1:])
        return [BusMessage(lane, payload) for payload in _payloads(asked, found)]

    def _announcement(self, source: str, digest: Digest) -> BusMessage:
        labelled = labels(digest, (), source)
        said = Publication(source, CONTROL_SEQ, self._now_us(), None, labelled, encoded(digest))
        return BusMessage(self._all, control_payload(said))


async def _close(carrier: BusCarrier) -> None:
    with suppress(TransportError):  # it may be gone already
        await answered(carrier.close(), _CLOSE_S, "the bus")


def _payloads(asked: Unanswered, found: dict[int, Publication]) -> Iterable[bytes]:
    """Events in messages that stand for themselves: each states the numbers without a gap that are in it."""
    for first, last in ranges_of(sorted(found)):
        parts: list[bytes] = []
        size, since = 0, first
        for seq in range(first, last + 1):
            if found[seq].time_us < asked.since_us:
                continue  # of before it subscribed: stated, and not sent
            part = encode_message(Deliver(found[seq], "repair"))
            if parts and size + len(part) > _MESSAGE_BYTES:
                yield _stated(asked.source, parts, since, seq - 1)
                parts, size, since = [], 0, seq
            parts.append(part)
            size += len(part)
        yield _stated(asked.source, parts, since, last)


def _stated(source: str, parts: list[bytes], since: int, upto: int) -> bytes:
    return events_payload([*parts, encode_message(Batch((), source, (), (), (), 0, since, upto))])

"""One connection of an MQTT client: reads packets, hands them to its machine, and does what that asks for.

Packets are handled one after the other, and reading waits while the broker takes no more publications or the client
reads nothing: so each end feels the other.
"""

import asyncio
from collections.abc import Callable
from time import monotonic, time
from typing import Protocol

from holdfast.model.errors import HoldfastError, InputError
from holdfast.mqtt.connection import (
    Connection,
    Done,
    Effect,
    HangUp,
    Open,
    Renew,
    Take,
    Undeliverable,
    Unwant,
    Want,
    Write,
)
from holdfast.mqtt.decoding import Framer
from holdfast.mqtt.packets import PublishPacket
from holdfast.mqtt.reasons import (
    KEEP_ALIVE_TIMEOUT,
    MAX_CONNECT_TIME,
    NOT_AUTHORIZED,
    QUOTA_EXCEEDED,
    SERVER_UNAVAILABLE,
    MqttError,
)
from holdfast.mqtt.session import MqttSubscription
from holdfast.mqtt.subscribing import SubscriptionRefused
from holdfast.net.mqtt_door import Door
from holdfast.net.mqtt_place import ClientPlace
from holdfast.net.mqtt_trust import Guest
from holdfast.net.slices import SLICES
from holdfast.net.throttle import over_budget
from holdfast.trust.budget import ConnectionBudget
from holdfast.trust.certificate import Certificate

GREETING_S = 5.0  # who has not said CONNECT by then never will
_PATIENCE = 1.5  # keep-alive times without a packet end a connection: the specification's number
_EXPIRY_S_MAX = 3_600.0  # between looks at the time of day, which may be set
_TOGETHER_MAX = 16  # small packets that are read between looks at the time and the budget: a fraction of a millisecond
_PROGRESS_BYTES = 1_000  # of an unfinished packet count as one: less in that time is no slow line, but nobody at work
_FLOOD_BYTES = 32 * 1024  # who sends as many at once has more: it gets its turn in the line of those who do
_CLOSE_S = 2.0  # that a closing connection is given to send what waits
_RELIED_ON = frozenset({Open, Want, Renew})  # by the next packet
_WAITED_FOR = frozenset({Take, Open, Want, Renew})


class ByteStream(Protocol):
    far: str
    certificate: Certificate

    async def read(self) -> bytes: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class MqttLine:
    def __init__(self, stream: ByteStream, door: Door, on_let_in: Callable[[], None]) -> None:
        self.machine = Connection(door.settings)
        self._stream = stream
        self._door = door
        self._framer = Framer(door.settings.packet_bytes_max, self.machine.check_first_untrusted)
        self._place: ClientPlace | None = None
        self.guest: Guest | None = None
        self._budget: ConnectionBudget | None = None
        self._on_let_in = on_let_in
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._read_s = self._loop.time()  # a packet; anything
        self._unheard_bytes = 0  # that have come since then, of a packet that is not complete
        self._slice_end_s = SLICES.end_s(monotonic())
        self._watch = self._loop.call_later(GREETING_S, self._check_silence)
        self._expiry: asyncio.TimerHandle | None = None  # of what the client has proved itself with
        self._over = False
        self._on_stored = self._answer_stored  # one object, by which the seat knows what is answered together
        self._written: list[bytes] = []  # and not handed to the stream yet
        self._will = True  # unless the client takes leave

    async def serve(self) -> None:
        """Until the connection ends."""
        self._door.lines[self] = None
        try:
            await self._read()
        except OSError:
            pass  # the client is gone
        except HoldfastError as problem:
            self._door.note(self._stream.far, str(problem))
        finally:
            self._over = True
            self._watch.cancel()
            if self._expiry is not None:
                self._expiry.cancel()
            self._door.lines.pop(self, None)
            self._flush()
            self._stream.close()
            if self._place is not None:
                await self._door.leave(self, self._place, self._will)

    async def _read(self) -> None:
        while not self._over:
            data = await self._stream.read()
            self._slice_end_s = SLICES.end_s(monotonic())
            if not data:
                return
            self._read_s = self._loop.time()
            self._unheard_bytes += len(data)
            if self._unheard_bytes >= _PROGRESS_BYTES:
                self._hear()
            waiting: list[Effect] = []  # what follows from the packets before: what is written down is so together
            try:
                frames = size = 0  # since the last look
                for first, body in self._framer.feed_untrusted(data):
                    if not frames:
                        self._hear()
                    frames, size = frames + 1, size + len(body)
                    found = self.machine.on_packet_untrusted(first, body)
                    waiting += found
                    pause_s: float | None = None
                    if frames == _TOGETHER_MAX or size > _FLOOD_BYTES:
                        pause_s = self._pause_s(frames, size)
                        frames = size = 0
                    if pause_s is not None or (found and type(found[0]) in _RELIED_ON):
                        effects, waiting = waiting, []
                        await self._do(effects)
                    if pause_s is not None:
                        await self._pause(pause_s)
                if frames and (rest_s := self._pause_s(frames, size)) is not None:
                    effects, waiting = waiting, []
                    await self._do(effects)
                    await self._pause(rest_s)
                await self._do(waiting)
            except MqttError as problem:
                await self._do(waiting)
                self._door.note(self._stream.far, str(problem))
                self.perform(self.machine.on_error(problem))
            await self.drained()
            if len(data) >= _FLOOD_BYTES:
                await self._let_others()

    def _hear(self) -> None:
        self._heard_s, self._unheard_bytes = self._read_s, 0

    async def _pause(self, pause_s: float) -> None:
        if pause_s:
            await asyncio.sleep(pause_s)
        await self._let_others()

    def _pause_s(self, frames: int, size: int) -> float | None:
        """How long to read nothing more, until the budget has room again or others have had their turn; None: go on."""
        wait_s = 0.0 if self._budget is None else self._budget.spend(size, self._read_s, frames=frames)
        if wait_s > 0 and self._budget is not None and self._place is not None:
            why = self._budget.why_now(self._read_s)
            if why:
                self._door.trust.report(over_budget(self._place.session.name, f"{why}: slowed"))
            return wait_s
        if monotonic() < self._slice_end_s:  # the loop's own time stands still while nobody waits
            return None
        return 0.0

    # What the machine asks for -------------------------------------------------------------------

    async def _do(self, effects: list[Effect]) -> None:
        if self._place is not None:
            await self._place.safe()
        once: list[PublishPacket] = []  # of quality 2, in a row
        at_once: list[Effect] = []  # what needs no waiting, in a row
        for effect in effects:
            if monotonic() >= self._slice_end_s:  # small packets are read faster than their events are published
                await self._let_others()
            if self._superseded():
                return
            if once and not (type(effect) is Take and effect.publish.qos == 2):
                await self._take_once(once)
                once = []
            if at_once and type(effect) in _WAITED_FOR:
                self.perform(at_once)
                at_once = []
            match effect:
                case Take():
                    if effect.publish.qos == 2:
                        once.append(effect.publish)
                    else:
                        await self._take(effect.publish)
                case Open():
                    await self._open(effect)
                case Want():
                    await self._want(effect)
                case Renew():
                    self._renew(effect.token)
                case _:
                    at_once.append(effect)
        if once:
            await self._take_once(once)
        self.perform(at_once)

    def perform(self, effects: list[Effect]) -> None:
        """What needs no waiting. What is written until the event loop turns leaves together."""
        tokens: list[int] = []
        for effect in effects:
            match effect:
                case Write():
                    if not self._over:
                        if not self._written:
                            self._loop.call_soon(self._flush)
                        self._written.append(effect.data)
                case Done():
                    tokens += effect.tokens
                case Undeliverable():
                    tokens.append(effect.token)
                    if self._place is not None:
                        self._place.lose(effect.why)
                case Unwant():
                    if self._place is not None:
                        self._place.unwant(effect.names)  # if that is forgotten, the client is sent more than it wants
                case HangUp():
                    self._end(effect)
                case _:
                    raise AssertionError(f"{effect!r} has to be waited for")
        if tokens and self._place is not None:
            self._place.on_done(tokens)

    def _flush(self) -> None:
        if self._written:
            written, self._written = self._written, []
            self._stream.write(b"".join(written))

    def _end(self, end: HangUp) -> None:
        self._over = True
        self._will = end.will
        self._flush()
        self._stream.close()
        self._loop.call_later(_CLOSE_S, self._stream.abort)  # a client that reads nothing would hold it

    async def _open(self, wish: Open) -> None:
        try:
            place, present, guest = await self._door.sit(
                self, wish, f"{self._stream.far}, MQTT", self._stream.certificate
            )
        except MqttError as problem:
            self._door.note(self._stream.far, f"refused: {problem}")
            self.perform(self.machine.refuse(problem.reason, str(problem)))
            return
        except HoldfastError as problem:
            self._door.note(self._stream.far, str(problem))
            self.perform(self.machine.refuse(SERVER_UNAVAILABLE, str(problem)))
            return
        self._place, self.guest, self._budget = place, guest, self._door.trust.budget(guest)
        self._on_let_in()
        self._arm()
        self._check_expiry()
        self.perform(self.machine.on_session(place.session, present, guest.assigned))
        place.start()

    def _renew(self, token: str) -> None:
        assert self.guest is not None
        try:
            self.guest = self._door.trust.renew(self.guest, token)
        except MqttError as problem:
            self.end(problem.reason, str(problem))
            return
        self._check_expiry()
        self.perform(self.machine.on_renewed())

    def _check_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        expires_s = None if self.guest is None else self.guest.identity.expires_s
        if expires_s is None or self._over:
            return
        left_s = expires_s - time()
        if left_s <= 0:
            self.end(MAX_CONNECT_TIME, "its token has expired")  # with a new one it may go on
        else:
            self._expiry = self._loop.call_later(min(left_s, _EXPIRY_S_MAX), self._check_expiry)

    async def _take(self, publish: PublishPacket) -> bool:
        """Publish it; whether the broker takes it."""
        place = self._place
        assert place is not None and place.seat is not None
        seat = place.seat
        try:
            event = self._door.event_of(place.session.name, publish)
            seq = await self._door.publish(seat, publish, event)
        except MqttError as problem:
            self.perform(self.machine.on_not_stored(publish, problem.reason, str(problem)))
            return False
        except InputError as problem:
            self._door.note(self._stream.far, str(problem))
            self.perform(self.machine.on_not_stored(publish, QUOTA_EXCEEDED, str(problem)))
            return False
        if publish.qos:
            seat.when_stored(seq, self._on_stored, publish)
        return True

    def _answer_stored(self, publishes: list[PublishPacket]) -> None:
        self.perform(self.machine.on_stored(publishes))

    async def _take_once(self, publishes: list[PublishPacket]) -> None:
        """The same for quality 2: the numbers under which the broker gets the events are written down before.

        Each goes alone, so that its number is known. When one is refused, the numbers of those behind it are others.
        """
        place = self._place
        assert place is not None and place.seat is not None
        known = False  # the numbers are
        for at, publish in enumerate(publishes):
            if self._superseded():
                return
            if not known:
                stream, seq = place.seat.next_handover()
                for ahead, each in enumerate(publishes[at:]):
                    place.session.note_incoming(each.packet_id, stream, seq + ahead)
                await place.safe()
                if self._superseded():
                    return
            seat = place.seat
            known = await self._take(publish)
            seat.send_now()

    async def _want(self, want: Want) -> None:
        """Subscribe, with turns for others in between: the conditions of one packet may take seconds to read."""
        place, trust = self._place, self._door.trust
        assert place is not None
        reasons: list[int] = []
        told: list[str] = []
        ready: list[MqttSubscription] = []
        for each in want.asked:
            try:
                admitted, less = trust.admitted(place.session.name, self.machine.wanted(each))
                ready.append(admitted)
                reasons.append(admitted.asked.qos)
                told += [less] if less else []
                told += [self._door.no_history] if admitted.past is not None and self._door.no_history else []
            except SubscriptionRefused as refused:
                reasons.append(refused.reason)
                told.append(refused.text)
                if refused.reason != NOT_AUTHORIZED:  # that was reported
                    self._door.note(self._stream.far, refused.text)
            if monotonic() >= self._slice_end_s:
                await self._let_others()
                if self._superseded():
                    return
                await place.want(ready, self._door.retained)
                ready = []
                await self._let_others()
                if self._superseded():
                    return
        await place.want(ready, self._door.retained)
        self.perform(self.machine.on_wanted(want.packet_id, reasons, "\n".join(told)))
        place.replay()

    async def _let_others(self) -> None:
        await SLICES.turn(self, monotonic())
        self._slice_end_s = SLICES.end_s(monotonic())

    def _superseded(self) -> bool:
        """While it waited, another connection took its session, or its right was taken away."""
        return self._place is not None and self._place.line is not self

    # What others do ------------------------------------------------------------------------------

    async def drained(self) -> None:
        self._flush()
        try:
            await self._stream.drained()
        except OSError:
            self._over = True  # the reader finds out as well

    def end(self, reason: int, why: str) -> None:
        """Take leave of the client."""
        self.perform(self.machine.end(reason, why))

    def _arm(self) -> None:
        self._watch.cancel()
        if self.machine.keep_alive_s and not self._over:
            due_s = self._heard_s + _PATIENCE * self.machine.keep_alive_s
            self._watch = self._loop.call_at(due_s, self._check_silence)

    def _check_silence(self) -> None:
        if self.machine.connect is None:
            self.end(KEEP_ALIVE_TIMEOUT, "no CONNECT in time")
        elif self._place is None:
            pass  # it waits for us: a disk may be slow
        elif self._loop.time() - self._heard_s >= _PATIENCE * self.machine.keep_alive_s:
            self.end(KEEP_ALIVE_TIMEOUT, f"nothing for {_PATIENCE:g} times its keep-alive time")
        else:
            self._arm()

"""The wire between a client and its stub broker: what the client sends leaves for the bus, what comes is handed on.

To the session it is a wire that loses nothing, which is true of it: what the bus loses shows in the numbers of events.
When the bus is gone the wire is closed, and the client dials again, as it does with any broker.

That the bus is there does not say how far behind it we are: what was on its way, in its queues and in the buffers of
libraries, is lost with the connection. So we send ourselves marks. One that has come back stands behind all that the
bus had for us when it left, and an absence begins with the last of them. One of somebody else has the same name as we.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from secrets import randbits
from time import monotonic

from holdfast.carriers.answered import answered
from holdfast.carriers.bus_format import connection_in, mark_in, mark_payload
from holdfast.carriers.carrier import BusCarrier, BusMessage, EchoingCarrier, SelectingCarrier
from holdfast.carriers.stub import LanesWanted, StubBroker
from holdfast.model.errors import TransportError
from holdfast.model.limits import FRAME_BYTES_MAX
from holdfast.model.messages import Message
from holdfast.model.warn_once import warn_once
from holdfast.net.driver import Driver
from holdfast.net.tcp import FRAME_AIM
from holdfast.net.wire import CLOSED, Accept, Receiver
from holdfast.trust.certificate import Certificate
from holdfast.trust.identity import Principal
from holdfast.wire.codec import MESSAGES
from holdfast.wire.signals import (
    LEVEL,
    Hello,
    Mark,
    Missed,
    Ping,
    Pong,
    Welcome,
    decode_signal_untrusted,
    encode_signal,
)

_OUT_BYTES_MAX = 1024 * 1024  # that wait for the bus: as many as a socket may hold; then publishing waits
_IN_BYTES_MAX = 8 * 2**20  # that wait for the client, as many as a broker keeps for one; then the bus feels it
_TOGETHER = 256  # messages handed to the carrier at a time: enough to share a round trip
_SLICE_S = 0.01  # of handling before others get their turn
_HEARTBEAT_S = 1.0
_CLOSE_S = 2.0  # for what was handed over to leave, and then for the connection to be taken down
_ANSWER_S = 60.0  # to a change of lanes or a flush: the longest of our carriers, one of 30 s for each of two answers

_Leaving = BusMessage | LanesWanted | Ping


class BusWire:
    reliable = True
    frame_aim = FRAME_AIM
    frame_max = FRAME_BYTES_MAX
    unanswered_s = 0.0  # the carrier says when its bus is gone
    vouched: Principal | None = None

    def __init__(
        self,
        far: str,
        carrier: BusCarrier,
        stub: StubBroker,
        driver: Driver,
        recovers: bool,
        client_id: int,
    ) -> None:
        self.far = far
        self.certificate: Certificate = {}
        self.heard_s = monotonic()
        self._carrier = carrier
        self._stub = stub
        self._driver = driver
        self._recovers = recovers  # then numbers show what was dropped
        self._receiver: Receiver | None = None
        self._loop = asyncio.get_running_loop()
        self._leaving: deque[_Leaving] = deque()
        self._leaving_bytes = 0
        self._some_leave = asyncio.Event()
        self._full = False
        self._came: deque[BusMessage] = deque()
        self._came_bytes = 0
        self._room = asyncio.Event()
        self._kept_waiting = 0  # tasks of the carrier that have a message each, or a queue, and no room for the next
        self.marks = client_id << 32 | randbits(32)  # which are of this connection
        self._namesakes = False  # somebody else has our name, and we have said so
        self._is_presented = False  # whoever else has our name has heard of us
        self._paused = self._due = self._closing = self._told = False
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: asyncio.Task[None] | None = None
        self._down = ""  # why the bus is gone

    def start(self, accept: Accept) -> None:
        """The carrier is connected."""
        self._tasks = [asyncio.create_task(each) for each in (self._send_on(), self._beat(), self._send_marks())]
        self._receiver = accept(self)
        if self._down:
            self._tell(self._down)

    # What the session calls ----------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        if self._closing:
            return
        if frame[1] == MESSAGES:
            for each in self._stub.on_client(frame):
                self._put(each)
            return
        signal = decode_signal_untrusted(frame)
        if isinstance(signal, Hello):
            welcome = Welcome(self.far, "broker", 0, stores=False, level=LEVEL, now_us=signal.now_us)
            self._loop.call_soon(self._hand, encode_signal(welcome))
            self._loop.call_soon(self._hand, encode_signal(Mark(signal.now_us)))  # nothing has come before
        elif isinstance(signal, Ping):
            self._put(signal)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._look_soon()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._ending = asyncio.create_task(self._end(in_haste=False))

    def abort(self) -> None:
        self._closing = True
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(in_haste=True))
        self._loop.call_soon(self._tell, CLOSED)

    async def _end(self, in_haste: bool) -> None:
        if not in_haste:
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    while self._leaving_bytes and not self._down:
                        await asyncio.sleep(0.001)
                    await self._carrier.flush()
        for task in self._tasks:
            task.cancel()
        with suppress(TransportError):
            await answered(self._carrier.close(), _CLOSE_S, self.far)
        self._tell(CLOSED)

    # To the bus ----------------------------------------------------------------------------------

    def _put(self, each: _Leaving) -> None:
        if isinstance(each, BusMessage) and len(each.payload) > self._carrier.payload_max:
            most = self._carrier.payload_max
            warn_once(f"{self.far}: a message of {len(each.payload):,} bytes is not sent; the bus takes {most:,}")
            return
        self._leaving.append(each)
        if isinstance(each, BusMessage):
            self._leaving_bytes += len(each.payload)
            if self._leaving_bytes > _OUT_BYTES_MAX and not self._full:
                self._full = True
                self._loop.call_soon(self._tell_writable)
        self._some_leave.set()

    async def _send_on(self) -> None:
        try:
            while True:
                while self._leaving:
                    await self._send_some()
                    if self._full and self._leaving_bytes <= _OUT_BYTES_MAX // 2:
                        self._full = False
                        self._tell_writable()
                self._some_leave.clear()
                await self._some_leave.wait()
        except TransportError as problem:
            self.on_down(str(problem))
        except Exception as problem:  # of a library: who rides on would send nothing more, and nobody would know
            self.on_down(f"{self.far}: {problem!r}")

    async def _send_some(self) -> None:
        messages: list[BusMessage] = []
        while self._leaving and isinstance(self._leaving[0], BusMessage) and len(messages) < _TOGETHER:
            messages.append(self._leaving.popleft())  # type: ignore[arg-type]
        if messages:
            await self._carrier.publish(messages)
            self._leaving_bytes -= sum([len(each.payload) for each in messages])
            return
        each = self._leaving.popleft()
        if isinstance(each, LanesWanted):
            await answered(self._change(each), _ANSWER_S, self.far)
            self._give([self._stub.on_lanes(each)])
            if not self._is_presented:
                self._present()
        elif isinstance(each, Ping):
            await answered(self._carrier.flush(), _ANSWER_S, self.far)
            self._hand(encode_signal(Pong(each.token)))

    async def _change(self, lanes: LanesWanted) -> None:
        if isinstance(self._carrier, SelectingCarrier):
            await self._carrier.select(lanes.selector)
        await self._carrier.subscribe(lanes.add)
        await self._carrier.unsubscribe(lanes.drop)

    def _present(self) -> None:
        """To whoever else has our name: a mark."""
        self._is_presented = True
        self._put(BusMessage(self._stub.own_lane, mark_payload(self.marks, self._driver.now_us())))

    def _tell_writable(self) -> None:
        if self._receiver is not None and not self._told:
            self._receiver.on_writable(not self._full)

    async def _beat(self) -> None:
        """A stub is as alive as its client; what it confirms, it repeats."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            self._give([self._stub.heartbeat()])

    async def _send_marks(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            if not self._stub.subscribes or self._full:
                continue
            mark = BusMessage(self._stub.own_lane, mark_payload(self.marks, self._driver.now_us()))
            if isinstance(self._carrier, EchoingCarrier):
                with suppress(TransportError):  # of a connection that is gone, which the carrier tells
                    await answered(self._carrier.echo(mark), _ANSWER_S, self.far)
            else:
                self._put(mark)

    # From the bus --------------------------------------------------------------------------------

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        sender = connection_in(message.payload) if message.lane == self._stub.own_lane else None
        if sender is not None:
            if sender == self.marks:
                # Libraries have a queue for each subscription; those with something from before have their turn first.
                self._loop.call_soon(self._on_mark, message)
            elif sender >> 32 != self.marks >> 32:
                self._on_namesake()
            return None
        self._came.append(message)
        self._came_bytes += len(message.payload)
        self._look_soon()
        return self._has_room() if self._came_bytes > _IN_BYTES_MAX else None

    def _on_mark(self, message: BusMessage) -> None:
        """It takes its place behind what has come, unless something from before it may still be to come."""
        if not self._kept_waiting:
            self._came.append(message)
            self._came_bytes += len(message.payload)
            self._look_soon()

    def _on_namesake(self) -> None:
        if self._namesakes:
            return
        self._namesakes = True
        self._present()  # it may be older than our first mark
        name = self._stub.client
        warn_once(
            f"{self.far}: another client of this space has the name {name!r}. Subscribers take the events of both for "
            "those of one and miss some of what is lost; give each a name of its own"
        )

    async def _has_room(self) -> None:
        self._kept_waiting += 1
        try:
            while self._came_bytes > _IN_BYTES_MAX and not self._told:
                self._room.clear()
                await self._room.wait()
        finally:
            self._kept_waiting -= 1

    def on_dropped(self, messages: int) -> None:
        if not self._recovers:
            now_us = self._driver.now_us()
            self._hand(encode_signal(Missed(messages, now_us, now_us)))

    def on_down(self, reason: str) -> None:
        self._down = reason
        if self._receiver is not None and not self._told:
            self._closing = True
            if self._ending is None:
                self._ending = asyncio.create_task(self._end(in_haste=True))
            self._tell(reason)

    def _look_soon(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._due = False
        end_s = monotonic() + _SLICE_S
        while self._came and not self._paused and not self._told:
            message = self._came.popleft()
            self._came_bytes -= len(message.payload)
            marked_us = mark_in(message.payload, self.marks)
            if marked_us is None:
                self._give(self._stub.on_bus(message))
            else:
                self._hand(encode_signal(Mark(marked_us)))
            if monotonic() >= end_s:
                self._look_soon()
                break
        if self._came_bytes <= _IN_BYTES_MAX:
            self._room.set()

    def _give(self, messages: list[Message]) -> None:
        self.heard_s = monotonic()
        if messages and not self._told:
            self._driver.receive(self.far, messages, b"")

    def _hand(self, signal: bytes) -> None:
        if self._receiver is not None and not self._told:
            self._receiver.on_frame(signal)

    def _tell(self, reason: str) -> None:
        if not self._told and self._receiver is not None:
            self._told = True
            self._room.set()
            self._receiver.on_closed(reason)

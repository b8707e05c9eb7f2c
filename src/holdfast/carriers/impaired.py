"""A carrier whose ways lose and delay messages, as `[carrier]` of a network file says: for runs, not for use.

What comes may also be taken slowly. Then the bus feels it, keeps what it keeps, and drops the rest by its own rules.
Delays are the same for all messages of a direction, so their order stays.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from holdfast.carriers.carrier import BusCarrier, BusMessage, EchoingCarrier, Passenger
from holdfast.model.errors import TransportError

_LEAVING_MAX = 1_024  # handings-over on their way up: a client makes one for each turn of its event loop


@dataclass(frozen=True)
class Ways:
    """What happens between a client and its bus."""

    up_loss: float = 0.0
    up_delay_s: float = 0.0
    down_loss: float = 0.0
    down_delay_s: float = 0.0
    takes_per_s: float | None = None


class ImpairedCarrier:
    def __init__(self, carrier: BusCarrier, ways: Ways, dice: Random) -> None:
        self._carrier, self._ways, self._dice = carrier, ways, dice
        self.has_headers, self.prefixes, self.payload_max = carrier.has_headers, carrier.prefixes, carrier.payload_max
        self.subscribe, self.unsubscribe = carrier.subscribe, carrier.unsubscribe
        if isinstance(carrier, EchoingCarrier):
            self.echo = carrier.echo
        self._passenger: Passenger
        self._loop = asyncio.get_running_loop()
        self._leaving: asyncio.Queue[tuple[float, list[BusMessage]]] = asyncio.Queue(_LEAVING_MAX)
        self._sender: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None  # the passenger has asked to wait for it
        self._next_s = 0.0  # when the next message is taken
        self._is_down = False

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        await self._carrier.connect(self)
        self._sender = asyncio.create_task(self._send())

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        if self._is_down:
            raise TransportError("the connection is gone")
        kept = [each for each in messages if self._dice.random() >= self._ways.up_loss]
        if kept:
            await self._leaving.put((self._loop.time() + self._ways.up_delay_s, kept))

    async def _send(self) -> None:
        while True:
            due_s, messages = await self._leaving.get()
            await asyncio.sleep(max(0.0, due_s - self._loop.time()))
            with suppress(TransportError):  # of a connection that is gone, which the carrier tells
                await self._carrier.publish(messages)
            self._leaving.task_done()

    async def flush(self) -> None:
        await self._leaving.join()
        await self._carrier.flush()

    async def close(self) -> None:
        self._end()
        await self._carrier.close()

    def _end(self) -> None:
        self._is_down = True
        if self._sender is not None:
            self._sender.cancel()

    # What the carrier says -----------------------------------------------------------------------

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        if self._dice.random() >= self._ways.down_loss:
            self._loop.call_later(self._ways.down_delay_s, self._hand_on, message)
        now_s = self._loop.time()
        if self._ways.takes_per_s is not None:
            self._next_s = max(self._next_s, now_s) + 1 / self._ways.takes_per_s
        if self._room is None and self._next_s <= now_s:
            return None
        return self._wait(self._next_s - now_s)

    async def _wait(self, for_s: float) -> None:
        if self._room is not None:
            await self._room
        await asyncio.sleep(max(0.0, for_s))

    def _hand_on(self, message: BusMessage) -> None:
        if not self._is_down:
            room = self._passenger.on_message(message)
            self._room = None if room is None else asyncio.ensure_future(room)

    def on_dropped(self, messages: int) -> None:
        self._passenger.on_dropped(messages)

    def on_down(self, reason: str) -> None:
        self._end()
        self._passenger.on_down(reason)

"""A bus in this process, for tests: it loses, doubles, delays and drops what it is told to, by its own dice."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from holdfast.carriers.carrier import BusMessage, Passenger
from holdfast.language.lanes import Pattern, pattern_matches
from holdfast.model.errors import TransportError

_PAYLOAD_MAX = 1024 * 1024  # as NATS servers take


@dataclass
class MemoryBus:
    """The server: what it does to each message on its way to each subscriber."""

    seed: int = 0
    loss_ratio: float = 0.0
    double_ratio: float = 0.0
    late_ratio: float = 0.0  # of messages that are overtaken by a few others
    spares: Callable[[BusMessage], bool] = lambda message: False  # what is never lost
    has_headers: bool = True
    prefixes: bool = True
    carriers: list["MemoryCarrier"] = field(default_factory=list)
    sent: int = 0  # messages and bytes that were published
    sent_bytes: int = 0

    def __post_init__(self) -> None:
        self._dice = Random(f"{self.seed}/bus")
        self._late: list[tuple[MemoryCarrier, BusMessage]] = []

    def connection(self) -> "MemoryCarrier":
        return MemoryCarrier(self)

    def crash(self) -> None:
        """Everything that is under way is lost, and every connection breaks."""
        self._late.clear()
        for each in list(self.carriers):
            each.break_off("the bus crashed")

    def publish(self, message: BusMessage) -> None:
        self.sent += 1
        self.sent_bytes += len(message.payload)
        overdue, self._late = self._late, []
        for each in self.carriers:
            if not each.wants(message) or (self._dice.random() < self.loss_ratio and not self.spares(message)):
                continue
            if self._dice.random() < self.late_ratio:
                self._late.append((each, message))
                continue
            each.put(message)
            if self._dice.random() < self.double_ratio:
                each.put(message)
        for each, late in overdue:
            each.put(late)


class MemoryCarrier:
    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self.has_headers, self.prefixes, self.payload_max = bus.has_headers, bus.prefixes, _PAYLOAD_MAX
        self._patterns: dict[Pattern, None] = {}
        self._passenger: Passenger
        self._queue: asyncio.Queue[BusMessage] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._open = False

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        self._open = True
        self._bus.carriers.append(self)
        self._task = asyncio.create_task(self._hand_on())

    async def _hand_on(self) -> None:
        while True:
            wait = self._passenger.on_message(await self._queue.get())
            if wait is not None:
                await wait

    def wants(self, message: BusMessage) -> bool:
        return any(pattern_matches(each, message.lane) for each in self._patterns)

    def put(self, message: BusMessage) -> None:
        self._queue.put_nowait(message)

    def hold_up(self) -> None:
        """From now on what comes waits, as in buffers that nobody reads."""
        assert self._task is not None
        self._task.cancel()

    def drop(self, messages: int) -> None:
        """Lose what waits for this subscriber, as a bus does to a slow one, and say so."""
        for _ in range(min(messages, self._queue.qsize())):
            self._queue.get_nowait()
        self._passenger.on_dropped(messages)

    def break_off(self, reason: str) -> None:
        if self._leave():
            self._passenger.on_down(reason)

    def _leave(self) -> bool:
        was_open, self._open = self._open, False
        if was_open:
            self._bus.carriers.remove(self)
        if self._task is not None:
            self._task.cancel()
        return was_open

    def _check_open(self) -> None:
        if not self._open:
            raise TransportError("the connection to the bus is gone")

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        self._check_open()
        for each in messages:
            self._bus.publish(each)

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        self._check_open()
        self._patterns.update(dict.fromkeys(patterns))

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        self._check_open()
        for each in patterns:
            self._patterns.pop(each, None)

    async def flush(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._leave()

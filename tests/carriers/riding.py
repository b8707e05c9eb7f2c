"""Clients on a bus in this process, and what became of what they published."""

import asyncio
from collections import Counter

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.client import BusClient
from holdfast.carriers.memory import MemoryCarrier
from holdfast.language.lanes import Template
from holdfast.model.errors import TransportError
from holdfast.net.signing import UNSIGNED
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings

HERE = BusAddress("tcp", "here", 1, "", "memory")
# Digests and answers sooner than in production, so that a test need not wait for them.
QUICK = RecoverySettings(
    digest_us=20_000, wait_us_max=40_000, gather_us_min=2_000, reply_us=30_000, quiet_us_max=200_000
)
STRICT = Guarantees(QUICK, LatchSettings("strict"))
RECOVERS = Guarantees(QUICK)


def client(bus, name, guarantees=STRICT, lanes="", body="native", space="plant", signing=UNSIGNED):
    settings = ProtocolSettings()
    new = lambda address: bus.connection()  # noqa: E731
    return BusClient([HERE], name, settings, guarantees, space, Template(lanes, space), body, new, signing=signing)


class Failing(MemoryCarrier):
    """As often as `left` has items, a connection does not come about, or breaks before it is known what is wanted."""

    def __init__(self, bus, left, refuses):
        super().__init__(bus)
        self._left, self._refuses = left, refuses

    async def connect(self, passenger):
        if self._refuses and self._left:
            self._left.pop()
            raise TransportError("nobody is there")
        await super().connect(passenger)

    async def subscribe(self, patterns):
        if self._left:
            self._left.pop()
            self.break_off("the bus crashed")
        await super().subscribe(patterns)


async def taken(subscription, count, timeout_s=20.0):
    """The next so many deliveries."""
    found = []
    async with asyncio.timeout(timeout_s):
        while len(found) < count:
            found += await subscription.batch(10_000)
    return found


def numbers(deliveries):
    return [each.event["n"] for each in deliveries]


def twice(deliveries):
    return [each for each, times in Counter((each.source, each.seq) for each in deliveries).items() if times > 1]


__all__ = ["BEST_EFFORT", "RECOVERS", "STRICT", "Failing", "client", "numbers", "taken", "twice"]

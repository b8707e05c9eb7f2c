"""The conformance kit: our carriers pass it, and broken ones do not."""

import asyncio

import pytest

from holdfast.carriers.addresses import bus_address, carrier_of
from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.memory import MemoryBus, MemoryCarrier
from holdfast.testing import carriers as kit
from holdfast.testing.carriers import CHECKS
from tests.carriers.servers import running

each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@each_check
def test_the_memory_bus_keeps_the_rules(check):
    asyncio.run(check(MemoryBus().connection))


_SERVERS = [  # and what is added to the address
    ("nats", ""),
    ("mqtt", "?version=5"),
    ("redis", ""),
    pytest.param("mqtt", "?version=3.1.1&qos=1", marks=pytest.mark.slow),
    pytest.param("zenoh", "", marks=pytest.mark.slow),
    pytest.param("rabbitmq", "/", marks=pytest.mark.slow),
    pytest.param("rabbitmq", "/?exchange=headers", marks=pytest.mark.slow),
    pytest.param("stomp", "", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("bus", "options"), _SERVERS)
def test_our_carriers_keep_the_rules(bus, options, tmp_path):
    with running(bus, tmp_path) as server:
        new = carrier_of(bus_address(server.address + options))
        for check in CHECKS:
            asyncio.run(check(new))


class _Tampered(MemoryCarrier):
    """Breaks one rule."""

    def __init__(self, bus, how):
        super().__init__(bus)
        self._how = how
        self._publishes = False

    async def publish(self, messages):
        if self._how == "cuts payloads":
            messages = [BusMessage(each.lane, each.payload[:100], each.headers) for each in messages]
        if self._how == "forgets headers":
            messages = [BusMessage(each.lane, each.payload) for each in messages]
        if self._how == "publishes when closed" and not self._open:
            return
        self._publishes = True
        await super().publish(messages)
        self._publishes = False

    def wants(self, message):
        if self._how == "is deaf to itself" and self._publishes:
            return False
        return True if self._how == "brings all lanes" else super().wants(message)

    def put(self, message):
        if self._how == "reverses":
            self._queue._queue.appendleft(message)
            self._queue._wakeup_next(self._queue._getters)
            return
        super().put(message)

    async def unsubscribe(self, patterns):
        if self._how != "never unsubscribes":
            await super().unsubscribe(patterns)

    async def flush(self):
        if self._how != "publishes when closed":
            await super().flush()


_BREAKS = (
    "cuts payloads,forgets headers,brings all lanes,reverses,never unsubscribes,publishes when closed,is deaf to itself"
).split(",")


@pytest.mark.parametrize("how", _BREAKS)
def test_a_carrier_that_breaks_a_rule_is_convicted(how, monkeypatch):
    monkeypatch.setattr(kit, "_PATIENCE_S", 0.2)
    bus = MemoryBus()
    broken = []
    for check in CHECKS:
        try:
            asyncio.run(check(lambda: _Tampered(bus, how)))
        except AssertionError:
            broken.append(check.__name__)
        bus.carriers.clear()
    assert broken

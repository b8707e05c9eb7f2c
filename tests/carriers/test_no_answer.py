"""Servers that accept and do not answer: carriers give them up, and a client dials again whatever its carrier does."""

import asyncio
import importlib

import pytest

import holdfast
from holdfast.carriers import client as client_module
from holdfast.carriers import redis as redis_module
from holdfast.carriers.addresses import bus_address, carrier_of
from holdfast.carriers.memory import MemoryBus, MemoryCarrier
from holdfast.model.errors import TransportError
from holdfast.net.event_loop import run
from holdfast.net.free_ports import free_ports
from holdfast.testing import carriers as kit
from tests.carriers.riding import client, taken

_SHORT_S = 0.2
_LIMITS = {  # of each carrier, for all of connecting
    "nats": ("nats", "_CONNECT_S", _SHORT_S),
    "mqtt": ("mqtt", "_CONNECT_S", _SHORT_S),
    "redis": ("redis", "_CONNECT_S", _SHORT_S),
    "rabbitmq": ("amqp", "_CONNECT_S", _SHORT_S),
    "zenoh": ("zenoh", "_CONNECT_MS", 200),
    "stomp": ("stomp", "_CONNECT_S", _SHORT_S),
}


@pytest.mark.parametrize("bus", _LIMITS)
def test_our_carriers_give_up_who_does_not_answer(bus, monkeypatch):
    scheme, limit, short = _LIMITS[bus]
    monkeypatch.setattr(importlib.import_module(f"holdfast.carriers.{bus}"), limit, short)
    run(kit.no_answer_is_an_error(lambda host, port: carrier_of(bus_address(f"{scheme}://{host}:{port}"))()))


def test_rabbitmq_that_hangs_up_before_it_is_asked_is_an_error(monkeypatch):
    """Which aiormq tells by StopAsyncIteration, where the end is known before its first read."""
    dial = asyncio.open_connection

    async def dial_until_its_end(*where, **how):
        reader, writer = await dial(*where, **how)
        async with asyncio.timeout(10):
            while not reader.at_eof():
                await asyncio.sleep(0.001)
        return reader, writer

    async def story():
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setattr(asyncio, "open_connection", dial_until_its_end)
        with pytest.raises(TransportError):
            await carrier_of(bus_address(f"amqp://127.0.0.1:{port}"))().connect(kit.Rider())
        server.close()

    run(story())


class _TakenDown:
    """A subscription of redis-py whose connection the library has taken down while somebody used it."""

    async def ping(self):
        raise AttributeError("'NoneType' object has no attribute 'writelines'")

    async def get_message(self, timeout):
        await self.ping()


@pytest.mark.parametrize("task", ["_read", "_ask"])
def test_redis_is_gone_whatever_its_library_raises(task, monkeypatch):
    async def answers():
        return True

    async def story():
        carrier, rider = carrier_of(bus_address("redis://127.0.0.1:1"))(), kit.Rider()
        carrier._passenger, carrier._pubsub = rider, _TakenDown()
        monkeypatch.setattr(carrier._client, "ping", answers)
        monkeypatch.setattr(redis_module, "_LOOK_S", 0.0)
        await asyncio.wait_for(getattr(carrier, task)(), 10)
        return rider.down

    assert "writelines" in run(story())[0]


class _Tampered(MemoryCarrier):
    """Dials a server as it should, and then breaks the rule."""

    def __init__(self, how, place):
        super().__init__(MemoryBus())
        self._how, self._place = how, place

    async def connect(self, passenger):
        await asyncio.open_connection(*self._place)
        if self._how == "waits for ever":
            await asyncio.Event().wait()
        if self._how == "is connected":
            return
        raise {"stops": StopAsyncIteration, "is cancelled": asyncio.CancelledError, "ends": EOFError}[self._how]


@pytest.mark.parametrize("how", ["waits for ever", "is connected", "stops", "is cancelled", "ends"])
def test_a_carrier_that_does_not_give_up_is_convicted(how, monkeypatch):
    monkeypatch.setattr(kit, "_PATIENCE_S", _SHORT_S)
    with pytest.raises(AssertionError):
        asyncio.run(kit.no_answer_is_an_error(lambda *place: _Tampered(how, place)))


class _BreaksOnce(MemoryBus):
    """The second connection is one of a tampered carrier, and the third is sound."""

    how, dials, place = "", 0, ()

    def connection(self):
        self.dials += 1
        return _Tampered(self.how, self.place) if self.dials == 2 else super().connection()


@pytest.mark.parametrize("how", ["waits for ever", "stops", "is cancelled", "ends"])
def test_a_client_dials_again_whatever_its_carrier_does(how, monkeypatch):
    monkeypatch.setattr(client_module, "_CONNECT_S", _SHORT_S)

    async def story():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        bus = _BreaksOnce()
        bus.how, bus.place = how, server.sockets[0].getsockname()[:2]
        async with client(bus, "only") as only:
            mine = only.subscribe("n >= 0")
            await only.flush()
            bus.crash()
            await only.publish({"n": 1})
            got = await taken(mine, 1)
        server.close()
        return bus.dials, [each.event["n"] for each in got]

    assert asyncio.run(story()) == (3, [1])


def test_a_server_that_does_not_run_is_asked_about() -> None:
    address = f"nats://127.0.0.1:{free_ports()}"
    with pytest.raises(TransportError) as raised:
        holdfast.connect_sync(address)
    assert str(raised.value) == f"cannot connect to {address}: connection refused; is its server running?"

"""Who is slow is not dead: neither a busy loop nor push-back ends a connection or keeps a node from its timers."""

import asyncio
import json
import signal
import time
from threading import Event

import pytest

import holdfast
from holdfast.net.journal import Note
from holdfast.net.tcp import TcpWire
from holdfast.net.wire import Wire
from holdfast.protocol.settings import ProtocolSettings
from tests.net.harness import Recorder, lab, live, settled, take, until, values
from tests.net.test_processes import Processes, processes

__all__ = ["processes"]  # the fixture

HASTY = ProtocolSettings(heartbeat_us=50_000, lease_us=200_000)  # silent for 0.4 s is dead, where silence tells
BUSY_S = 1.2  # three times as long


@live
async def test_an_application_that_keeps_its_loop_busy_keeps_its_connection_and_loses_nothing() -> None:
    async with lab() as net:
        notes: list[Note] = []
        broker = await net.broker("b1", protocol=HASTY, log=notes.append)
        publisher = await net.client(broker, settings=HASTY)
        began = Event()

        async def subscribe_and_be_busy() -> list[int]:
            async with holdfast.connect(str(broker.listening[0]), name="busy", settings=HASTY) as client:
                wanted = client.subscribe("n >= 0")
                await client.flush()
                began.set()
                time.sleep(BUSY_S)
                got = values(await take(wanted, 100))
                assert (client.losses().take(), client.connections) == ([], 1)
                return got

        busy = asyncio.create_task(asyncio.to_thread(asyncio.run, subscribe_and_be_busy()))
        await until(began.is_set)
        for n in range(100):
            await publisher.publish({"n": n})
        assert await busy == list(range(100))
        assert [each.kind for each in notes if each.about == "busy"].count("connected") == 1
        assert "lease_expired" not in broker.counters.incidents


@live
async def test_a_broker_whose_loop_was_busy_blames_nobody_for_the_silence() -> None:
    async with lab() as net:
        b1, b2 = await net.pair(protocol=HASTY)
        client = await net.client(b1, settings=HASTY)
        wires = [b1.driver.links["b2"].wire, b1.driver.links[client.name].wire]
        for _ in range(3):
            time.sleep(0.5)  # the loop of both brokers and the client
            await asyncio.sleep(0.01)
        assert [b1.driver.links["b2"].wire, b1.driver.links[client.name].wire] == wires
        assert (b1.counters.incidents, b2.counters.incidents) == ({}, {})


@live
async def test_a_broker_that_hangs_is_noticed_by_its_neighbours() -> None:
    async with lab() as net:
        b1, b2 = await net.pair(protocol=HASTY)
        b2.driver.stop()  # the connection is open, and nothing comes
        await until(lambda: "b2" not in b1.driver.links)


@live
async def test_a_publisher_that_is_held_up_for_long_keeps_its_connection() -> None:
    number = 30_000
    async with lab() as net:
        recorder = Recorder()
        broker = await net.broker("b1", protocol=HASTY, queue_bytes=64 * 1024, push_back=True, recorder=recorder)
        publisher, slow = await net.client(broker, settings=HASTY), await net.client(broker, settings=HASTY)
        wanted = slow.subscribe("n >= 0", queue_max=100, when_full="push-back")
        await settled(slow, publisher)

        async def publish() -> None:
            for n in range(number):
                await publisher.publish({"n": n}, payload=bytes(1_000))
            await publisher.flush()

        publishing = asyncio.create_task(publish())
        await until(lambda: broker.driver.links[publisher.name].held_up)
        await asyncio.sleep(BUSY_S)  # in which nobody reads anything
        assert values(await take(wanted, number)) == list(range(number))
        await publishing
        assert recorder.incidents == []
        assert (publisher.connections, slow.connections) == (1, 1)


@live
async def test_a_part_of_a_large_frame_is_a_sign_of_life() -> None:
    async with lab() as net:
        b1, _ = await net.pair(protocol=HASTY)
        wire = b1.driver.links["b2"].wire
        assert isinstance(wire, TcpWire)
        before_s = wire.heard_s
        wire.data_received((10**6).to_bytes(4, "big"))
        assert wire.heard_s > before_s


@live
async def test_a_host_whose_process_does_not_read_is_alive() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker, name="s")
        client.driver.links["b1"].wire.pause()
        wire = broker.driver.links["s"].wire
        while broker.driver.links["s"].wire_writable:
            wire.send(bytes(2**16))
            await asyncio.sleep(0)
        await asyncio.sleep(0.5)
        assert wire.unanswered_s < 0.5


# Slices ------------------------------------------------------------------------------------------


class Slow:
    """Takes a while for each frame, by a clock that only it moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.frames = 0

    def on_frame(self, frame: bytes | memoryview) -> None:
        self.frames += 1
        self.now_s += 0.004

    def on_writable(self, room: bool) -> None: ...
    def on_bad(self, problem: Exception) -> None: ...
    def on_closed(self, reason: str) -> None: ...


@live
async def test_frames_that_come_together_are_handled_in_slices_between_which_timers_have_their_turn() -> None:
    slow = Slow()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)

    def accept(wire: Wire) -> Slow:
        return slow

    _, wire = await loop.create_connection(
        lambda: TcpWire(accept, lambda: slow.now_s), *server.sockets[0].getsockname()[:2]
    )
    frame = (10).to_bytes(4, "big") + bytes(10)
    longest = turns = 0

    def timer() -> None:
        nonlocal longest, turns, seen
        longest, turns, seen = max(longest, slow.frames - seen), turns + 1, slow.frames
        loop.call_soon(timer)

    seen = 0
    loop.call_soon(timer)
    wire.data_received(frame * 1_000 + frame[:7])
    wire.data_received(frame[7:])  # what comes meanwhile waits for its turn
    await until(lambda: slow.frames == 1_001)
    assert longest * 0.004 <= 0.05
    assert turns > 100
    wire.abort()
    server.close()


# Processes ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_subscriber_that_is_stopped_for_long_misses_nothing(processes: Processes) -> None:
    _, address = processes.broker("b1")
    subscriber = processes.start("sub", "n >= 0", "--broker", address, "--count", "100")
    subscriber.line("subscribed", error=True)
    subscriber.send(signal.SIGSTOP)
    with holdfast.connect_sync(address) as publisher:
        for n in range(100):
            publisher.publish({"n": n})
        publisher.flush()
    time.sleep(10)  # longer than the 7 s after which a silent client was once given up
    subscriber.send(signal.SIGCONT)
    assert subscriber.wait() == 0
    assert [json.loads(subscriber.line()) for _ in range(100)] == [{"n": n} for n in range(100)]

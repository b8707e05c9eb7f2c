"""The proxy does to connections what its weather says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from holdfast.nemesis.proxy import Place, TcpProxy, UdpProxy, Weather

PATIENCE_S = 20.0


@asynccontextmanager
async def echoed() -> AsyncIterator[tuple[TcpProxy, Place]]:
    """A proxy before a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_000):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = TcpProxy(lambda: server.sockets[0].getsockname()[:2], Weather())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield proxy, await proxy.start()
    finally:
        proxy.close()
        server.close()


def test_bytes_pass_both_ways_and_the_end_of_one_side_reaches_the_other() -> None:
    async def story() -> bytes:
        async with echoed() as (_, place):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(b"hello")
            writer.write_eof()
            return await reader.read()

    assert asyncio.run(story()) == b"hello"


async def is_over(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_a_cut_ends_connections_and_refuses_new_ones_until_it_is_over() -> None:
    async def story() -> list[object]:
        async with echoed() as (proxy, place):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(b"1")
            first = await reader.read(1)
            proxy.change(cut=True)
            ended = await is_over(reader)
            refused = await is_over((await asyncio.open_connection(*place))[0])
            proxy.change(cut=False)
            reader, writer = await asyncio.open_connection(*place)
            writer.write(b"2")
            return [first, ended, refused, await reader.read(1)]

    assert asyncio.run(story()) == [b"1", True, True, b"2"]


def test_a_stall_keeps_bytes_and_lets_them_go_when_it_is_over() -> None:
    async def story() -> tuple[bool, bytes]:
        async with echoed() as (proxy, place):
            reader, writer = await asyncio.open_connection(*place)
            proxy.change(stalled=True)
            writer.write(b"late")
            coming = asyncio.ensure_future(reader.readexactly(4))
            done, _ = await asyncio.wait([coming], timeout=0.05)
            proxy.change(stalled=False)
            return bool(done), await coming

    assert asyncio.run(story()) == (False, b"late")


def test_a_delay_holds_up_every_byte() -> None:
    async def story() -> float:
        async with echoed() as (proxy, place):
            reader, writer = await asyncio.open_connection(*place)
            proxy.change(delay_s=0.05)
            began_s = asyncio.get_running_loop().time()
            writer.write(b"x")
            await reader.read(1)
            return asyncio.get_running_loop().time() - began_s

    assert asyncio.run(story()) >= 0.1  # there and back


class _Dice(Random):
    """Notes when it is rolled."""

    def __init__(self) -> None:
        super().__init__(1)
        self.rolled = asyncio.Event()

    def random(self) -> float:
        self.rolled.set()
        return super().random()


class _Inbox(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.arrived.put_nowait(data)


def test_datagrams_pass_and_a_share_of_them_is_dropped_or_doubled() -> None:
    async def story() -> tuple[bytes, list[bytes]]:
        loop = asyncio.get_running_loop()
        listening, inbox = await loop.create_datagram_endpoint(_Inbox, local_addr=("127.0.0.1", 0))
        dice = _Dice()
        proxy = UdpProxy(lambda: listening.get_extra_info("sockname")[:2], Weather(dice=dice))
        sending, _ = await loop.create_datagram_endpoint(_Inbox, remote_addr=await proxy.start())
        async with asyncio.timeout(PATIENCE_S):
            while inbox.arrived.empty():  # those that open the way are lost
                sending.sendto(b"open")
                await asyncio.sleep(0.01)
            first = await inbox.arrived.get()
            while not inbox.arrived.empty():
                inbox.arrived.get_nowait()
            proxy.change(drop=1.0)
            dice.rolled.clear()
            sending.sendto(b"dropped")
            await dice.rolled.wait()  # the proxy has it
            proxy.change(drop=0.0, duplicate=1.0)
            sending.sendto(b"doubled")
            arrived = [await inbox.arrived.get(), await inbox.arrived.get()]
        for each in (sending, listening):
            each.close()
        proxy.close()
        return first, arrived

    assert asyncio.run(story()) == (b"open", [b"doubled", b"doubled"])

"""A broker that lies: between a broker and its client, it changes the frames that the client gets as it likes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from holdfast.net.address import Address


@asynccontextmanager
async def lying(broker: Address, changed: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """Its address; frames keep their length, so that nothing but their contents is wrong."""
    tasks: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)

    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size))
            told = changed(frame)
            assert len(told) == len(frame)
            writer.write(size + told)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(broker.host, broker.port)
        with suppress(OSError, asyncio.IncompleteReadError):
            ways = asyncio.create_task(pass_on(reader, far_writer)), asyncio.create_task(lie(far_reader, writer))
            tasks.update(ways)
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, far_writer):
            each.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for each in tasks:
            each.cancel()


class Lies:
    """Tells the first so many of each text otherwise."""

    def __init__(self, genuine: bytes, told: bytes, most: int) -> None:
        assert len(genuine) == len(told)
        self._genuine, self._told = genuine, told
        self.left = most

    def __call__(self, frame: bytes) -> bytes:
        lies = min(frame.count(self._genuine), self.left)
        self.left -= lies
        return frame.replace(self._genuine, self._told, lies)

"""Between two nodes: a proxy that passes bytes or datagrams on, and does to them what the weather says.

One proxy stands before each link between two brokers and before each client's connection. The nodes speak real TCP or
UDP with it. Where a node listens may change from one life to the next: the proxy asks for every connection anew, so
nodes find each other as if they had a fixed address. TCP can be cut, stalled, delayed and throttled; datagrams can also
be dropped, duplicated and reordered.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

Place = tuple[str, int]
_READ_BYTES = 64 * 1024  # as much as a node writes at once
_FLYING_MAX = 256  # pieces on their way in one direction; then the sender waits, as on a full link
_HOST = "127.0.0.1"


@dataclass
class Weather:
    """What happens to what passes, until somebody changes it."""

    cut: bool = False  # connections break, and new ones are refused
    stalled: bool = False  # connections stay, and nothing passes
    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0  # 0: no limit
    drop: float = 0.0  # share of datagrams
    duplicate: float = 0.0
    dice: Random = field(default_factory=Random)

    def wait_s(self) -> float:
        return self.delay_s + (self.dice.random() * self.jitter_s if self.jitter_s else 0.0)


class Proxy:
    """One address in front of another; `where` says where the other is now, if it is anywhere."""

    def __init__(self, where: Callable[[], Place | None], weather: Weather) -> None:
        self._where = where
        self.weather = weather
        self._calm = asyncio.Event()
        self._calm.set()

    def change(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.weather, name, value)
        if self.weather.stalled:
            self._calm.clear()
        else:
            self._calm.set()
        if self.weather.cut:
            self._cut()

    def _cut(self) -> None: ...

    async def start(self) -> Place:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class TcpProxy(Proxy):
    def __init__(self, where: Callable[[], Place | None], weather: Weather) -> None:
        super().__init__(where, weather)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> Place:
        self._server = await asyncio.start_server(self._on_connection, _HOST, 0)
        place: Place = self._server.sockets[0].getsockname()[:2]
        return place

    def close(self) -> None:
        self._server.close()
        self._cut()
        for task in self._tasks:
            task.cancel()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            place = self._where()
            if not self.weather.cut and place is not None:
                far_reader, far = await asyncio.open_connection(*place)
                self._writers.add(far)
                await asyncio.gather(self._pass_on(reader, far), self._pass_on(far_reader, writer))
        except (OSError, asyncio.CancelledError):  # one end is gone: the other one learns it
            pass
        finally:
            self._tasks.discard(task)
            for each in (writer, far):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Two tasks with the bytes under way between them, so that a delay is not a limit on bytes."""
        flying: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_FLYING_MAX)
        landing = asyncio.create_task(self._land(flying, writer))
        try:
            loop, due_s = asyncio.get_running_loop(), 0.0
            while data := await reader.read(_READ_BYTES):
                await self._calm.wait()
                if self.weather.bytes_per_s:
                    await asyncio.sleep(len(data) / self.weather.bytes_per_s)
                due_s = max(due_s, loop.time() + self.weather.wait_s())  # TCP keeps the order
                await flying.put((due_s, data))
            await flying.put((0.0, b""))
            await landing
        finally:
            landing.cancel()
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    async def _land(self, flying: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s, data = await flying.get()
            if not data:
                return
            if due_s > loop.time():
                await asyncio.sleep(due_s - loop.time())
            await self._calm.wait()
            writer.write(data)
            await writer.drain()


class UdpProxy(Proxy, asyncio.DatagramProtocol):
    """Each sender gets a socket of its own towards the other side, so that answers find their way back."""

    def __init__(self, where: Callable[[], Place | None], weather: Weather) -> None:
        super().__init__(where, weather)
        self._far: dict[Place, asyncio.DatagramTransport] = {}
        self._towards: dict[Place, Place | None] = {}  # where each of these leads
        self._opening: set[Place] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport

    async def start(self) -> Place:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(_HOST, 0))
        place: Place = self._transport.get_extra_info("sockname")[:2]
        return place

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for each in self._far.values():
            each.close()
        self._transport.close()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if self._towards.get(addr, ()) != self._where() and addr not in self._opening:
            self._opening.add(addr)
            task = asyncio.create_task(self._open(addr))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif addr in self._far:
            self._through(self._far[addr].sendto, data)

    async def _open(self, addr: Place) -> None:
        """Datagrams that come meanwhile are lost, as datagrams may be; so is what goes to a node that is down."""
        place = self._where()
        former = self._far.pop(addr, None)
        if former is not None:
            former.close()
        try:
            if place is not None:
                loop = asyncio.get_running_loop()
                self._far[addr], _ = await loop.create_datagram_endpoint(lambda: _Back(self, addr), remote_addr=place)
            self._towards[addr] = place
        except OSError:
            pass
        finally:
            self._opening.discard(addr)

    def back(self, data: bytes, addr: Place) -> None:
        self._through(lambda each: self._transport.sendto(each, addr), data)

    def _through(self, send: Callable[[bytes], None], data: bytes) -> None:
        weather = self.weather
        if weather.cut or weather.stalled or weather.dice.random() < weather.drop:
            return
        copies = 2 if weather.duplicate and weather.dice.random() < weather.duplicate else 1
        for _ in range(copies):
            wait_s = weather.wait_s()
            if wait_s:
                asyncio.get_running_loop().call_later(wait_s, self._send, send, data)  # each at its time: they reorder
            else:
                self._send(send, data)

    def _send(self, send: Callable[[bytes], None], data: bytes) -> None:
        if not self._transport.is_closing():
            with suppress(OSError):
                send(data)


class _Back(asyncio.DatagramProtocol):
    def __init__(self, proxy: UdpProxy, addr: Place) -> None:
        self._proxy = proxy
        self._addr = addr

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._proxy.back(data, self._addr)

    def error_received(self, problem: Exception) -> None:
        """Nobody listens there: to the sender that is a lost datagram."""

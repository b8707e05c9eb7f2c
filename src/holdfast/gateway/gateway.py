"""A gateway: a client of the network that keeps what it gets, for readers who come later, and publishes for writers.

It subscribes with one condition per stream and appends every delivery to that stream's log. Readers fetch ranges of the
log, as often as they like and always the same. Writers stage batches in its ledger, and a committed batch is published
once. Spark's source and sink (pipeline/) are such a reader and writer; `client` is for everybody else.

When the broker is away, the log can still be read, batches can still be committed, and the connection is tried again.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated

from holdfast.gateway.connections import Connections
from holdfast.gateway.dialling import BusSpace, Upstream
from holdfast.gateway.folder import GatewayFolder
from holdfast.gateway.ledger import BYTES_MAX, STALE_S, CommitLedger
from holdfast.gateway.publisher import LedgerPublisher
from holdfast.gateway.stream import GatewayStream, check_name, name_for
from holdfast.language.parser import parse
from holdfast.model.errors import InputError, TransportError
from holdfast.model.settings import Setting, Settings, setting
from holdfast.net.address import Address
from holdfast.net.backoff import Backoff
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.disk_thread import OneThread
from holdfast.net.tls import TlsFiles
from holdfast.net.transport import listen
from holdfast.net.wire import Listener
from holdfast.store.log import SEGMENTS_MIN, Retention
from holdfast.wire.event_encoding import sendable_name

_KEEP_BYTES_MIN = SEGMENTS_MIN * 64 * 1024  # files below this size would be little more than their frames
_TIDY_S = 10.0  # how often old events are looked for where none come
_STOP_S = 10.0  # how long stopping waits for a disk that takes nothing
_SUBSCRIBE_S = 5.0  # how long opening a stream waits for the broker to know of it


@dataclass(frozen=True)
class GatewaySettings(Settings):
    folder: Annotated[Path, Setting("the folder of the log; made if it is not there")]
    brokers: Annotated[tuple[Address, ...], Setting("brokers to dial; several are tried in turn")]
    listen: Annotated[tuple[Address, ...], Setting("where readers and writers find it")]
    streams: Mapping[str, str] = setting(dict, "conditions by the name of their stream", "readers open more")
    name: str | None = setting(
        None, "its name in the network; one is made up otherwise", "nobody looks for it there", unchecked=True
    )
    retention: Retention = setting(Retention(), "how much of each stream is kept", "as declared there")
    streams_max: int = setting(
        16,
        "streams, also those that readers open",
        "each may take as much disk as retention allows",
        unit="streams",
        at_most=1_000,
    )
    ledger_bytes: int = setting(
        BYTES_MAX,
        "that may wait to be published",
        "a broker may be away for an hour at a thousand small events a second",
    )
    advertise: tuple[str, ...] = setting(
        (), "conditions that describe what is published, where brokers route by advertisements", "most do not"
    )
    tls: TlsFiles | None = setting(None, "for addresses that begin with tls://", "other addresses need none")
    token: str | None = setting(
        None, "file with the token that says who it is to its brokers", "not every broker asks for one"
    )
    bus: BusSpace = setting(
        BusSpace(), "space, lanes and body, where the address is that of a bus", "brokers have no use for it"
    )

    @property
    def upstream(self) -> Upstream:
        return Upstream(self.brokers, self.tls, self.token, self.bus)

    def problems(self) -> list[str]:
        found = []
        if not self.brokers:
            found.append("a gateway needs the address of a broker, such as tcp://127.0.0.1:7001")
        if self.upstream.is_bus and len({type(each) for each in self.brokers}) > 1:
            found.append("a gateway reads from brokers or from a bus, and not from both")
        if any(each.scheme == "udp" for each in self.listen):
            found.append("a gateway listens on tcp:// or tls://: UDP can lose what it acknowledges")
        if self.retention.keep_bytes < _KEEP_BYTES_MIN:
            found.append(f"a log of {self.retention.keep_bytes} bytes; it needs {_KEEP_BYTES_MIN} or more")
        if len(self.streams) > self.streams_max:
            found.append(f"{len(self.streams)} streams; {self.streams_max} are allowed")
        checks: list[tuple[Callable[[str], object], str]] = [(check_name, name) for name in self.streams]
        checks += [(_check_own_name, self.name)] if self.name is not None else []
        checks += [(parse, condition) for condition in (*self.streams.values(), *self.advertise)]
        for check, given in checks:
            try:
                check(given)
            except InputError as problem:
                found.append(str(problem))
        return found


def _check_own_name(name: str) -> None:
    sendable_name(name, "gateway")


class Gateway:
    def __init__(self, settings: GatewaySettings, report: Callable[[str], None] | None = None) -> None:
        if problems := settings.problems():
            raise InputError("\n".join(problems))
        self.settings = settings
        self.streams: dict[str, GatewayStream] = {}
        self.listening: tuple[Address, ...] = ()
        self._clock = Clock()
        self._report = report or (lambda line: None)
        self._tasks: list[asyncio.Task[None]] = []
        self._filling: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Listener] = []
        self._client: Client | None = None
        self._connected = asyncio.Event()  # for the first time; from then on the client sees to it
        self._opening = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._folder.identity.name

    # Starting and stopping -----------------------------------------------------------------------

    async def start(self) -> None:
        """Open the logs and listen; an InputError or TransportError when that cannot be, with nothing changed."""
        self._folder = await asyncio.to_thread(
            GatewayFolder, self.settings.folder, self.settings.name, self._clock.now_us()
        )
        try:
            await asyncio.to_thread(self._open_streams)
            self.ledger = await asyncio.to_thread(CommitLedger, self._folder.ledger, self.settings.ledger_bytes)
            self.disk = OneThread("ledger")
            self.connections = Connections(self, self._clock)
            for address in self.settings.listen:
                self._listeners.append(await listen(address, self.connections.accept, self.settings.tls))
        except BaseException:
            for listener in self._listeners:
                listener.close()
            for stream in self.streams.values():
                stream.close()
            self._folder.close()
            raise
        self.listening = tuple(each.address for each in self._listeners)
        self._folder.write_address(self.listening)
        self.publisher = LedgerPublisher(
            self._folder.identity,
            self.settings.upstream,
            self.ledger,
            self.disk,
            self._report,
            self.settings.advertise,
        )
        self._tasks = [asyncio.create_task(each) for each in (self._stay(), self.publisher.run(), self._tidy())]

    def _open_streams(self) -> None:
        """Those that are there, then those that were asked for and are not; a wrong one before any is made."""
        for folder in self._folder.streams():
            condition = self.settings.streams.get(folder.name)
            self.streams[folder.name] = GatewayStream(folder, condition, self.settings.retention, self._clock)
        new = [name for name in self.settings.streams if name not in self.streams]
        if len(self.streams) + len(new) > self.settings.streams_max:
            raise InputError(self._too_many())
        for name in new:
            self.streams[name] = self._made(name, self.settings.streams[name])

    def _made(self, name: str, condition: str) -> GatewayStream:
        return GatewayStream(self._folder.stream(name), condition, self.settings.retention, self._clock)

    def _too_many(self) -> str:
        return (
            f"{self.settings.folder}: there are {len(self.streams)} streams ({', '.join(sorted(self.streams))}) and "
            f"{self.settings.streams_max} are allowed; allow more with --streams-max, or stop the gateway and remove "
            "the folder of one"
        )

    async def stop(self) -> None:
        """Stop taking events, write what has come, and leave."""
        for listener in self._listeners:
            listener.close()
        self.connections.end()
        client, self._client = self._client, None
        if client is not None:
            await client.close(in_haste=True)
            if self._filling:
                await asyncio.wait(self._filling.values(), timeout=_STOP_S)
        for task in (*self._tasks, *self._filling.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._filling.values(), return_exceptions=True)
        for stream in self.streams.values():
            stream.close()
        self.disk.close()
        self.ledger.close()
        self._folder.close()

    # The broker ----------------------------------------------------------------------------------

    async def _stay(self) -> None:
        """Be a client of the broker; the first connection may take as many attempts as it needs."""
        backoff = Backoff(Random(f"{self.name}/gateway"))
        reported = ""
        while self._client is None:
            client = self.settings.upstream.client(f"{self.name}.reads")
            try:
                await client.__aenter__()
            except TransportError as problem:
                if str(problem) != reported:
                    reported = str(problem)
                    self._report(f"{reported} (retrying)")
                await asyncio.sleep(backoff.delay_s())
            else:
                self._client = client
                for stream in self.streams.values():
                    self._fill(stream)
                self._connected.set()
                await self._confirm()
                self._report(f"subscribed at {client.broker}")

    def _fill(self, stream: GatewayStream) -> None:
        if self._client is not None:
            stream.subscribe(self._client, self._report)
            filling = asyncio.create_task(stream.fill())
            filling.add_done_callback(lambda task: self._on_filled(stream.name, task))
            self._filling[stream.name] = filling

    def _on_filled(self, name: str, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._report(f"stream {name}: no longer written, because of an internal error: {task.exception()!r}")

    async def _confirm(self) -> None:
        """Until the broker knows of every stream; what a broken connection left open, the next one is asked."""
        await self._connected.wait()
        client = self._client
        assert client is not None
        while unknown := [each for each in self.streams.values() if not each.is_known]:
            with suppress(TransportError):
                await client.flush()
                for stream in unknown:
                    stream.is_known = True

    async def _tidy(self) -> None:
        while True:
            with suppress(OSError, sqlite3.Error):  # those who write find out, and say so
                for stream in list(self.streams.values()):
                    await stream.drop_old()
                await self.disk.do(self.ledger.give_up_stale, self._clock.now_us() - int(STALE_S * 1e6))
            await asyncio.sleep(_TIDY_S)

    # What connections ask for --------------------------------------------------------------------

    async def open_stream(self, condition: str, name: str) -> GatewayStream:
        """The stream of a condition, made now if there is none; an InputError when it cannot be.

        Whatever is published from now on is for it, unless the broker does not answer for a few seconds.
        """
        text = str(parse(condition))
        opened = await self._opened(text, name)
        if not opened.is_known:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SUBSCRIBE_S):
                    await self._confirm()
        return opened

    async def _opened(self, text: str, name: str) -> GatewayStream:
        async with self._opening:
            known = self.streams.get(name) if name else self._with_condition(text)
            if known is not None:
                if known.condition != text:
                    raise InputError(f"the stream {name} has the condition {known.condition}, not {text}")
                return known
            if len(self.streams) >= self.settings.streams_max:
                raise InputError(self._too_many())
            if name:
                check_name(name)
            made = await asyncio.to_thread(self._made, name or name_for(text), text)
            self.streams[made.name] = made
            self._fill(made)
        self._report(f"stream {made.name}: {made.condition}")
        return made

    def _with_condition(self, text: str) -> GatewayStream | None:
        return next((each for each in self.streams.values() if each.condition == text), None)

    def counts(self) -> dict[str, int]:
        """What it has counted, for monitoring; those of a stream begin with its name."""
        found = {
            "committed": self.ledger.next,
            "published": self.ledger.published,
            "sent_again": self.publisher.sent_again,
            "queries_forgotten": self.ledger.queries_forgotten,
            "connections": len(self.connections),
            "bad_frames": self.connections.bad_frames,
            "refused": self.connections.refused,
        }
        for stream in self.streams.values():
            found |= {f"{stream.name}.{key}": count for key, count in stream.counts().items()}
        return found

"""The listening side of a gateway: one request at a time per connection, each answered or refused.

What comes is not trusted. Bytes that are no request are counted and end their connection; a request that cannot be met
is refused with a reason. While a request is worked on, and while its answer is not taken, nothing more is read.
"""

import asyncio
import sqlite3
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.gateway.ledger import LedgerFullError, NotStagedError
from holdfast.gateway.messages import (
    REASON_CHARACTERS_MAX,
    Abort,
    AckOffset,
    Answer,
    AskCounts,
    AskEnds,
    Commit,
    Committed,
    Confirmed,
    Counts,
    EncodedRows,
    Fetch,
    ListStreams,
    OpenStream,
    Refused,
    Request,
    Stage,
    Staged,
    Streams,
    decode_request_untrusted,
    encode_gateway,
)
from holdfast.gateway.stream import GatewayStream
from holdfast.model.errors import InputError, PeerError
from holdfast.net.clock import Clock
from holdfast.net.wire import Wire
from holdfast.store.log import GoneError
from holdfast.store.segment import LogDamagedError
from holdfast.wire.codec import VERSION
from holdfast.wire.event_encoding import sendable

if TYPE_CHECKING:
    from holdfast.gateway.gateway import Gateway

_CONNECTIONS_MAX = 1_000  # each may hold one unfinished frame; Spark has one for each core and one for each query
_FIRST_REQUEST_S = 10.0  # who has asked nothing by then was not going to


class Connections:
    """All of them, what they have in common, and what they may ask for."""

    def __init__(self, gateway: "Gateway", clock: Clock) -> None:
        self.bad_frames = 0
        self.refused = 0
        self._gateway = gateway
        self._clock = clock
        self._open: dict[_Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, wire: Wire) -> "_Connection":
        made = _Connection(wire, self)
        if len(self._open) >= _CONNECTIONS_MAX:
            self.refused += 1
            asyncio.get_running_loop().call_soon(wire.abort)
        self._open[made] = None
        return made

    def forget(self, connection: "_Connection") -> None:
        self._open.pop(connection, None)

    def end(self) -> None:
        for each in list(self._open):
            each.end()

    async def answer(self, request: Request) -> Answer | EncodedRows:
        """What a request gets. Problems of its own are refusals; anything else is our mistake and surfaces."""
        try:
            return await self._answer(request)
        except _Refusal as refusal:
            return refusal.refused
        except GoneError as problem:
            return Refused("gone", str(problem), problem.oldest)
        except LedgerFullError as problem:
            return Refused("full", str(problem))
        except NotStagedError as problem:
            return Refused("incomplete", str(problem))
        except LogDamagedError as problem:
            return Refused("damaged", str(problem))
        except (OSError, sqlite3.Error) as problem:
            return Refused("full", f"the gateway cannot write: {problem}")
        except InputError as problem:
            return Refused("not possible", str(problem)[:REASON_CHARACTERS_MAX])

    async def _answer(self, request: Request) -> Answer | EncodedRows:
        gateway, ledger, do = self._gateway, self._gateway.ledger, self._gateway.disk.do
        match request:
            case Fetch():
                return await self._fetch(request)
            case AskEnds():
                stream = self._stream(request.stream)
                if request.wait_us:
                    await stream.grown(request.beyond, request.wait_us / 1e6)
                return stream.about()
            case Stage():
                return await self._stage(request)
            case Commit():
                now_us = self._clock.now_us()
                fresh = await do(ledger.commit, request.query, request.batch, request.parts, now_us)
                if fresh:
                    gateway.publisher.wake()
                return Committed(not fresh)
            case Abort():
                await do(ledger.abort, request.query, request.batch, request.parts)
                return Confirmed()
            case AckOffset():
                self._stream(request.stream).log.acknowledge(request.reader, request.end)
                return Confirmed()
            case OpenStream():
                return (await gateway.open_stream(request.condition, request.name)).about()
            case ListStreams():
                return Streams([each.about() for each in gateway.streams.values()])
            case AskCounts():
                return Counts(await do(gateway.counts))

    def _stream(self, name: str) -> GatewayStream:
        found = self._gateway.streams.get(name)
        if found is None:
            there = ", ".join(sorted(self._gateway.streams)) or "none"
            raise _Refusal(Refused("no such stream", f"there is no stream {name!r}; there are: {there}"))
        return found

    async def _fetch(self, request: Fetch) -> EncodedRows:
        stream = self._stream(request.stream)
        log = stream.log
        if request.log != log.id:
            raise _Refusal(Refused("other log", f"the stream {stream.name} has another log than the one asked for"))
        if request.lo > request.hi or request.hi > log.end:
            reason = f"events {request.lo} to {request.hi} of the stream {stream.name}, which ends at {log.end}"
            raise _Refusal(Refused("not yet", reason))
        if request.lo < log.oldest:
            raise GoneError(f"event {request.lo} is no longer in the log, which begins at {log.oldest}", log.oldest)
        return EncodedRows(request.lo, await stream.fetch(request.lo, request.hi))

    async def _stage(self, request: Stage) -> Staged:
        for row in request.rows:
            sendable(row.attributes)
        place = (request.query, request.batch, request.partition, request.attempt, request.part)
        gateway = self._gateway
        staged = await gateway.disk.do(gateway.ledger.stage, *place, request.rows, self._clock.now_us())
        return Staged(committed=not staged)


class _Refusal(Exception):
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class _Connection:
    """One of them; a receiver of frames (net/wire.py)."""

    def __init__(self, wire: Wire, all_: Connections) -> None:
        self._wire = wire
        self._all = all_
        self._writable = True
        self._working: asyncio.Task[None] | None = None
        self._closing = False
        self._timer = asyncio.get_running_loop().call_later(_FIRST_REQUEST_S, self.end)

    def end(self) -> None:
        self._closing = True
        self._timer.cancel()
        self._wire.abort()

    def on_frame(self, frame: bytes | memoryview) -> None:
        self._timer.cancel()
        try:
            request = decode_request_untrusted(frame)
        except PeerError as problem:
            self.on_bad(problem)
            if len(frame) and frame[0] != VERSION:
                spoken = f"this is protocol version {VERSION}, not {frame[0]}"
                self._wire.send(encode_gateway(Refused("version", spoken)))
                self._wire.close()
            else:
                self._wire.abort()
            return
        self._wire.pause()
        self._working = asyncio.get_running_loop().create_task(self._work(self._all.answer(request)))

    async def _work(self, answering: Coroutine[Any, Any, Answer | EncodedRows]) -> None:
        try:
            answer = await answering
        except BaseException:
            self.end()
            raise
        self._working = None
        if not self._closing:
            self._wire.send(encode_gateway(answer))
            self._read_on()

    def _read_on(self) -> None:
        if self._writable and self._working is None and not self._closing:
            self._wire.resume()

    def on_writable(self, writable: bool) -> None:
        self._writable = writable
        self._read_on()

    def on_bad(self, problem: PeerError) -> None:
        self._all.bad_frames += 1
        self._closing = True

    def on_closed(self, reason: str) -> None:
        self._closing = True
        self._timer.cancel()
        self._all.forget(self)
        if self._working is not None:
            self._working.cancel()

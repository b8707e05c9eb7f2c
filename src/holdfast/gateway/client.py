"""Read a gateway's log by offsets, and publish through it so that nothing is published twice.

    async with holdfast.connect_gateway("tcp://127.0.0.1:7100") as gateway:
        cheap = await gateway.open("price < 10")
        async for event in gateway.fetch(cheap, cheap.oldest, cheap.end):
            print(event.offset, event.event)

Spark's source and sink use the same client. Every request may be repeated, so when a connection breaks or the gateway
is restarted, the client dials and asks again for as long as its patience lasts. The first connection is tried
only once, unless `wait_for_it`: a wrong address should be told at once.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from holdfast.gateway.messages import (
    STAGE_AIM,
    WAIT_US_MAX,
    Abort,
    AckOffset,
    Answer,
    AskCounts,
    AskEnds,
    Commit,
    Committed,
    Confirmed,
    Counts,
    EventRows,
    EventToPublish,
    Fetch,
    ListStreams,
    OpenStream,
    Part,
    Refused,
    Request,
    Stage,
    Staged,
    Streams,
    StreamState,
    decode_answer_untrusted,
    encode_gateway,
)
from holdfast.model.errors import HoldfastError, MisuseError, PeerError, TransportError
from holdfast.model.event import Attributes
from holdfast.model.messages import Via
from holdfast.net.address import Address, parse_address
from holdfast.net.backoff import Backoff
from holdfast.net.event_loop import new_loop
from holdfast.net.settings import renamed
from holdfast.net.tls import TlsFiles
from holdfast.net.transport import dial
from holdfast.net.wire import Wire
from holdfast.store.log import GoneError
from holdfast.store.logged import encode_row
from holdfast.wire.event_encoding import sendable

T = TypeVar("T")
A = TypeVar("A", bound=Answer)

PATIENCE_S = 60.0  # a gateway that is restarted is back within seconds, also on a busy machine
_ANSWER_S = WAIT_US_MAX / 1e6 + 30.0  # longer than any request takes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RefusedError(HoldfastError):
    """The gateway cannot do what was asked; `code` says why, for programs."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.code = refused.code


class LoggedEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream's log."""

    offset: int  # its place in the log
    event: Attributes
    payload: bytes
    source: str  # who published it
    seq: int  # its number among the events of that source
    via: Via  # how it came: on the normal way, or by which kind of recovery
    time_us: int  # when it was published, by the publisher's clock
    logged_us: int  # when the gateway got it, by the gateway's clock

    @property
    def time(self) -> datetime:
        """When it was published, by the publisher's clock."""
        return _EPOCH + timedelta(microseconds=self.time_us)


def connect_gateway(
    address: str,
    *,
    certificate: str | None = None,
    key: str | None = None,
    ca: str | None = None,
    patience: float = PATIENCE_S,
    **former: str | None,
) -> "GatewayClient":
    """A client of the gateway at this address; enter it with `async with`."""
    given = {"certificate": certificate, "key": key, "ca": ca} | renamed(former, TlsFiles, "connect_gateway")
    return GatewayClient(parse_address(address), TlsFiles(**given), patience)


class GatewayClient:
    """Reads the logs of a gateway and publishes through it; a connection that breaks is made again."""

    def __init__(
        self,
        address: Address,
        tls: TlsFiles | None = None,
        patience_s: float = PATIENCE_S,
        wait_for_it: bool = False,
    ) -> None:
        self._address = address
        self._tls = tls
        self._patience_s = patience_s
        self._wait_for_it = wait_for_it
        self._line: _Line | None = None
        self._backoff = Backoff(Random())
        self._entered = False

    async def __aenter__(self) -> "GatewayClient":
        self._one_at_a_time = asyncio.Lock()
        if not self._wait_for_it:
            await self._connected()
        self._entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.end("closed")

    # Reading -------------------------------------------------------------------------------------

    async def streams(self) -> list[StreamState]:
        """All that the gateway logs."""
        return (await self._ask(ListStreams(), Streams)).streams

    async def open(self, condition: str, name: str = "") -> StreamState:
        """The stream of a condition. If the gateway has none, it subscribes now, and the log begins now.

        What is published after this returns is for the stream. Where no broker answers, it returns after five seconds.
        """
        return await self._ask(OpenStream(condition, name), StreamState)

    async def ends(self, name: str, beyond: int = -1, wait_s: float = 0.0) -> StreamState:
        """A stream as it is now, its `oldest` offset and its `end`; waits so long for it to end beyond an offset."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        while True:
            left_us = min(WAIT_US_MAX, max(0, int((until_s - loop.time()) * 1e6)))
            found = await self._ask(AskEnds(name, beyond, left_us), StreamState)
            if found.end > beyond or left_us == 0:
                return found

    async def batches(self, stream: StreamState, lo: int, hi: int) -> AsyncIterator[EventRows]:
        """Events from `lo` up to `hi` as they come, many at a time; GoneError when they were dropped."""
        while lo < hi:
            rows = await self._ask(Fetch(stream.name, stream.log, lo, hi), EventRows)
            if rows.first != lo or not 0 < len(rows.rows) <= hi - lo:
                raise TransportError(f"the gateway at {self._address} answered with other events than requested")
            yield rows
            lo += len(rows.rows)

    async def fetch(self, stream: StreamState, lo: int, hi: int) -> AsyncIterator[LoggedEvent]:
        """Events from `lo` up to, not including, `hi`: the same ones each time."""
        async for rows in self.batches(stream, lo, hi):
            for offset, row in enumerate(rows.rows, rows.first):
                yield LoggedEvent(
                    offset, row.attributes, row.payload, row.source, row.seq, row.via, row.time_us, row.logged_us
                )

    async def follow(self, stream: StreamState, start: int) -> AsyncIterator[LoggedEvent]:
        """Events from an offset on, and then those that come."""
        while True:
            now = await self.ends(stream.name, start, WAIT_US_MAX / 1e6)
            async for event in self.fetch(stream, start, max(start, now.end)):
                yield event
            start = max(start, now.end)

    async def acknowledge(self, stream: StreamState, reader: str, end: int) -> None:
        """A hint: this reader will not ask for what comes before an offset again."""
        await self._ask(AckOffset(stream.name, reader, end), Confirmed)

    # Publishing ----------------------------------------------------------------------------------

    async def publish(self, events: Sequence[Mapping[str, object]], query: str, batch: int) -> bool:
        """Publish a batch once, however often this is called; False when it was published before.

        Batches of a query are numbered in order. This returns when the batch is safe with the gateway.
        """
        rows = [EventToPublish(sendable(each)) for each in events]
        part = await self.stage(query, batch, 0, chunks(rows))
        return await self.commit(query, batch, [part])

    async def stage(self, query: str, batch: int, partition: int, rows: Iterator[list[EventToPublish]]) -> Part:
        """Hand over one partition of a batch. It is published when the batch is committed."""
        attempt, count = token_hex(16), 0
        for number, chunk in enumerate(rows):
            staged = await self._ask(Stage(query, batch, partition, attempt, number, chunk), Staged)
            if staged.committed:
                return Part(partition, attempt, 0)
            count += len(chunk)
        return Part(partition, attempt, count)

    async def commit(self, query: str, batch: int, parts: Sequence[Part]) -> bool:
        """Publish what was staged, all of it or nothing; False when the batch was committed before."""
        return not (await self._ask(Commit(query, batch, list(parts)), Committed)).again

    async def abort(self, query: str, batch: int, parts: Sequence[Part]) -> None:
        """Forget what was staged."""
        await self._ask(Abort(query, batch, list(parts)), Confirmed)

    async def counts(self) -> dict[str, int]:
        """What the gateway has counted so far, by name."""
        return (await self._ask(AskCounts(), Counts)).counts

    # The connection ------------------------------------------------------------------------------

    async def _ask(self, request: Request, kind: type[A]) -> A:
        if not self._entered:
            raise MisuseError("enter the client first: async with holdfast.connect_gateway(...) as gateway")
        async with self._one_at_a_time:
            answer = await self._answer(encode_gateway(request))
        if isinstance(answer, Refused):
            raise GoneError(answer.reason, answer.oldest) if answer.code == "gone" else RefusedError(answer)
        if not isinstance(answer, kind):
            raise TransportError(f"the gateway at {self._address} answered with a {type(answer).__name__}")
        return answer

    async def _answer(self, frame: bytes) -> Answer:
        """Ask, and ask again while the gateway is away or has no room."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._patience_s
        self._backoff.reset()
        while True:
            try:
                answer = await (await self._connected()).ask(frame)
                if not (isinstance(answer, Refused) and answer.code == "full") or loop.time() > until_s:
                    return answer
            except TransportError:
                if loop.time() > until_s:
                    raise
            await asyncio.sleep(self._backoff.delay_s())

    async def _connected(self) -> "_Line":
        if self._line is None or self._line.why is not None:
            try:
                await dial(self._address, self._accept, self._tls)
            except TransportError as problem:
                # The transport speaks of what it is usually for.
                raise TransportError(str(problem).replace("is the broker running", "is the gateway running")) from None
        assert self._line is not None
        return self._line

    def _accept(self, wire: Wire) -> "_Line":
        self._line = _Line(wire, self._address)
        return self._line


class _Line:
    """One connection; a receiver of frames (net/wire.py)."""

    def __init__(self, wire: Wire, address: Address) -> None:
        self.why: str | None = None  # it has ended
        self._wire = wire
        self._address = address
        self._answer: asyncio.Future[Answer] | None = None

    async def ask(self, frame: bytes) -> Answer:
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._wire.send(frame)
            async with asyncio.timeout(_ANSWER_S):
                return await self._answer
        except TimeoutError:
            self.end("no answer")
            raise TransportError(f"the gateway at {self._address} does not answer") from None
        except asyncio.CancelledError:
            self.end("given up")  # an answer that nobody waits for would be taken for that to the next request
            raise
        finally:
            self._answer = None

    def end(self, why: str) -> None:
        self.why = self.why or why
        self._wire.abort()

    def on_frame(self, frame: bytes | memoryview) -> None:
        if self._answer is None or self._answer.done():
            self.on_bad(PeerError("an unexpected answer"))
            return
        try:
            self._answer.set_result(decode_answer_untrusted(frame))
        except PeerError as problem:
            self.on_bad(problem)

    def on_writable(self, writable: bool) -> None: ...

    def on_bad(self, problem: PeerError) -> None:
        self.end(f"not a gateway: {problem}")
        self.on_closed("")

    def on_closed(self, reason: str) -> None:
        self.why = self.why or reason
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TransportError(f"no answer from the gateway at {self._address}: {self.why}"))


def chunks(rows: Iterable[EventToPublish]) -> Iterator[list[EventToPublish]]:
    """Events in pieces of the size that suits a request."""
    chunk: list[EventToPublish] = []
    size = 0
    for row in rows:
        length = len(encode_row(row))
        if chunk and size + length > STAGE_AIM:
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


class BlockingGateway:
    """The client for code without an event loop, such as Spark's workers: `do` runs a call of it to its end."""

    def __init__(self, client: GatewayClient) -> None:
        self.client = client
        self._runner = asyncio.Runner(loop_factory=new_loop)
        try:
            self.do(client.__aenter__())
        except BaseException:
            self._runner.close()
            raise

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """What an asynchronous iterator yields."""
        while True:
            try:
                item = self.do(_next(items))
            except StopAsyncIteration:
                return
            yield item

    def close(self) -> None:
        self.do(self.client.__aexit__())
        self._runner.close()

    def __enter__(self) -> "BlockingGateway":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)

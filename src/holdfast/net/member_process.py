"""A member in a process of its own: commands go in by its standard input, reports come out of its standard output.

Both are lines of JSON. The end of its input is the command to stop, so that no broker outlives the run that started
it. A broker that is killed has reported all but its last second.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from signal import SIGCONT, SIGSTOP
from typing import Any

import msgspec

from holdfast.books.rows import Row
from holdfast.matching import collector
from holdfast.model.errors import TransportError
from holdfast.net.address import Address, parse_address
from holdfast.net.member import Member, OnGone, OnWanted
from holdfast.network.schema import LinkSpec
from holdfast.protocol.effects import ReplicaWanted

_REPORT_S = 1.0  # the interval of the `messages` table
_LINE_BYTES_MAX = 64 * 2**20  # a second's incidents when everything goes wrong at once
_START_S = 60.0  # a machine that starts a hundred brokers at once takes its time
_STOP_S = 10.0
_OBEY_S = 10.0  # a broker at its start has much to do; one that hangs must not hold up the others for ever
_ANSWER_S = 3.0  # a broker on a busy machine may be at a large table for so long; one that hangs never answers


class Listen(msgspec.Struct, frozen=True, tag=True):
    address: str


class AddLink(msgspec.Struct, frozen=True, tag=True):
    spec: LinkSpec
    far: str
    address: str | None


class DropLink(msgspec.Struct, frozen=True, tag=True):
    far: str


class SetLink(msgspec.Struct, frozen=True, tag=True):
    far: str
    up: bool


class ProbeBroker(msgspec.Struct, frozen=True, tag=True):
    """Say that you are there."""


class AwaitLink(msgspec.Struct, frozen=True, tag=True):
    far: str


Command = Listen | AddLink | DropLink | SetLink | ProbeBroker | AwaitLink


class NumberedCommand(msgspec.Struct, frozen=True):
    number: int
    command: Command


class CommandDone(msgspec.Struct, frozen=True, tag=True):
    number: int
    answer: str = ""
    problem: str = ""


class ReportedRows(msgspec.Struct, frozen=True, tag=True):
    rows: list[list[Any]]


class ReportedStatus(msgspec.Struct, frozen=True, tag=True):
    status: dict[str, Any]


class ReplicaAsked(msgspec.Struct, frozen=True, tag=True):
    wanted: ReplicaWanted


class ReplicaLeft(msgspec.Struct, frozen=True, tag=True):
    """A relief replica that was released: it can be stopped."""


_encode = msgspec.json.Encoder().encode
_orders: msgspec.json.Decoder[NumberedCommand] = msgspec.json.Decoder(NumberedCommand)
Report = CommandDone | ReportedRows | ReportedStatus | ReplicaAsked | ReplicaLeft
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


# The process itself --------------------------------------------------------------------------------------------


async def serve(member: Member) -> None:
    """Do what is ordered until standard input ends."""
    collector.own_process()
    member.on_wanted = lambda wanted: _write_report(ReplicaAsked(wanted))
    member.on_released = lambda name: _write_report(ReplicaLeft())
    reader = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    waiting: set[asyncio.Task[None]] = set()
    reporting: asyncio.Task[None] | None = None
    while line := await reader.readline():
        order = _orders.decode(line)
        if isinstance(order.command, AwaitLink):  # the only one that takes its time
            task = asyncio.create_task(_obey(member, order))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        else:
            await _obey(member, order)
        if isinstance(order.command, Listen):
            reporting = asyncio.create_task(_report(member))
    for task in (*waiting, *([reporting] if reporting else ())):
        task.cancel()
    if reporting is not None:
        await member.stop()
        _write_report(ReportedRows([list(row) for row in member.take_rows()]))


async def _obey(member: Member, order: NumberedCommand) -> None:
    try:
        answer = ""
        match order.command:
            case Listen(address):
                answer = str(await member.start(parse_address(address)))
            case AddLink(spec, far, address):
                await member.link(spec, far, None if address is None else parse_address(address))
            case DropLink(far):
                await member.unlink(far)
            case SetLink(far, up):
                await member.set_link(far, up)
            case AwaitLink(far):
                await member.connected(far)
        _write_report(CommandDone(order.number, answer))
    except TransportError as problem:
        _write_report(CommandDone(order.number, problem=str(problem)))


async def _report(member: Member) -> None:
    while True:
        await asyncio.sleep(_REPORT_S)
        _write_report(ReportedRows([list(row) for row in member.take_rows()]))
        _write_report(ReportedStatus(member.status()))


def _write_report(report: Report) -> None:
    data = memoryview(_encode(report) + b"\n")
    while data:
        data = data[os.write(1, data) :]


# As the run sees it --------------------------------------------------------------------------------------------


class MemberProcess:
    def __init__(
        self, name: str, command: Sequence[str], on_rows: Callable[[list[Row]], None], on_wanted: OnWanted
    ) -> None:
        self.name = name
        self.on_gone: OnGone = lambda name: None
        self.on_released: OnGone = lambda name: None
        self._status: dict[str, Any] | None = None  # its last, a second old at most while it runs
        self._is_ending = False  # we have asked for it
        self._on_wanted = on_wanted
        self._command = command
        self._on_rows = on_rows
        self._process: asyncio.subprocess.Process
        self._reading: asyncio.Task[None]
        self._orders: dict[int, asyncio.Future[str]] = {}
        self._number = 0

    async def start(self, listen: Address) -> Address:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=pipe,
            stdout=pipe,
            limit=_LINE_BYTES_MAX,
            start_new_session=True,  # Ctrl-C is for us; we then stop the brokers in good order
        )
        self._reading = asyncio.create_task(self._read())
        try:
            return parse_address(await self._order(Listen(str(listen)), _START_S))
        except TransportError:
            await self.crash()  # it would wait for orders
            raise

    def status(self) -> dict[str, Any] | None:
        return self._status

    async def link(self, spec: LinkSpec, far: str, address: Address | None) -> None:
        await self._order(AddLink(spec, far, None if address is None else str(address)))

    async def unlink(self, far: str) -> None:
        await self._order(DropLink(far))

    async def set_link(self, far: str, up: bool) -> None:
        await self._order(SetLink(far, up))

    async def connected(self, far: str) -> None:
        await self._order(AwaitLink(far), _START_S)

    async def answers(self) -> bool:
        try:
            await self._order(ProbeBroker(), _ANSWER_S)
        except TransportError:
            return False
        return True

    async def hang(self) -> None:
        self._signal(SIGSTOP)

    async def resume(self) -> None:
        self._signal(SIGCONT)

    def _signal(self, signal: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal)

    async def crash(self) -> None:
        self._is_ending = True
        with suppress(ProcessLookupError):  # somebody else was quicker
            self._process.kill()
        await self._end()

    async def stop(self) -> None:
        self._is_ending = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._end()
        except TimeoutError:
            await self.crash()

    async def _end(self) -> None:
        await self._process.wait()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _order(self, command: Command, patience_s: float = _OBEY_S) -> str:
        """Its answer. One that hangs holds up nobody for long: it does as it was told when it goes on."""
        if self._reading.done():
            raise TransportError(f"the broker {self.name} has ended")
        self._number += 1
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._orders[self._number] = answer
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # it has died, which the reader finds out
            self._process.stdin.write(_encode(NumberedCommand(self._number, command)) + b"\n")
            await self._process.stdin.drain()
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            raise TransportError(f"the broker {self.name} does not answer within {patience_s:g} s") from None

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                report = _reports.decode(line)
                if isinstance(report, ReportedRows):
                    self._on_rows([tuple(row) for row in report.rows])
                elif isinstance(report, ReportedStatus):
                    self._status = report.status
                elif isinstance(report, ReplicaAsked):
                    self._on_wanted(report.wanted)
                elif isinstance(report, ReplicaLeft):
                    self.on_released(self.name)
                else:
                    self._finish(report)
        finally:
            if not self._is_ending:
                self.on_gone(self.name)
            for answer in self._orders.values():
                if not answer.done():
                    answer.set_exception(TransportError(f"the broker {self.name} has ended"))

    def _finish(self, done: CommandDone) -> None:
        answer = self._orders.pop(done.number)
        if answer.done():
            return
        if done.problem:
            answer.set_exception(TransportError(done.problem))
        else:
            answer.set_result(done.answer)

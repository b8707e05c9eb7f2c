"""The rules of a transport, each as a check.

    from holdfast.testing.transports import CHECKS, Transport

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_transport(check):
        asyncio.run(check(Transport(parse_address("tcp://127.0.0.1:0"), my_listen, my_dial)))

`listen(address, accept)` gives a listener and `dial(address, accept)` a wire to one; port 0 is any free port. A check
raises AssertionError with the rule that is broken. What only streams promise is not asked of a wire that is not
`reliable`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.model.errors import MisuseError, PeerError, TransportError
from holdfast.net.address import Address
from holdfast.net.wire import Accept, Listener, Wire
from holdfast.wire.signals import Hello, Refusal, encode_signal

_PATIENCE_S = 30.0  # a machine under load is slow, and a check that waits this long has failed
_FLOOD_BYTES_MAX = 256 * 2**20  # no buffers of a kernel hold as much, so a wire has said that it is full before

_FIRST = encode_signal(Hello("checked", "client", 1))  # wires begin with a signal
_ANSWER = encode_signal(Refusal("full", "only a check"))


@dataclass(frozen=True)
class Transport:
    anywhere: Address  # where to listen
    listen: Callable[[Address, Accept], Awaitable[Listener]]
    dial: Callable[[Address, Accept], Awaitable[Wire]]


class End:
    """One end of a wire: keeps what it is told."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.frames: list[bytes] = []
        self.writable: list[bool] = []
        self.closed: list[str] = []
        self._changed = asyncio.Event()

    def on_frame(self, frame: bytes | memoryview) -> None:
        assert not self.closed, "nothing is told after on_closed"
        self.frames.append(bytes(frame))
        self._changed.set()

    def on_writable(self, writable: bool) -> None:
        assert not self.closed, "nothing is told after on_closed"
        self.writable.append(writable)
        self._changed.set()

    def on_bad(self, problem: PeerError) -> None:
        raise AssertionError(f"good frames are taken for bad: {problem}")

    def on_closed(self, reason: str) -> None:
        assert reason, "a reason is given"
        self.closed.append(reason)
        self._changed.set()

    async def until(self, true: Callable[[], object], rule: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(rule) from None

    async def has_frames(self, count: int, rule: str) -> None:
        await self.until(lambda: len(self.frames) >= count, rule)

    async def has_ended(self, rule: str) -> None:
        await self.until(lambda: self.closed, rule)


class Bench:
    """A listener and the pairs of ends that were made with it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._arrived: asyncio.Queue[End] = asyncio.Queue()
        self._ends: list[End] = []
        self.listener: Listener

    async def __aenter__(self) -> "Bench":
        self.listener = await self._transport.listen(self._transport.anywhere, self._accept)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()
        for end in self._ends:
            end.wire.abort()
        for end in self._ends:
            await end.has_ended("a wire that is aborted is closed")

    def _accept(self, wire: Wire) -> End:
        end = End(wire)
        self._ends.append(end)
        self._arrived.put_nowait(end)
        return end

    async def dial(self) -> End:
        made: list[End] = []

        def accept(wire: Wire) -> End:
            made.append(End(wire))
            self._ends.append(made[0])
            return made[0]

        await self._transport.dial(self.listener.address, accept)
        return made[0]

    async def pair(self) -> tuple[End, End]:
        """Who dialled and who was dialled, both having heard of each other."""
        dialled = await self.dial()
        dialled.wire.send(_FIRST)
        async with asyncio.timeout(_PATIENCE_S):
            listening = await self._arrived.get()
        await listening.until(lambda: listening.frames == [_FIRST], "the first frame arrives")
        listening.wire.send(_ANSWER)
        await dialled.until(lambda: dialled.frames == [_ANSWER], "the answer arrives")
        dialled.frames.clear()
        listening.frames.clear()
        return dialled, listening


def _frame(number: int, size: int) -> bytes:
    return (b"\x01\x00" + number.to_bytes(4, "big") * (size // 4 + 1))[:size]


async def frames_arrive_whole_and_unchanged(transport: Transport) -> None:
    async with Bench(transport) as bench:
        for one, other in (await bench.pair(), (await bench.pair())[::-1]):
            wire = one.wire
            for size in (3, 4, 100, wire.frame_aim - 1, wire.frame_aim, wire.frame_max // 2, wire.frame_max):
                sent = _frame(size, size)
                wire.send(sent)
                await other.has_frames(1, f"a frame of {size} bytes arrives")
                assert other.frames == [sent], f"a frame of {size} bytes arrives unchanged"
                other.frames.clear()


async def frames_keep_their_order(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        if not one.wire.reliable:
            return
        sent = [_frame(number, 3 + number * 7 % 5_000) for number in range(3_000)]
        for each in sent:
            one.wire.send(each)
            other.wire.send(each)
        for end in (one, other):
            await end.has_frames(len(sent), "all frames arrive")
            assert end.frames == sent, "frames arrive in the order they were sent"


async def wires_do_not_mix(transport: Transport) -> None:
    async with Bench(transport) as bench:
        pairs = [await bench.pair() for _ in range(10)]
        for number, (one, other) in enumerate(pairs):
            one.wire.send(_frame(number, 40))
            other.wire.send(_frame(number + 100, 40))
        for number, (one, other) in enumerate(pairs):
            await other.has_frames(1, "a frame arrives on its own wire")
            await one.has_frames(1, "a frame arrives on its own wire")
            assert (one.frames, other.frames) == ([_frame(number + 100, 40)], [_frame(number, 40)])


async def closing_sends_what_was_handed_over(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        if not one.wire.reliable:
            return
        sent = [_frame(number, 5_000) for number in range(1_000)]
        for each in sent:
            one.wire.send(each)
        one.wire.close()
        await other.has_ended("the other end learns of a close")
        assert other.frames == sent, "all that was handed over before a close arrives"


async def the_end_is_told_once(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        one.wire.close()
        one.wire.close()
        one.wire.abort()
        one.wire.send(_frame(1, 10))
        await one.has_ended("a closed wire tells its own end")
        one.wire.abort()
        one.wire.pause()
        one.wire.resume()
        one.wire.send(_frame(2, 10))
        if one.wire.reliable:
            await other.has_ended("the other end learns of it")
        again = await bench.pair()  # the event loop has turned many times when this is done
        assert again[0].wire is not one.wire
        assert len(one.closed) == 1, "the end is told exactly once"
        assert other.frames == [], "nothing that is sent after the end arrives"


async def an_abort_reaches_the_other_end(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        if not one.wire.reliable:
            return
        other.wire.abort()
        await one.has_ended("an abort reaches the other end")


async def too_large_a_frame_is_our_own_mistake(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        try:
            one.wire.send(bytes(one.wire.frame_max + 1))
        except MisuseError:
            pass
        else:
            raise AssertionError("a frame larger than frame_max is refused with MisuseError")
        one.wire.send(_frame(1, 10))
        await other.has_frames(1, "the wire works on")


async def a_full_wire_says_so_and_loses_nothing(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        if not one.wire.reliable:
            return
        other.wire.pause()
        other.wire.pause()
        size, sent = 50_000, 0
        while one.writable[-1:] != [False]:
            assert sent * size < _FLOOD_BYTES_MAX, "a wire whose other end does not read says that it is full"
            one.wire.send(_frame(sent, size))
            sent += 1
            await asyncio.sleep(0)
        assert len(other.frames) < sent, "a paused wire hands nothing on"
        before = len(other.frames)
        other.wire.resume()
        await other.has_frames(sent, "what was held up arrives")
        await one.until(lambda: one.writable[-1:] == [True], "a wire with room again says so")
        assert before < sent
        assert other.frames == [_frame(number, size) for number in range(sent)], "and in order"


async def a_port_is_taken_once(transport: Transport) -> None:
    async with Bench(transport) as bench:
        taken = bench.listener.address
        try:
            (await transport.listen(taken, End)).close()
        except TransportError as problem:
            assert str(taken) in str(problem), "the address is named"
        else:
            raise AssertionError("a second listener on the same port is refused with TransportError")


async def a_closed_listener_takes_nobody_in_and_lets_the_others_live(transport: Transport) -> None:
    async with Bench(transport) as bench:
        one, other = await bench.pair()
        bench.listener.close()
        if one.wire.reliable:
            try:
                await bench.dial()
            except TransportError:
                pass
            else:
                raise AssertionError("dialling where nobody listens is refused with TransportError")
        one.wire.send(_frame(1, 10))
        await other.has_frames(1, "wires that were open live on")


CHECKS: tuple[Callable[[Transport], Awaitable[None]], ...] = (
    frames_arrive_whole_and_unchanged,
    frames_keep_their_order,
    wires_do_not_mix,
    closing_sends_what_was_handed_over,
    the_end_is_told_once,
    an_abort_reaches_the_other_end,
    too_large_a_frame_is_our_own_mistake,
    a_full_wire_says_so_and_loses_nothing,
    a_port_is_taken_once,
    a_closed_listener_takes_nobody_in_and_lets_the_others_live,
)

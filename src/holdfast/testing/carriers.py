"""The rules of a carrier, each as a check.

    from holdfast.testing.carriers import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_carrier(check):
        asyncio.run(check(lambda: MyCarrier("mybus://127.0.0.1:9999")))

The function makes a connection that is not made yet, to a bus that is up and loses nothing while nobody is slow. A
check raises AssertionError with the rule that is broken. Lanes are drawn anew in each check, so that a bus may be used
for all of them, and by others. `no_answer_is_an_error` needs no bus: it asks for connections to a place of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex

from holdfast.carriers.carrier import BusCarrier, BusMessage, EchoingCarrier
from holdfast.language.lanes import ANY, Lane, Token, exactly, token_of
from holdfast.model.errors import TransportError

_PATIENCE_S = 30.0  # a machine under load is slow, and a check that waits this long has failed
_MANY = 1_000  # messages in a row
_NASTY = ("a.b", "a/b", "*", ">", "#", "+", "$", "a b", "ä€", "", "~", "%2E", "x" * 300, "[a]", "?", ",", ":", '"')

NewConnection = Callable[[], BusCarrier]
ConnectionTo = Callable[[str, int], BusCarrier]  # a host and a port


class Rider:
    """A passenger that keeps what it is told."""

    def __init__(self, slow: bool = False) -> None:
        self.came: list[BusMessage] = []
        self.down: list[str] = []
        self.dropped = 0
        self._slow = slow
        self._changed = asyncio.Event()
        self.may_go_on = asyncio.Event()

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        assert not self.down, "nothing comes after on_down"
        self.came.append(message)
        self._changed.set()
        return self._waited() if self._slow and not self.may_go_on.is_set() else None

    async def _waited(self) -> None:
        await self.may_go_on.wait()

    def on_dropped(self, messages: int) -> None:
        self.dropped += messages

    def on_down(self, reason: str) -> None:
        assert reason, "a reason is given"
        self.down.append(reason)
        self._changed.set()

    async def has(self, count: int, rule: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while len(self.came) < count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{rule}; {len(self.came)} of {count} messages have come") from None


async def _connected(new: NewConnection, slow: bool = False) -> tuple[BusCarrier, Rider]:
    carrier, rider = new(), Rider(slow)
    await carrier.connect(rider)
    return carrier, rider


def _lane(*tokens: str) -> Lane:
    return (f"check-{token_hex(4)}", *tokens)


async def comes_as_it_left(new: NewConnection) -> None:
    """What is published comes with its lane, payload and headers, to whoever has subscribed to its lane."""
    (publisher, _), (subscriber, rider) = await _connected(new), await _connected(new)
    lane = _lane("a", "b")
    await subscriber.subscribe([exactly(lane)])
    payloads = [b"", b"\x00\xff\xc1hf", "text ä".encode(), bytes(range(256)) * 200]
    headers = {"Holdfast": "a-1 17 - %C3%A4"} if publisher.has_headers else {}
    for each in payloads:
        await publisher.publish([BusMessage(lane, each, headers)])
    await publisher.flush()
    await rider.has(len(payloads), "what is published comes")
    assert [each.payload for each in rider.came] == payloads, "payloads come as they left, in order"
    assert {each.lane for each in rider.came} == {lane}, f"the lane is told as {rider.came[0].lane}, not {lane}"
    if publisher.has_headers:
        assert all(each.headers.get("Holdfast") == headers["Holdfast"] for each in rider.came), "headers come"
    await publisher.close()
    await subscriber.close()


async def only_wanted_lanes(new: NewConnection) -> None:
    """A pattern brings the lanes that it matches, and no others; one that was left brings nothing more."""
    (publisher, _), (subscriber, rider) = await _connected(new), await _connected(new)
    base = _lane()[0]
    one, any_second = exactly((base, "a", "x")), (Token("exact", base), ANY, Token("exact", "y"))
    await subscriber.subscribe([one, any_second])
    for tokens in (("a", "x"), ("b", "x"), ("a", "y"), ("b", "y"), ("b", "y", "z"), ("y",)):
        await publisher.publish([BusMessage((base, *tokens), "/".join(tokens).encode())])
    await publisher.flush()
    await rider.has(3, "patterns bring what they match")
    await subscriber.unsubscribe([one])
    await publisher.publish([BusMessage((base, "a", "x"), b"left")])
    await publisher.publish([BusMessage((base, "a", "y"), b"last")])
    await publisher.flush()
    await rider.has(4, "what is still wanted comes")
    assert sorted(each.payload for each in rider.came) == [b"a/x", b"a/y", b"b/y", b"last"], "nothing else comes"
    await publisher.close()
    await subscriber.close()


async def any_value_can_be_a_token(new: NewConnection) -> None:
    """Tokens that are made from values mean nothing special to the bus."""
    (publisher, _), (subscriber, rider) = await _connected(new), await _connected(new)
    base = _lane()[0]
    lanes = [(base, token_of(each)) for each in _NASTY]
    assert len(set(lanes)) == len(lanes), "different values have different tokens"
    await subscriber.subscribe([exactly(lane) for lane in lanes])
    for at, lane in enumerate(lanes):
        await publisher.publish([BusMessage(lane, str(at).encode())])
    await publisher.flush()
    await rider.has(len(lanes), "every value is a lane of its own")
    await asyncio.sleep(0)
    assert sorted(int(each.payload) for each in rider.came) == list(range(len(lanes))), "each message comes once"
    assert all(each.lane == lanes[int(each.payload)] for each in rider.came), "with its lane"
    await publisher.close()
    await subscriber.close()


async def prefixes_if_it_has_them(new: NewConnection) -> None:
    """A bus that knows prefixes brings what begins so."""
    (publisher, _), (subscriber, rider) = await _connected(new), await _connected(new)
    base = _lane()[0]
    if publisher.prefixes:
        await subscriber.subscribe([(Token("exact", base), Token("prefix", "ab"), ANY)])
        for token in ("ab", "abc", "a", "xab"):
            await publisher.publish([BusMessage((base, token, "x"), token.encode())])
        await publisher.publish([BusMessage((base, "abz", "last"), b"last")])
        await publisher.flush()
        await rider.has(3, "what begins with the prefix comes")
        assert sorted(each.payload for each in rider.came) == [b"ab", b"abc", b"last"], "and nothing else"
    await publisher.close()
    await subscriber.close()


async def many_in_a_row(new: NewConnection) -> None:
    """Many messages come in order to one who takes them; one who takes none for a while holds up no other."""
    (publisher, _), (subscriber, rider) = await _connected(new), await _connected(new)
    slow, slow_rider = await _connected(new, slow=True)
    lane = _lane("many")
    await subscriber.subscribe([exactly(lane)])
    await slow.subscribe([exactly(lane)])
    for at in range(_MANY):
        await publisher.publish([BusMessage(lane, str(at).encode())])
    await publisher.flush()
    await rider.has(_MANY, "a slow subscriber holds up no other")
    assert [int(each.payload) for each in rider.came] == list(range(_MANY)), "in order"
    assert len(slow_rider.came) < _MANY, "who asks for time is given some"
    slow_rider.may_go_on.set()
    if not slow_rider.dropped:
        await slow_rider.has(_MANY, "what waited comes")
    for each in (publisher, subscriber, slow):
        await each.close()


async def leaving_is_silent(new: NewConnection) -> None:
    """Closing is not told as a failure, may be done twice, and ends what can be done with it."""
    (publisher, rider), (other, _) = await _connected(new), await _connected(new)
    lane = _lane("closed")
    await publisher.subscribe([exactly(lane)])
    await publisher.close()
    await publisher.close()
    assert not rider.down, "closing is no failure"
    await other.publish([BusMessage(lane, b"late")])
    await other.flush()
    assert not rider.came, "nothing comes to who has left"
    try:
        await publisher.publish([BusMessage(lane, b"late")])
        await publisher.flush()
    except TransportError:
        pass
    else:
        raise AssertionError("publishing on a closed connection is a TransportError")
    await other.close()


async def no_answer_is_an_error(new: ConnectionTo) -> None:
    """Who accepts and never answers is given up, and so is who hangs up; each can be dialled again."""
    silent, leaving = _Silent(hangs_up=False), _Silent(hangs_up=True)
    for server, who in ((silent, "a server that never answers"), (leaving, "a server that hangs up")):
        listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
        for attempt in (1, 2):
            await _given_up(new(*listening.sockets[0].getsockname()[:2]), who)
            assert server.dialled >= attempt, "each connection dials"
        listening.close()


class _Silent:
    """A server that says nothing."""

    def __init__(self, hangs_up: bool) -> None:
        self.dialled = 0
        self._hangs_up = hangs_up

    async def accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.dialled += 1
        if self._hangs_up:
            writer.transport.abort()


async def _given_up(carrier: BusCarrier, who: str) -> None:
    task = asyncio.create_task(carrier.connect(Rider()))
    await asyncio.wait([task], timeout=_PATIENCE_S)
    assert task.done(), f"{who} is given up within {_PATIENCE_S:g} s"
    assert not task.cancelled(), f"{who} is a TransportError, not CancelledError"
    problem = task.exception()
    assert isinstance(problem, TransportError), f"{who} is a TransportError, not {problem!r}"


class _Marked(Rider):
    """Notes how many messages had come before one to itself, in the same turn of the event loop or earlier."""

    def __init__(self, mark: Lane) -> None:
        super().__init__()
        self._mark = mark
        self.before = -1

    def on_message(self, message: BusMessage) -> Awaitable[None] | None:
        if message.lane != self._mark:
            return super().on_message(message)
        asyncio.get_running_loop().call_soon(self._note)
        return None

    def _note(self) -> None:
        self.before = len(self.came)
        self._changed.set()

    async def has_mark(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while self.before < 0:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError("a message to itself comes") from None


async def hears_itself_behind_others(new: NewConnection) -> None:
    """A message to itself comes, and behind what others had published before: so it knows how far behind it is."""
    lane, mark = _lane("a"), _lane("mark")
    (publisher, _), subscriber, rider = await _connected(new), new(), _Marked(mark)
    await subscriber.connect(rider)
    await subscriber.subscribe([exactly(lane), exactly(mark)])
    await publisher.publish([BusMessage(lane, str(at).encode()) for at in range(_MANY)])
    await publisher.flush()
    message = BusMessage(mark, b"mark")
    if isinstance(subscriber, EchoingCarrier):
        await subscriber.echo(message)
    else:
        await subscriber.publish([message])
    await rider.has_mark()
    assert rider.before == _MANY, f"a message to itself came behind {rider.before} of {_MANY} that were there before"
    await publisher.close()
    await subscriber.close()


CHECKS: tuple[Callable[[NewConnection], Awaitable[None]], ...] = (
    comes_as_it_left,
    only_wanted_lanes,
    any_value_can_be_a_token,
    prefixes_if_it_has_them,
    many_in_a_row,
    hears_itself_behind_others,
    leaving_is_silent,
)

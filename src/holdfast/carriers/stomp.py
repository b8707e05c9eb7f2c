"""ActiveMQ and Artemis over STOMP 1.2, by stomp.py: `stomp://user:password@host:port`.

Lanes are topics. A topic without durable subscribers keeps nothing: what is in the server when it dies, or beyond the
limits of a slow consumer, is lost.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any

import stomp
from stomp.exception import StompException

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import NO_HEADERS, BusMessage, Headers, Passenger
from holdfast.carriers.thread_feed import ThreadFeed
from holdfast.language.lanes import Pattern
from holdfast.model.errors import TransportError
from holdfast.model.event import RESERVED

_CONNECT_S = 5.0  # with the answer, for which stomp.py would wait for ever
_HEARTBEAT_MS = 2_000  # in both directions
_ANSWER_S = 30.0
_CONNECTED = "connected"  # the receipt, so to say, for connecting
_TOPIC = "/topic/"
_SELECTING = "ActiveMQ/"  # it makes numbers of headers, which are texts, where a selector compares them with one
_OWN = "Holdfast"  # how our headers begin; the others are the protocol's

# What is worth a word is told to the passenger; without a handler a broken send would be a traceback on stderr.
logging.getLogger("stomp.py").addHandler(logging.NullHandler())


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Called in a thread of stomp.py's."""

    def __init__(self, on_message: Callable[[Any], None], on_receipt: Callable[[str, str], None], on_down: Any) -> None:
        self._on_message, self._on_receipt, self._on_down = on_message, on_receipt, on_down
        self._problem = ""
        self.server = ""  # what it says it is

    def on_connected(self, frame: Any) -> None:
        self.server = frame.headers.get("server", "")
        self._on_receipt(_CONNECTED, "")

    def on_message(self, frame: Any) -> None:
        self._on_message(frame)

    def on_receipt(self, frame: Any) -> None:
        self._on_receipt(frame.headers["receipt-id"], "")

    def on_error(self, frame: Any) -> None:
        self._problem = frame.headers.get("message", "an error of the server")
        if "receipt-id" in frame.headers:
            self._on_receipt(frame.headers["receipt-id"], self._problem)

    def on_heartbeat_timeout(self) -> None:
        self._problem = "no heartbeat"

    def on_disconnected(self) -> None:
        self._on_down(self._problem or "disconnected")


class StompCarrier:
    has_headers = True
    prefixes = False
    payload_max = 16 * 1024 * 1024  # far below what either server takes

    def __init__(self, address: BusAddress) -> None:
        self._address = address
        self._passenger: Passenger
        self._connection: Any = None
        self._closed = False
        self._ids = count(1)
        self._selector = ""
        self._selects = False
        self._subscriptions: dict[Pattern, str] = {}
        self._receipts: dict[str, asyncio.Future[None]] = {}
        self._feed: ThreadFeed

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        feed = self._feed = ThreadFeed(passenger)
        beats = (_HEARTBEAT_MS, _HEARTBEAT_MS)
        place = [(self._address.host, self._address.port)]
        connection = self._connection = stomp.Connection12(
            place, auto_decode=False, heartbeats=beats, reconnect_attempts_max=1, timeout=_CONNECT_S
        )
        listener = _Listener(
            self._on_frame,
            lambda receipt, problem: feed.call(self._on_receipt, receipt, problem),
            lambda reason: feed.call(self._on_down, reason),
        )
        connection.set_listener("", listener)
        waiter = self._receipts[_CONNECTED] = asyncio.get_running_loop().create_future()
        try:
            user, password = self._address.user, self._address.password
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.gather(asyncio.to_thread(connection.connect, user, password), waiter)
            self._selects = listener.server.startswith(_SELECTING)
        except (StompException, OSError, TimeoutError, TransportError) as problem:
            self._closed = True
            feed.close()
            await asyncio.to_thread(connection.transport.disconnect_socket)
            reason = str(problem) or "no STOMP server answers"
            raise TransportError(f"cannot connect to {self._address}: {reason}") from None

    def _on_frame(self, frame: Any) -> None:
        headers = {name: value for name, value in frame.headers.items() if name.startswith(_OWN)}
        lane = tuple(frame.headers["destination"].removeprefix(_TOPIC).split("."))
        body = frame.body if isinstance(frame.body, bytes) else (frame.body or "").encode()
        if not self._closed:
            self._feed.put(BusMessage(lane, body, headers or NO_HEADERS))

    def _on_receipt(self, receipt: str, problem: str) -> None:
        waiter = self._receipts.pop(receipt, None)
        if waiter is not None and not waiter.done():
            if problem:
                waiter.set_exception(TransportError(f"{self._address}: {problem}"))
            else:
                waiter.set_result(None)

    def _on_down(self, reason: str) -> None:
        for each in self._receipts.values():
            if not each.done():
                each.set_exception(TransportError(f"{self._address}: {reason}"))
        self._receipts.clear()
        if not self._closed:
            self._closed = True
            self._passenger.on_down(f"{self._address}: {reason}")

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        self._check_open()
        await asyncio.to_thread(self._send_all, messages)

    def _send_all(self, messages: Sequence[BusMessage]) -> None:
        try:
            for each in messages:
                self._connection.send(_TOPIC + ".".join(each.lane), each.payload, headers=dict(each.headers))
        except (StompException, OSError) as problem:
            raise TransportError(f"{self._address}: {str(problem) or 'not connected'}") from None

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        for each in patterns:
            topic = _TOPIC + ".".join(token.text if token.kind == "exact" else "*" for token in each)
            id_ = self._subscriptions[each] = str(next(self._ids))
            said = {"selector": self._selector} if self._selector and not _is_control(each) else {}
            await self._confirmed(partial(self._connection.subscribe, topic, id_), said)

    async def select(self, selector: str) -> None:
        """Subscribe anew before the old subscriptions end: what comes by both is dropped once by who asked for it."""
        if selector == self._selector or not self._selects:
            return
        self._selector = selector
        before = {each: id_ for each, id_ in self._subscriptions.items() if not _is_control(each)}
        await self.subscribe(before)
        for id_ in before.values():
            await self._confirmed(partial(self._connection.unsubscribe, id_))

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        for each in patterns:
            id_ = self._subscriptions.pop(each)
            await self._confirmed(partial(self._connection.unsubscribe, id_))

    async def flush(self) -> None:
        """A server handles what a connection sends in order: a receipt says that it has all that was before."""
        await self._confirmed(partial(self._connection.send, f"{_TOPIC}~holdfast.flush", b""))

    async def _confirmed(self, command: Callable[..., None], headers: Headers = NO_HEADERS) -> None:
        """Send a command, and wait for the server's receipt."""
        self._check_open()
        receipt = f"r{next(self._ids)}"
        waiter = self._receipts[receipt] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.to_thread(command, headers={"receipt": receipt, **headers})
            async with asyncio.timeout(_ANSWER_S):
                await waiter
        except (StompException, OSError, TimeoutError) as problem:
            raise TransportError(f"{self._address}: {str(problem) or 'no answer'}") from None

    async def close(self) -> None:
        was_open, self._closed = not self._closed, True
        self._feed.close()
        if was_open and self._connection is not None:
            try:
                await asyncio.to_thread(self._connection.disconnect)
            except (StompException, OSError):
                return

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError(f"{self._address}: the connection is gone")


def _is_control(pattern: Pattern) -> bool:
    """What clients say to each other is for whom it is for, whatever they want of events."""
    return pattern[0].text.startswith(RESERVED)

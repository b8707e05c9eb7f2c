"""Zenoh, by eclipse-zenoh, as a client of a router: `zenoh://host:port`.

A router drops nothing while publishers wait for room, as ours do (congestion control BLOCK), and no link breaks. Key
expressions know prefixes. Headers travel as an attachment, as JSON. What a session publishes does not come back to it
from the router, so an echo is the answer to a query, which stands behind what the router had for us.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from queue import Queue
from threading import Thread
from typing import Any

import msgspec
import zenoh
from zenoh.handlers import Callback

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import NO_HEADERS, BusMessage, Headers, Passenger
from holdfast.carriers.thread_feed import ThreadFeed
from holdfast.language.lanes import Pattern
from holdfast.model.errors import TransportError

_CONNECT_MS = 5_000
_LOOK_S = 0.2  # between looks whether the router is there
_ARRIVED_MAX = 256  # messages that wait for our thread, as many as in the library's own queues; then the router waits
_BARRIER_S = 2.0  # for a router without an administration space, which does not answer


class ZenohCarrier:
    has_headers = True
    prefixes = True
    payload_max = 16 * 1024 * 1024  # fragments are put together up to 1 GiB; nothing of ours is as large

    def __init__(self, address: BusAddress) -> None:
        self._address = address
        self._passenger: Passenger
        self._session: Any = None
        self._subscribers: dict[Pattern, Any] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._closed = False
        self._feed: ThreadFeed | None = None
        # All that comes, in order: by itself the library has such a queue and a thread for each subscription.
        self._arrived: Queue[Any] = Queue(_ARRIVED_MAX)

    async def connect(self, passenger: Passenger) -> None:
        self._passenger = passenger
        endpoint = f"tcp/{self._address.host}:{self._address.port}"
        config = zenoh.Config()
        for key, value in (
            ("mode", "client"),
            ("connect/endpoints", [endpoint]),
            ("connect/timeout_ms", _CONNECT_MS),
            ("connect/exit_on_failure", True),
            ("scouting/multicast/enabled", False),
        ):
            config.insert_json5(key, json.dumps(value))
        try:
            self._session = await asyncio.to_thread(zenoh.open, config)
        except zenoh.ZError as problem:
            raise TransportError(f"cannot connect to {self._address}: {str(problem).splitlines()[0]}") from None
        self._router = str(next(iter(self._session.info.routers_zid()), ""))
        self._watcher = asyncio.create_task(self._watch())
        self._feed = ThreadFeed(self._passenger)
        Thread(target=self._hand_on, args=(self._feed,), name="zenoh-feed", daemon=True).start()

    async def _watch(self) -> None:
        """The session connects again by itself; but then it was away, and its passenger has to know."""
        while True:
            await asyncio.sleep(_LOOK_S)
            routers = await asyncio.to_thread(lambda: [str(each) for each in self._session.info.routers_zid()])
            if self._router not in routers and not self._closed:
                self._closed = True
                self._passenger.on_down(f"{self._address}: the router is gone")
                return

    def _hand_on(self, feed: ThreadFeed) -> None:
        """In a thread of its own, until the session is closed: whoever puts something there must not wait for ever."""
        while (each := self._arrived.get()) is not None:
            if not self._closed:
                feed.put(each if isinstance(each, BusMessage) else _message_of(each))

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        self._check_open()
        await asyncio.to_thread(self._put_all, self._session, messages)

    def _put_all(self, session: Any, messages: Sequence[BusMessage]) -> None:
        """In a thread, while the session may be closed."""
        try:
            for each in messages:
                attachment = msgspec.json.encode(dict(each.headers)) if each.headers else None
                blocks = zenoh.CongestionControl.BLOCK
                session.put("/".join(each.lane), each.payload, attachment=attachment, congestion_control=blocks)
        except zenoh.ZError as problem:
            raise TransportError(f"{self._address}: {problem}") from None

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        self._check_open()
        arrives: Any = Callback(self._arrived.put, indirect=False)
        for each in patterns:
            declare = self._session.declare_subscriber
            self._subscribers[each] = await asyncio.to_thread(declare, _key_of(each), arrives)
        await self.flush()

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        self._check_open()
        for each in patterns:
            await asyncio.to_thread(self._subscribers.pop(each).undeclare)

    async def flush(self) -> None:
        """The router answers a query behind all that we have sent."""
        self._check_open()
        await asyncio.to_thread(self._barrier, self._session)
        self._check_open()

    def _barrier(self, session: Any) -> bool:
        """Whether the router has answered."""
        try:
            replies = list(session.get(f"@/{self._router}/router", timeout=_BARRIER_S))
        except zenoh.ZError as problem:
            raise TransportError(f"{self._address}: {problem}") from None
        return any(each.ok is not None for each in replies)

    async def echo(self, message: BusMessage) -> None:
        self._check_open()
        await asyncio.to_thread(self._echo, self._session, message)

    def _echo(self, session: Any, message: BusMessage) -> None:
        if self._barrier(session):
            self._arrived.put(message)

    async def close(self) -> None:
        self._closed = True
        if self._watcher is not None:
            self._watcher.cancel()
        if self._feed is not None:
            self._feed.close()
        if self._session is not None:
            session, self._session = self._session, None
            await asyncio.to_thread(session.close)
            await asyncio.to_thread(self._arrived.put, None)

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError(f"{self._address}: the connection is gone")


def _message_of(sample: Any) -> BusMessage:
    attachment = sample.attachment
    headers = NO_HEADERS if attachment is None else _read_headers(attachment.to_bytes())
    return BusMessage(tuple(str(sample.key_expr).split("/")), sample.payload.to_bytes(), headers)


def _key_of(pattern: Pattern) -> str:
    wild = {"exact": "{}", "prefix": "{}$*", "any": "*"}
    return "/".join(wild[each.kind].format(each.text) for each in pattern)


def _read_headers(attachment: bytes) -> Headers:
    try:
        return msgspec.json.decode(attachment, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NO_HEADERS  # somebody else's attachment

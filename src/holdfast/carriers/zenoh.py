"""Zenoh, by eclipse-zenoh, as a client of a router: `zenoh://host:port`.

A router drops nothing while publishers wait for room, as ours do (congestion control BLOCK), and no link breaks. Key
expressions know prefixes. Headers travel as an attachment, as JSON.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import zenoh

from holdfast.carriers.addresses import BusAddress
from holdfast.carriers.carrier import NO_HEADERS, BusMessage, Headers, Passenger
from holdfast.carriers.thread_feed import ThreadFeed
from holdfast.language.lanes import Pattern
from holdfast.model.errors import TransportError

_CONNECT_MS = 5_000
_LOOK_S = 0.2  # between looks whether the router is there
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

    async def _watch(self) -> None:
        """The session connects again by itself; but then it was away, and its passenger has to know."""
        while True:
            await asyncio.sleep(_LOOK_S)
            routers = await asyncio.to_thread(lambda: [str(each) for each in self._session.info.routers_zid()])
            if self._router not in routers and not self._closed:
                self._closed = True
                self._passenger.on_down(f"{self._address}: the router is gone")
                return

    def _on_sample(self, sample: Any) -> None:
        """In a thread of Zenoh's."""
        attachment = sample.attachment
        headers = NO_HEADERS if attachment is None else _read_headers(attachment.to_bytes())
        message = BusMessage(tuple(str(sample.key_expr).split("/")), sample.payload.to_bytes(), headers)
        if self._feed is not None and not self._closed:
            self._feed.put(message)

    async def publish(self, messages: Sequence[BusMessage]) -> None:
        self._check_open()
        await asyncio.to_thread(self._put_all, messages)

    def _put_all(self, messages: Sequence[BusMessage]) -> None:
        try:
            for each in messages:
                attachment = msgspec.json.encode(dict(each.headers)) if each.headers else None
                blocks = zenoh.CongestionControl.BLOCK
                self._session.put("/".join(each.lane), each.payload, attachment=attachment, congestion_control=blocks)
        except zenoh.ZError as problem:
            raise TransportError(f"{self._address}: {problem}") from None

    async def subscribe(self, patterns: Iterable[Pattern]) -> None:
        self._check_open()
        for each in patterns:
            self._subscribers[each] = await asyncio.to_thread(
                self._session.declare_subscriber, _key_of(each), self._on_sample
            )
        await self.flush()

    async def unsubscribe(self, patterns: Iterable[Pattern]) -> None:
        self._check_open()
        for each in patterns:
            await asyncio.to_thread(self._subscribers.pop(each).undeclare)

    async def flush(self) -> None:
        """The router answers a query behind all that we have sent."""
        self._check_open()
        await asyncio.to_thread(self._barrier)
        self._check_open()

    def _barrier(self) -> None:
        for _ in self._session.get(f"@/{self._router}/router", timeout=_BARRIER_S):
            pass

    async def close(self) -> None:
        self._closed = True
        if self._watcher is not None:
            self._watcher.cancel()
        if self._feed is not None:
            self._feed.close()
        if self._session is not None:
            session, self._session = self._session, None
            await asyncio.to_thread(session.close)

    def _check_open(self) -> None:
        if self._closed:
            raise TransportError(f"{self._address}: the connection is gone")


def _key_of(pattern: Pattern) -> str:
    wild = {"exact": "{}", "prefix": "{}$*", "any": "*"}
    return "/".join(wild[each.kind].format(each.text) for each in pattern)


def _read_headers(attachment: bytes) -> Headers:
    try:
        return msgspec.json.decode(attachment, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NO_HEADERS  # somebody else's attachment

"""Brokers' neighbours in ZooKeeper: one node per broker below a path, its data the names as JSON.

The client's own threads call us; we pass on to the event loop. What is written or watched is done by one thread of
ours, in order, so that a server that is away holds up nobody; when it is back the client goes on by itself.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from holdfast.net.directory import OnListed

_SESSION_S = 10.0  # silence after which the server forgets us; nothing of ours is bound to a session
_BYTES_MAX = 2**20  # of one node: what the server accepts; more is not looked at


class ZooKeeperDirectory:
    def __init__(self, hosts: str, path: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._root = f"/{path.strip('/')}/brokers" if path.strip("/") else "/brokers"
        forever = KazooRetry(max_tries=-1, max_delay=5)
        self._client = KazooClient(hosts, timeout=_SESSION_S, connection_retry=forever, command_retry=forever)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="directory")
        self._closed = False
        self._watched: set[str] = set()
        self._client.start_async()

    def register(self, broker: str, neighbours: tuple[str, ...]) -> None:
        self._worker.submit(self._write, broker, msgspec.json.encode(neighbours) if neighbours else None)

    def watch(self, broker: str, on_listed: OnListed) -> None:
        if broker not in self._watched:
            self._watched.add(broker)
            self._worker.submit(self._listen, broker, on_listed)

    def close(self) -> None:
        self._closed = True
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._client.stop()  # also ends what the worker is at
        self._client.close()

    # In the worker -------------------------------------------------------------------------------

    def _place(self, broker: str) -> str:
        return f"{self._root}/{quote(broker, safe='')}"  # a name may hold a slash

    def _write(self, broker: str, data: bytes | None) -> None:
        with suppress(KazooException, KazooTimeoutError):
            if data is None:
                with suppress(NoNodeError):
                    self._client.retry(self._client.delete, self._place(broker))
                return
            self._client.retry(self._client.ensure_path, self._place(broker))
            self._client.retry(self._client.set, self._place(broker), data)

    def _listen(self, broker: str, on_listed: OnListed) -> None:
        def changed(data: bytes | None, *_: Any) -> bool:
            names = names_untrusted(data)
            if names and not self._closed:
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    self._loop.call_soon_threadsafe(on_listed, broker, names)
            return not self._closed

        with suppress(KazooException, KazooTimeoutError):
            self._client.DataWatch(self._place(broker), changed)


def names_untrusted(data: bytes | None) -> tuple[str, ...]:
    """What a node holds; nothing when it is not ours."""
    if not data or len(data) > _BYTES_MAX:
        return ()
    try:
        return msgspec.json.decode(data, type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()

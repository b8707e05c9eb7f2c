"""Connections from outside: accepted as long as there are file descriptors, with the TLS handshake where there is one.

A server of asyncio that is given a TLS context drops whoever fails the handshake without a word to anybody, and one of
uvloop closes every connection at once when the process has no file descriptor left. So we accept connections ourselves.
Each handshake is a call that succeeds or has an error; and without file descriptors we pause, while the kernel keeps
those who dial waiting.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from holdfast.net.half_open import HalfOpen

Refused = Callable[[str, Exception], None]  # who failed the handshake, and how
Paused = Callable[[OSError], None]  # why nobody is accepted for a second

_HANDSHAKE_S_MAX = 30.0  # thousands of clients that come back at once take a while, a few milliseconds each
_AT_ONCE_MAX = 100  # connections accepted before others get their turn
_AGAIN_S = 1.0  # when the system has no room for another connection


class Acceptor:
    def __init__(
        self,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
        new: Callable[[], asyncio.Protocol],
        half_open: HalfOpen,
        refused: Refused,
        paused: Paused,
    ) -> None:
        self.port: int = sockets[0].getsockname()[1]
        self.context = context
        self._new = new  # the protocol of a connection that is through
        self._half_open = half_open
        self._refused = refused
        self._paused = paused
        self._sockets = sockets
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}
        self._ended: set[asyncio.Task[None]] = set()  # of them, those that we have ended
        self._loop = asyncio.get_running_loop()
        for each in sockets:
            self._loop.add_reader(each, self._accept, each)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE_MAX):
            try:
                connection, far = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:  # too many files are open
                self._paused(problem)
                self._loop.remove_reader(listener)
                self._loop.call_later(_AGAIN_S, self._accept_again, listener)
                return
            who = f"{far[0]}:{far[1]}"
            task = self._loop.create_task(self._shake_hands(connection, who))
            self._handshakes[task] = connection
            task.add_done_callback(self._done)
            if self.context is not None:
                self._half_open.enter(task, who, partial(self._end, task))

    def _done(self, handshake: "asyncio.Task[None]") -> None:
        del self._handshakes[handshake]
        self._ended.discard(handshake)
        self._half_open.leave(handshake)

    def _end(self, handshake: "asyncio.Task[None]") -> None:
        """As if the other end had closed the connection.

        A task that is cancelled when the connection has just been made has uvloop close it without telling its
        protocol, and whoever waits for the end of the connection would wait for ever.
        """
        self._ended.add(handshake)
        with suppress(OSError):
            self._handshakes[handshake].shutdown(socket.SHUT_RDWR)

    def _accept_again(self, listener: socket.socket) -> None:
        if listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    async def _shake_hands(self, connection: socket.socket, who: str) -> None:
        connection.setblocking(False)
        with suppress(OSError):  # it is gone already, as the handshake will find
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limit_s = None if self.context is None else _HANDSHAKE_S_MAX
        try:
            await self._loop.connect_accepted_socket(
                self._new, connection, ssl=self.context, ssl_handshake_timeout=limit_s
            )
        except OSError as problem:  # errors of TLS and timeouts as well
            if self.context is not None and asyncio.current_task() not in self._ended:
                self._refused(who, problem)

    def close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for handshake in self._handshakes:
            self._end(handshake)


async def bound(host: str, port: int, backlog: int) -> list[socket.socket]:
    """A listening socket for each address of the host; an OSError when a port is not to be had."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                with suppress(OSError):
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.setblocking(False)
            listener.listen(backlog)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets

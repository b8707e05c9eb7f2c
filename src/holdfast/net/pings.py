"""Waiting for a broker to have handled everything: a ping is answered behind all that was sent before it.

Where events can be lost on their way, it is sent when the broker is known to have them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from holdfast.model.errors import TransportError
from holdfast.net.link import Link
from holdfast.wire.signals import Ping, encode_signal

_AGAIN_S = 0.5  # where a ping can be lost
_ASK_S, _ASK_MAX_S = 0.001, 0.05  # between questions which events the broker has: the first wait, and the longest


class Pings:
    def __init__(self) -> None:
        self._tokens = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._doubt = ""  # a session was lost when nobody waited, and why: the next who waits has to know

    async def answered(self, link: Link, is_confirmed: Callable[[], bool]) -> None:
        """Wait for the answer, over as many connections as that takes; a TransportError if the session ends first.

        `is_confirmed` asks whether the broker has what was published before.
        """
        if self._doubt:
            doubt, self._doubt = self._doubt, ""
            raise TransportError(f"the session was lost since the last flush; events may be lost: {doubt}")
        await link.drained(0)
        if link.ended:  # while we waited: nobody would answer
            raise TransportError("the connection broke")
        token = next(self._tokens)
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        try:
            wait_s = _ASK_S
            while not is_confirmed() and not answer.done():
                await asyncio.wait([answer], timeout=wait_s)
                wait_s = min(2 * wait_s, _ASK_MAX_S)
            while True:
                link.wire.send(encode_signal(Ping(token)))
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if link.wire.reliable else _AGAIN_S):
                        await asyncio.shield(answer)
                        return
        finally:
            self._waiting.pop(token, None)

    def send_again(self, link: Link) -> None:
        """Over a new connection, behind what was sent again."""
        if self._waiting:
            link.wire.send(encode_signal(Ping(max(self._waiting))))

    def on_pong(self, token: int) -> None:
        for each in [each for each in self._waiting if each <= token]:
            waiter = self._waiting.pop(each)
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, reason: str, unflushed: bool, unasked: bool) -> None:
        """The session is over, and something was published over it that is `unflushed`, and some of it later than
        anybody began to wait (`unasked`).
        """
        waiting, self._waiting = self._waiting, {}
        if unflushed and (unasked or not waiting):
            self._doubt = reason
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(TransportError(f"the connection broke: {reason}"))

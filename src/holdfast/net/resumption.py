"""A session that outlives its connection, seen from either end.

A client's link is kept when its connection breaks without a good-bye. The broker goes on collecting events for it,
within the bound of its queue; the client keeps what the broker has not acknowledged. Who comes back in time goes on
where it was (`stream`). If the broker does not have the session any more, or it is another broker, all begins anew:
the machines are told, and the client says from when until when it was away.
"""

import asyncio
from collections.abc import Callable
from secrets import randbits
from time import monotonic

from msgspec.structs import replace

from holdfast.net.clock import Clock
from holdfast.net.link import Link
from holdfast.net.session import Session
from holdfast.protocol.effects import Absence, Gauges
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire.signals import Hello, Mark, Missed, Welcome

_ID_BITS = 61  # nobody guesses one, so nobody takes over a session that is not his
_ABSENT_MAX = 10_000  # as many as may be connected
_ABSENT_BYTES_MAX = 256 * 2**20  # kept for all of them: beyond that who has been away longest is forgotten


class Returning:
    """The client's end: where it was, and what it did not get."""

    def __init__(self, clock: Clock, settings: ProtocolSettings, give_up: Callable[[Link, str], None]) -> None:
        self._clock = clock
        self._session_s = settings.session_us / 1e6
        self._give_up = give_up  # on a link, because nobody has kept its session
        self.link: Link | None = None  # of the session that may go on
        self._far: Welcome | None = None  # the broker that it was last connected to
        self._complete_us = 0  # up to when we have everything that came for us there,
        self._is_marked = False  # as it has told us, where there is no stream
        self._away_since_us: int | None = None  # the same, once the connection is gone
        self._offset_us = 0  # from the broker's clock to ours, less than by a round-trip time too small
        self._expiry: asyncio.TimerHandle | None = None
        self.reason = ""  # why the present session is a new one
        self.same_broker = True  # as the last time

    @property
    def owes(self) -> bool:
        """Whether the broker may lack something of the session that may go on."""
        stream = None if self.link is None else self.link.stream
        return self.link is not None and (len(self.link.outbox) > 0 or (stream is not None and stream.kept_bytes > 0))

    def hello(self, own: Hello) -> Hello:
        """The same with what we would go on with."""
        stream = None if self.link is None else self.link.stream
        resumes = (0, 0) if stream is None else (stream.id, stream.received)
        return replace(own, session=randbits(_ID_BITS) | 1, resumes=resumes[0], received=resumes[1])

    def on_welcome(self, session: Session, welcome: Welcome) -> Link | None:
        """The link that goes on; None when the session is a new one."""
        now_us, last = self._clock.now_us(), self._far
        asked_us = int((monotonic() - session.began_s) * 1e6)
        self._offset_us = now_us - asked_us - welcome.now_us
        link, self._far = self.link, welcome
        self._forget_kept()
        if link is not None and link.stream is not None and link.stream.id == welcome.session:
            link.connect(session.wire, welcome.received)
            self._away_since_us = None
            return link
        self._complete_us, self._is_marked = now_us, False
        if last is not None:
            self.same_broker = last.node == welcome.node
            self.reason = _why_anew(last, welcome)
        if link is not None:
            self._give_up(link, self.reason)
        return None

    def on_end(self, session: Session) -> None:
        """A connection is gone; a link that has not ended may go on over the next."""
        self._away_since_us = self._complete_us
        if session.link is not None and session.link.stream is None and not self._is_marked:
            # Nobody says what is whole there.
            self._away_since_us = self._clock.now_us() - int(session.silent_s * 1e6)
        if session.link is not None and not session.link.ended:
            self.link = session.link
            expire = asyncio.get_running_loop().call_later
            self._expiry = expire(self._session_s, self.expire, f"disconnected for more than {self._session_s:g} s")

    def on_mark(self, mark: Mark) -> None:
        self._complete_us, self._is_marked = mark.now_us + self._offset_us, True

    def expire(self, reason: str) -> None:
        """Nobody keeps the session any more."""
        link = self.link
        self._forget_kept()
        if link is not None:
            self._give_up(link, reason)

    def _forget_kept(self) -> None:
        self.link = None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def absence(self) -> Absence | None:
        """What a session that began anew may have missed; told once."""
        since_us, self._away_since_us = self._away_since_us, None
        if since_us is None:
            return None
        return Absence(since_us, self._clock.now_us(), self.reason)

    def missed(self, missed: Missed) -> Absence:
        """What the broker has dropped, by our clock."""
        since_us, until_us = missed.since_us + self._offset_us, self._clock.now_us()
        broker = self._far.node if self._far is not None else ""
        return Absence(since_us, until_us, f"the backlog for this client was full at {broker}", missed.events)


def _why_anew(last: Welcome, now: Welcome) -> str:
    if last.node != now.node:
        return f"moved from {last.node} to {now.node}"
    if last.epoch != now.epoch:
        return f"{now.node} was restarted"
    return f"{now.node} did not keep the session"


class Absent:
    """The broker's end: links of clients that are away, each for a limited time."""

    def __init__(self, session_us: int, give_up: Callable[[Link], None]) -> None:
        self._session_s = session_us / 1e6
        self._give_up = give_up
        self._links: dict[str, tuple[Link, asyncio.TimerHandle]] = {}  # by client
        self._closed = False

    def gauges(self) -> Gauges:
        kept = sum([_bytes_of(link) for link, _ in self._links.values()])
        return {
            "sessions of absent clients": (len(self._links), _ABSENT_MAX),
            "bytes for absent clients": (kept, _ABSENT_BYTES_MAX),
        }

    def keep(self, link: Link) -> None:
        if self._closed:
            return self._give_up(link)
        if len(self._links) >= _ABSENT_MAX:
            self.forget(next(iter(self._links)))
        expiry = asyncio.get_running_loop().call_later(self._session_s, self.forget, link.name)
        self._links[link.name] = link, expiry

    def forget(self, name: str) -> None:
        """The session ends."""
        if name in self._links:
            link, expiry = self._links.pop(name)
            expiry.cancel()
            self._give_up(link)

    def take(self, name: str) -> Link | None:
        """Who was away is here again."""
        if name not in self._links:
            return None
        link, expiry = self._links.pop(name)
        expiry.cancel()
        return link

    def limit(self) -> None:
        """Keep no more than so many bytes."""
        sizes = {name: _bytes_of(link) for name, (link, _) in self._links.items()}
        total = sum(sizes.values())
        for name, size in sizes.items():
            if total <= _ABSENT_BYTES_MAX:
                return
            total -= size
            self.forget(name)

    def close(self) -> None:
        """Forget all, also those that are still to come."""
        self._closed = True
        for name in list(self._links):
            self.forget(name)


def _bytes_of(link: Link) -> int:
    return link.outbox.waiting_bytes + (0 if link.stream is None else link.stream.kept_bytes)


def may_resume(link: Link | None, hello: Hello) -> bool:
    """Whether this is the link that the client would go on with, and both have what the other lacks."""
    stream = None if link is None else link.stream
    return stream is not None and hello.resumes == stream.id and stream.has_kept(hello.received)

"""One connection, from the greeting to the end.

Who dials says hello; the other end looks at name, kind and epoch and answers with a welcome or a refusal. Only then do
messages flow. Bytes that are not acceptable are counted; on a stream nothing after them can be trusted, so the
connection is closed, and on datagrams they are dropped. A connection that ends for good is taken leave of; one that
breaks without that may have a link that outlives it (`resumption`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from secrets import token_bytes
from time import monotonic, time
from typing import Protocol

import msgspec

from holdfast.model.errors import PeerError, TransportError
from holdfast.model.limits import MESSAGES_BYTES_MAX
from holdfast.net.address import Address
from holdfast.net.counters import Counters
from holdfast.net.credentials import answer_words, credentials_of, dial_words
from holdfast.net.driver import Driver
from holdfast.net.link import Link
from holdfast.net.skew import skew_us
from holdfast.net.tls import TlsFiles
from holdfast.net.transport import dial
from holdfast.net.wire import CLOSED, Accept, Wire
from holdfast.trust.gate import Credentials, Gate, NotTrustedError
from holdfast.trust.identity import ANONYMOUS, Principal
from holdfast.trust.shared_key import NONCE_BYTES
from holdfast.wire.codec import MESSAGES, VERSION, check_together_untrusted, decode_frame_untrusted
from holdfast.wire.signals import (
    Ack,
    AskPast,
    Challenge,
    Denied,
    Hello,
    Hold,
    Mark,
    Missed,
    Past,
    Ping,
    Pong,
    Refusal,
    Signal,
    Welcome,
    decode_signal_untrusted,
    encode_signal,
)

SILENT_LEASES = 2  # after this many leases without a word a connection is closed, so that it can be dialled anew
Told = Missed | Mark | Denied | Past

_GREETING_S = 5.0  # who has not said hello by then never will
_REPEAT_S = 0.25  # between hellos where they can be lost: a few round trips across the world
_UNANSWERED_S = 1.0  # four pings, or a heartbeat: at 20 % loss one in fifty living nodes gets none of them answered
_LINGER_S = 30.0  # for what was handed over to leave: whoever does not read would stay connected for ever
_EXPIRY_S_MAX = 3_600.0  # between looks at the time of day, which may be set
_PING = encode_signal(Ping(0))


class Phase(Enum):
    GREETING = auto()
    OPEN = auto()
    ENDED = auto()


class FrameGate(Protocol):
    """Whoever watches what a connection costs."""

    def takes(self, size: int) -> bool:
        """Whether a frame of so many bytes is handled."""


class Owner(Protocol):
    """The node that a session belongs to."""

    counters: Counters
    gate: Gate  # who is believed what

    @property
    def driver(self) -> Driver: ...

    def on_dial(self) -> Hello:
        """What to say to whom we dial."""

    def on_let_in(self, link: Link) -> Welcome:
        """What to answer to whom we let in."""

    def on_hello(self, session: "Session", hello: Hello) -> Link | Refusal | None:
        """Somebody dialled: the link to them, or why not; None when the next hello is to be awaited."""

    def on_welcome(self, session: "Session", welcome: Welcome) -> Link | Refusal:
        """Whom we dialled answers."""

    def on_open(self, session: "Session") -> None:
        """Messages flow."""

    def on_told(self, signal: Told) -> None:
        """Something that a broker tells its clients."""

    def on_ask_past(self, session: "Session", ask: AskPast) -> None:
        """A client wants what was kept."""

    def on_refused(self, session: "Session", refusal: Refusal) -> None:
        """Whom we dialled does not let us in, or the other end says that it goes."""

    def on_pong(self, token: int) -> None: ...
    def on_end(self, session: "Session", reason: str) -> None: ...


class Session:
    def __init__(self, wire: Wire, owner: Owner, dialled: bool, expected: str | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.wire = wire
        self.dialled = dialled
        self.expected = expected  # whom we mean to reach, if it matters
        self.far: Hello | Welcome | None = None  # who is at the other end
        self.identity: Principal = ANONYMOUS  # and who that is, once it was let in
        self._nonce = token_bytes(NONCE_BYTES)  # nobody can have used it before
        self._challenge = b""  # of whichever end was dialled, if it has made one
        self.link: Link | None = None
        self.throttle: FrameGate | None = None  # None: it may cost what it likes
        self.phase = Phase.GREETING
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self.for_good = False  # the session ends with the connection
        self.left = False  # the other end has taken leave of us
        self.began_s = monotonic()
        self._loop = loop
        self._owner = owner
        self._answer = b""  # our welcome
        self._pong_due: Pong | None = None
        self._ack_due = False
        self._last_check_s = monotonic()
        self._quiet_s = 0.0
        self._asked_s = 0.0  # since when somebody wants to know whether it answers
        self._greeted_us = 0  # when we said hello, the last time
        self._skew_us = 0  # how far the other end's clock is ahead of ours
        self._why = ""  # we end it ourselves, and this is why
        self._timers = [loop.call_later(_GREETING_S, self._give_up)]
        self.opened.add_done_callback(_observed)
        if dialled:
            self._hello = owner.on_dial()
            self._greet()

    @property
    def silent_s(self) -> float:
        return monotonic() - self.wire.heard_s

    def check_alive(self, passed_s: float, limit_s: float, host_only: bool = False) -> None:
        """To be called regularly: end it when nothing was heard for so long, or the other host confirms nothing.

        Silence counts only while we listen: not while we push back, and not while our own loop was held up, when far
        more than `passed_s` has gone by. Of some it says nothing, because only their host need be alive.
        """
        if self.wire.heard_s > self._last_check_s or (self.link is not None and self.link.held_up) or host_only:
            self._quiet_s = 0.0
        else:
            self._quiet_s += passed_s
        self._last_check_s = monotonic()
        if self.phase is Phase.OPEN and max(self._quiet_s, self.wire.unanswered_s) >= limit_s:
            self.end(f"nothing received for {limit_s:g} s", now=True)

    def answers(self) -> bool | None:
        """Whether the other end is there, to be asked again and again while the answer is None.

        On a stream the system tells when it is gone. On datagrams we ping, and it is gone when no answer comes.
        """
        now_s = monotonic()
        if self.wire.reliable:
            return True
        if now_s - self._asked_s > _GREETING_S:  # for somebody else who came before
            self._asked_s = now_s
        elif self.wire.heard_s > self._asked_s:
            return True
        elif now_s - self._asked_s >= _UNANSWERED_S:
            return False
        self.wire.send(_PING)
        return None

    def end(self, reason: str, now: bool = False) -> None:
        """Close from our side: for good after what has been handed over is sent, or at once."""
        if self.phase is Phase.OPEN and not self._why and not (now and self.wire.reliable):
            self.wire.send(encode_signal(Refusal("bye", reason)))
            self.for_good = True
        self._close(reason, now)

    def hang_up(self, reason: str, now: bool = False) -> None:
        """Close without taking leave: after what has been handed over is sent, or at once."""
        self._close(reason, now)

    def expel(self, reason: str) -> None:
        """Close at once and for good: nothing more of what waits for it leaves."""
        self.for_good = True
        self._close(reason, now=True)

    def give_over(self, reason: str) -> None:
        """Close at once, because the link goes on over another connection."""
        self.phase, self.link = Phase.ENDED, None
        self._close(reason, now=True)

    def _close(self, reason: str, now: bool) -> None:
        self._why = self._why or reason
        if now:
            self.wire.abort()
        else:
            self.wire.close()
            self._timers.append(self._loop.call_later(_LINGER_S, self.wire.abort))

    # The greeting --------------------------------------------------------------------------------

    def _greet(self) -> None:
        if self.phase is Phase.GREETING:
            self._say_hello()
            if not self.wire.reliable:
                self._timers.append(self._loop.call_later(_REPEAT_S, self._greet))

    def _say_hello(self) -> None:
        self._greeted_us = self._owner.driver.now_us()
        hello = msgspec.structs.replace(
            self._hello, now_us=self._greeted_us, expects=self.expected, nonce=self._nonce, proof=b""
        )
        if self._challenge:
            proof = self._owner.gate.proof(dial_words(hello, self._challenge))
            hello = msgspec.structs.replace(hello, proof=proof)
        self.wire.send(encode_signal(hello))

    def challenge(self) -> None:
        """Ask whoever has dialled us to prove that it has the key of the brokers."""
        if self._challenge and self.wire.reliable:  # nothing was lost; who says hello for ever is not answered for ever
            raise PeerError("a hello without the proof that was asked for")
        self._challenge = self._nonce
        self.wire.send(encode_signal(Challenge(self._nonce)))

    @property
    def credentials(self) -> Credentials:
        """What the other end says of itself, with its proofs."""
        assert self.far is not None
        if isinstance(self.far, Hello):
            return credentials_of(self.far, self.wire.certificate, dial_words(self.far, self._challenge))
        return credentials_of(self.far, self.wire.certificate, answer_words(self.far, self._nonce, self._challenge))

    def _give_up(self) -> None:
        if self.phase is Phase.GREETING:
            nothing = "the broker does not answer: nothing came" if self.dialled else "no greeting"
            self.end(f"{nothing} within {_GREETING_S:g} s", now=True)

    def _on_greeting(self, frame: bytes | memoryview) -> None:
        if len(frame) and frame[0] != VERSION:
            spoken = f"it has protocol version {frame[0]}, this is version {VERSION}"
            self._refuse(Refusal("version", f"this is protocol version {VERSION}, not {frame[0]}"), spoken)
            return
        signal = decode_signal_untrusted(frame)
        answer: Link | Refusal | None
        if isinstance(signal, Hello) and not self.dialled:
            self.far = signal
            self._skew_us = skew_us(signal.now_us, self._owner.driver.now_us())
            answer = self._owner.on_hello(self, signal)
            if answer is None:
                return
            if not isinstance(answer, Refusal):
                welcome = self._owner.on_let_in(answer)
                if signal.kind == "broker":
                    proof = self._owner.gate.proof(answer_words(welcome, signal.nonce, self._challenge))
                    welcome = msgspec.structs.replace(welcome, proof=proof)
                self._answer = encode_signal(welcome)
                self.wire.send(self._answer)
        elif isinstance(signal, Welcome) and self.dialled:
            self.far = signal
            now_us = self._owner.driver.now_us()
            self._skew_us = skew_us(signal.now_us, now_us, now_us - self._greeted_us)
            answer = self._on_welcome(signal)
        elif isinstance(signal, Challenge) and self.dialled:
            self._challenge = signal.nonce
            self._say_hello()
            return
        elif isinstance(signal, Refusal) and self.dialled:
            self._owner.on_refused(self, signal)
            self.end(signal.reason)
            return
        else:
            raise PeerError(f"expected a greeting, received {type(signal).__name__}")
        if isinstance(answer, Refusal):
            self._refuse(answer, answer.reason)
        else:
            self._open(answer)

    def _on_welcome(self, welcome: Welcome) -> Link | Refusal:
        if self.expected not in (None, welcome.node):
            return Refusal("not here", f"it is {welcome.node}, not {self.expected}")
        if welcome.kind != "broker":
            return Refusal("not here", f"it is a {welcome.kind}, not a broker")
        try:
            self._owner.gate.check_dialled(self.credentials)
        except NotTrustedError as problem:
            return Refusal("not here", str(problem))
        return self._owner.on_welcome(self, welcome)

    def _refuse(self, refusal: Refusal, why: str) -> None:
        self._owner.counters.refused += 1
        if not self.dialled:
            self.wire.send(encode_signal(refusal))
        self.end(why)

    def _open(self, link: Link) -> None:
        self.phase = Phase.OPEN
        self.link = link
        link.skew_us = self._skew_us
        self._cancel_timers()
        self.opened.set_result(None)
        self._check_expiry()
        self._owner.driver.attach(link)
        self._owner.on_open(self)

    def _check_expiry(self) -> None:
        expires_s = self.identity.expires_s
        if expires_s is None:
            return
        left_s = expires_s - time()
        if left_s <= 0:
            self.hang_up("its token has expired")  # with a new one it may go on
        else:
            self._timers.append(self._loop.call_later(min(left_s, _EXPIRY_S_MAX), self._check_expiry))

    # What the wire calls -------------------------------------------------------------------------

    def on_frame(self, frame: bytes | memoryview) -> None:
        if self.throttle is not None and not self.throttle.takes(len(frame)):
            return
        try:
            if self.phase is Phase.OPEN and len(frame) > 1 and frame[1] == MESSAGES:
                if len(frame) > MESSAGES_BYTES_MAX:
                    check_together_untrusted(frame)
                messages = decode_frame_untrusted(frame)
                assert self.far is not None
                self._owner.driver.receive(self.far.node, messages, frame)
                self._count(frame)
            elif self.phase is Phase.OPEN:
                signal = decode_signal_untrusted(frame)
                self._on_signal(signal)
                if isinstance(signal, Missed):
                    self._count(frame)
            elif self.phase is Phase.GREETING:
                self._on_greeting(frame)
        except PeerError as problem:
            self.on_bad(problem)

    def _on_signal(self, signal: Signal) -> None:
        match signal:
            case Ping():
                self._pong_due = Pong(signal.token)
                self._pong()
            case Pong():
                self._owner.on_pong(signal.token)
            case Ack() if self.link is not None:
                self._owner.driver.on_ack(self.link, signal.received)
            case Hold() if self.link is not None and self.link.kind == "broker":
                self._owner.driver.on_hold(self.link)
            case Missed() | Mark() | Denied() | Past():
                self._owner.on_told(signal)
            case AskPast() if self.link is not None and self.link.kind == "client":
                self._owner.on_ask_past(self, signal)
            case Hello() if not self.wire.reliable and _again(signal, self.far):
                self.wire.send(self._answer)  # the first one was lost
            case Welcome() if signal == self.far:
                pass  # a second answer to a hello that we repeated
            case Challenge() if self.dialled:
                pass  # likewise
            case Refusal():
                self._owner.on_refused(self, signal)
                self.for_good = True
                self._close(signal.reason or "it has no session with us any more", now=False)
            case _:
                raise PeerError(f"unexpected {type(signal).__name__} after the greeting")

    def _pong(self) -> None:
        # Only the latest is kept while the wire is full: who pings without reading costs us nothing.
        if self._pong_due is not None and self.link is not None and self.link.wire_writable:
            self.wire.send(encode_signal(self._pong_due))
            self._pong_due = None

    def _count(self, frame: bytes | memoryview) -> None:
        """A frame of the session was handled."""
        stream = None if self.link is None else self.link.stream
        if stream is not None and stream.on_frame(len(frame)):
            self._ack_due = True
            self._ack()

    def _ack(self) -> None:
        if self._ack_due and self.link is not None and self.link.stream is not None and self.link.wire_writable:
            self.wire.send(encode_signal(Ack(self.link.stream.acknowledge())))
            self._ack_due = False

    def on_writable(self, writable: bool) -> None:
        if self.link is not None:
            self._owner.driver.on_writable(self.link, writable)
            self._pong()
            self._ack()

    def on_bad(self, problem: PeerError) -> None:
        self._owner.counters.bad_frames += 1
        self.for_good = True  # the same error would come again
        if self.wire.reliable or self.phase is Phase.GREETING:
            self.end(f"protocol error: {problem}", now=True)

    def on_closed(self, reason: str) -> None:
        reason = self._why or reason
        self.phase = Phase.ENDED
        self._cancel_timers()
        if not self.opened.done():
            self.opened.set_exception(TransportError(reason))
        if self.link is not None and (self.for_good or self.link.stream is None):
            self._owner.driver.detach(self.link)
        elif self.link is not None:
            self._owner.driver.suspend(self.link)
        self._owner.on_end(self, reason)
        if not self.ended.done():
            self.ended.set_result(reason)

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


def _again(hello: Hello, far: Hello | Welcome | None) -> bool:
    """Whether a hello repeats an earlier one, some time later."""
    return isinstance(far, Hello) and msgspec.structs.replace(hello, now_us=far.now_us) == far


def _observed(future: "asyncio.Future[None]") -> None:
    """Take note of a failure that nobody may wait for, so that asyncio does not complain of it."""
    if not future.cancelled():
        future.exception()


# A broker that hangs up without a word: what it is about is not told to us, so we can only guess.
_HINTS = {"tcp": "; if it is a broker with TLS, write tls://", "tls": "; it may require a client certificate"}


async def open_session(
    address: Address,
    owner: Owner,
    tls: TlsFiles | None = None,
    expected: str | None = None,
    reach: Callable[[Address, Accept, TlsFiles | None], Awaitable[Wire]] = dial,
) -> Session:
    """Dial and greet; a TransportError that says why it did not work."""
    made: list[Session] = []

    def accept(wire: Wire) -> Session:
        made.append(Session(wire, owner, True, expected))
        return made[0]

    await reach(address, accept, tls)
    session = made[0]
    try:
        await asyncio.shield(session.opened)  # it may still open before it learns that nobody waits any more
    except TransportError as problem:
        hint = _HINTS.get(address.scheme, "") if str(problem) == CLOSED else ""
        raise TransportError(f"cannot connect to {address}: {problem}{hint}") from None
    except asyncio.CancelledError:
        session.end("given up", now=True)
        raise
    return session

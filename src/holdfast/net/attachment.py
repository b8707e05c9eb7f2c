"""A client's place at a broker: found, lost, found again.

A broken connection is dialled again, first where the session may still be, then at the next of a list. Who finds it
goes on as if nothing had been; who begins anew is given what it may have missed (`Absence`), and sends again what the
last broker may not have got. Leaving for good is said, so that nobody keeps anything for us.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from secrets import randbits

from msgspec.structs import replace

from holdfast.model.errors import MisuseError, TransportError
from holdfast.model.messages import Batch, Publish
from holdfast.net.address import Address, parse_address
from holdfast.net.backoff import Backoff
from holdfast.net.client_driver import ClientDriver
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.denials import Denial, Denials
from holdfast.net.link import Link
from holdfast.net.pings import Pings
from holdfast.net.public_names import public_names
from holdfast.net.resumption import Returning
from holdfast.net.session import SILENT_LEASES, Session, Told, open_session
from holdfast.net.states import Callback, ConnectionState, StateChanges
from holdfast.net.stream import SessionStream
from holdfast.net.tls import TlsFiles
from holdfast.protocol.effects import LinkDown, Lost
from holdfast.protocol.settings import ProtocolSettings
from holdfast.trust.gate import Gate
from holdfast.trust.settings import TrustSettings
from holdfast.trust.token import read_token
from holdfast.wire.signals import LEVEL, AskPast, Denied, Hello, Mark, Missed, Past, Refusal, Welcome, encode_signal

_SECRET_BITS = 62  # fits in the numbers of messages, and is not guessed
CLOSE_S = 2.0  # how long leaving waits for the broker to have everything


class Attachment(ABC):
    """What a client does about its broker; every `Client` is one."""

    driver: ClientDriver  # runs its machine

    def __init__(
        self,
        addresses: Sequence[Address],
        name: str,
        tls: TlsFiles | None,
        settings: ProtocolSettings,
        clock: Clock,
        token: str | None,
    ) -> None:
        self.name = name
        self.gate = Gate(TrustSettings(), tls is not None and tls.ca is not None)
        self.counters = Counters()
        self.connections = 0  # that began a session: the same number before and after a flush means that nothing broke
        self._addresses = list(addresses)
        self._at: Address | None = None  # where we were last let in
        self._tls = tls
        self._token = token
        self._settings = settings
        self._clock = clock
        self._session: Session | None = None
        self._link: Link | None = None  # while there is a connection
        self._returning = Returning(clock, settings, self._on_lost)
        self._unsent: list[
            Publish | Batch
        ] = []  # that a broker may not have, for the next: a window and a queue at most
        self._pings = Pings()
        self._past: dict[int, asyncio.Future[Past]] = {}  # answers that are awaited, by token
        self._tasks: list[asyncio.Task[None]] = []
        self._entered = self._closed = False
        self._state = ConnectionState()
        self._resumed = False  # the present session goes on from an earlier connection

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), "driver", "gate")

    @property
    @abstractmethod
    def _subscribes(self) -> bool:
        """Whether it can miss anything."""

    @property
    @abstractmethod
    def _unflushed(self) -> bool:
        """Whether something was published since the last flush."""

    @property
    @abstractmethod
    def _unasked(self) -> bool:
        """Whether something was published since a flush was last called."""

    @property
    @abstractmethod
    def _holds_up(self) -> bool:
        """Whether nothing is to be read for now."""

    @abstractmethod
    def _on_leaving(self) -> None:
        """A session is about to be ended."""

    @abstractmethod
    def on_refused(self, session: Session, refusal: Refusal) -> None:
        """A broker does not let us in."""

    @abstractmethod
    def on_lost(self, lost: Lost, now_us: int) -> None:
        """Something was lost for good, or may have been."""

    # Rights --------------------------------------------------------------------------------------

    def denials(self) -> list[Denial]:
        """Subscriptions and events that this client has no right to, as its broker has said; the latest thousand."""
        self._check_open()
        return list(self._denials.all)

    def _on_denied_all(self, reason: str) -> None:
        now_us = self._clock.now_us()
        self.on_lost(Lost("", 0, 0, reason, now_us), now_us)

    # The past ------------------------------------------------------------------------------------

    async def _ask_past(self, ask: AskPast) -> Past:
        """Ask the broker for what it has kept, behind all that was sent; a TransportError if the connection breaks."""
        link = await self._connection()
        self.driver.flush()
        await link.drained(0)
        far = None if self._session is None else self._session.far
        if link is not self._link or not isinstance(far, Welcome):
            raise TransportError("the connection broke")
        if not link.wire.reliable:
            return Past(ask.token, refused="over UDP answers may be lost; connect over tcp:// or tls://")
        if not far.keeps:
            return Past(ask.token, refused=f"{far.node} keeps none; start it with --history FOLDER")
        answer: asyncio.Future[Past] = asyncio.get_running_loop().create_future()
        self._past[ask.token] = answer
        try:
            link.wire.send(encode_signal(ask))
            return await answer
        finally:
            self._past.pop(ask.token, None)

    # Coming and going ----------------------------------------------------------------------------

    async def _enter(self, epoch: int, lossless: bool, stored: bool, repairs: bool) -> None:
        self._hello = Hello(
            self.name,
            "client",
            epoch,
            lossless=lossless,
            durable=stored,
            level=LEVEL,
            repairs=repairs,
            secret=randbits(_SECRET_BITS),
        )
        self._denials = Denials(self.driver.give, self._on_denied_all)
        self._stored = stored  # our broker keeps events for us whatever happens, and we for it: no session is needed
        self._attached = asyncio.Event()
        self._wanted = asyncio.Event()  # a connection is
        self._wanted.set()
        self._backoff = Backoff(Random(f"{epoch}/{self.name}/backoff"))
        self._entered = True
        try:
            await self._dial_all()
        except BaseException:
            self.driver.stop()
            self._closed = True
            raise
        self._tasks = [asyncio.create_task(self._stay_connected()), asyncio.create_task(self._watch_silence())]

    @property
    def _owes(self) -> bool:
        """Whether the broker may lack something that it can still get."""
        return self._link is not None or (self._wanted.is_set() and (self._returning.owes or bool(self._unsent)))

    async def _exit(self) -> None:
        self._closed = True
        self._attached.set()  # whoever waits for a connection learns that there will be none
        for task in self._tasks:
            task.cancel()
        try:
            try:
                await asyncio.gather(*self._tasks, return_exceptions=True)
            finally:
                await self._detach()
        finally:
            self._returning.expire(f"the client {self.name} is closed")
            self.counters.unsent += sum([len(each.seqs) if isinstance(each, Batch) else 1 for each in self._unsent])
            self.driver.stop()
            self._state.close()

    async def _detach(self) -> None:
        """End the session for good."""
        session, link = self._session, self._link
        if link is not None:
            self._on_leaving()
        self._step_away()
        if session is not None and link is not None:
            self.driver.give(LinkDown(link.name))
            link.end_session()
            link.flush()
            session.end("the client leaves")
            await _ended(session)

    def _step_away(self) -> None:
        """Who publishes from now on waits for the next connection."""
        self._link = None
        if not self._closed:
            self._attached.clear()

    async def detach(self) -> None:
        """Leave the broker and stay away, with all subscriptions kept, until `attach`.

        The broker keeps what comes for them within its bounds, for as long as a session may be away (`session_s`).
        """
        self._wanted.clear()
        session, link = self._session, self._link
        if session is None or link is None or link.stream is None:
            return await self._detach()
        self._step_away()
        session.hang_up("the client detaches")
        await _ended(session)

    async def attach(self, *addresses: str | Address) -> None:
        """Go to another broker, the first of these that answers, or back to the last."""
        given = [each if isinstance(each, Address) else parse_address(each, True) for each in addresses]
        self._wanted.clear()
        if given and self._at not in given:
            await self._detach()
        await self.detach()
        self._addresses = given or self._addresses
        self._backoff.reset()
        self._wanted.set()

    async def _dial_all(self) -> None:
        """Try each address once, first that of the session; a TransportError with all that went wrong."""
        problems = []
        for address in sorted(self._addresses, key=lambda each: self._returning.link is None or each != self._at):
            try:
                await self._dial(address)
                self._at = address
                return
            except TransportError as problem:
                problems.append(str(problem))
        raise TransportError("\n".join(problems))

    async def _dial(self, address: Address) -> None:
        await open_session(address, self, self._tls)

    async def _stay_connected(self) -> None:
        while True:
            if self._session is not None:
                await asyncio.wait([self._session.ended])
                self._backoff.reset()
            await self._wanted.wait()
            await asyncio.sleep(self._backoff.delay_s())
            with suppress(TransportError):
                await self._dial_all()

    async def _watch_silence(self) -> None:
        limit_s = SILENT_LEASES * self._settings.lease_us / 1e6
        while True:
            await asyncio.sleep(limit_s / 4)
            if self._session is not None:
                # A broker whose host answers may be slow, but not for longer than it would wait for us.
                patience_s = self._settings.session_us / 1e6 if self._session.wire.reliable else limit_s
                self._session.check_alive(limit_s / 4, patience_s)

    @property
    def broker(self) -> str | None:
        """The broker that the client is attached to at present."""
        return None if self._link is None else self._link.name

    async def attached(self) -> str:
        """Wait for a connection; the broker's name."""
        return (await self._connection()).name

    def states(self) -> StateChanges:
        """The changes of its connection, to be read with `async for`; the first one is what it is now.

        Up to 1,000 that were not read are kept, and the oldest dropped beyond that.
        """
        return self._state.changes()

    def on_state(self, callback: Callback) -> Callable[[], None]:
        """Call this with each change of the connection, from the event loop; returns a function that ends it."""
        return self._state.call(callback)

    async def _connection(self) -> Link:
        while self._link is None:
            self._check_open()
            await self._attached.wait()
        self._check_open()
        return self._link

    def _check_open(self) -> None:
        if self._closed:
            raise MisuseError(f"the client {self.name} is closed")
        if not self._entered:
            raise MisuseError("enter the client first: async with holdfast.connect(...) as client")

    # What a session asks of its owner ------------------------------------------------------------

    def on_dial(self) -> Hello:
        hello = self._hello if self._stored else self._returning.hello(self._hello)
        return hello if self._token is None else replace(hello, token=read_token(self._token))

    def on_hello(self, session: Session, hello: Hello) -> Link | Refusal:
        return Refusal("not here", "this is a client")

    def on_let_in(self, link: Link) -> Welcome:
        raise AssertionError("nobody dials a client")

    def on_welcome(self, session: Session, welcome: Welcome) -> Link | Refusal:
        self._link = self._returning.on_welcome(session, welcome)
        self._resumed = self._link is not None
        if self._link is None:
            self.connections += 1
            stream = SessionStream(welcome.session) if welcome.session else None
            self._link = Link(
                welcome.node,
                "broker",
                session.wire,
                self._clock,
                self.counters,
                stream=stream,
                level=welcome.level,
                repairs=welcome.repairs,
            )
        self._session = session
        self._link.hold_up(self._holds_up)
        self._attached.set()
        return self._link

    def on_open(self, session: Session) -> None:
        assert session.link is not None
        self._pings.send_again(session.link)
        absence = self._returning.absence()
        reason = "" if self._resumed else self._returning.reason
        self._state.on_connected(session.link.name, self._resumed, reason, self._clock.now_us())
        if absence is not None and self._subscribes and not (self._stored and self._returning.same_broker):
            self.counters.note("session_lost")
            self.driver.give(absence)
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            self.driver.send_again(session.link, unsent)

    def on_told(self, signal: Told) -> None:
        match signal:
            case Missed() if not self._stored:
                self.counters.note("events_dropped", signal.events)
                self.driver.give(self._returning.missed(signal))
            case Mark():
                self._returning.on_mark(signal)
            case Denied():
                self._denials.on_denied(signal)
            case Past() if (answer := self._past.get(signal.token)) is not None and not answer.done():
                answer.set_result(signal)

    def on_ask_past(self, session: Session, ask: AskPast) -> None:
        raise AssertionError("nobody asks a client")

    def on_pong(self, token: int) -> None:
        self._pings.on_pong(token)

    def on_end(self, session: Session, reason: str) -> None:
        if session is not self._session:
            return
        self._session = self._link = None
        self._attached.clear()
        for answer in self._past.values():
            if not answer.done():
                answer.set_exception(TransportError(f"the connection broke: {reason}"))
        self._state.on_disconnected(reason, self._clock.now_us())
        self._returning.on_end(session)
        if self._returning.link is None and session.link is not None:
            self._on_lost(session.link, reason)

    def _on_lost(self, link: Link, reason: str) -> None:
        """A session is over: what its broker may not have goes to the next, to which it is a duplicate at worst."""
        if not self._stored:
            self.driver.flush()
            self._unsent += link.unacknowledged()
        self.driver.detach(link)
        self._pings.fail(reason, self._unflushed and not self._stored, self._unasked)


async def _ended(session: Session) -> None:
    await asyncio.wait([session.ended], timeout=CLOSE_S)
    session.end("too slow", now=True)

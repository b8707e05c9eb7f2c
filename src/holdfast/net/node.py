"""A broker, live: listens, dials its peers, and runs the machine over what comes.

Peers may start in any order: whoever is not there yet is dialled again. When both ends dial each other, the
connection that the smaller name dialled is kept. A name belongs to who has it as long as they are heard of; the
same incarnation may come back on a new connection at any time, and a client then finds its session as it left it. A
broker that a peer refuses because its name is taken lets nobody in, because what its clients publish would go nowhere;
if that lasts for longer than a silent predecessor would be remembered, it gives up.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random

from holdfast.matching.levels import Levels
from holdfast.model.errors import TransportError
from holdfast.model.messages import Detach
from holdfast.net.address import ENCRYPTED, Address
from holdfast.net.admission import SESSIONS_MAX, AdmissionControl, is_full
from holdfast.net.arrivals import Arrivals
from holdfast.net.backoff import MAX_S, Backoff
from holdfast.net.broker_history import BrokerHistory
from holdfast.net.clock import Clock
from holdfast.net.committer import Committer
from holdfast.net.counters import Counters
from holdfast.net.directory import DirectoryService
from holdfast.net.driver import Application, Driver
from holdfast.net.durable import needs_other
from holdfast.net.half_open import HalfOpen
from holdfast.net.journal import Note
from holdfast.net.link import Link
from holdfast.net.listening import listeners
from holdfast.net.lost_peers import LostPeers
from holdfast.net.mqtt_trust import DoorTrust
from holdfast.net.opening import open_store
from holdfast.net.resumption import Absent, may_resume
from holdfast.net.session import SILENT_LEASES, Session, Told, open_session
from holdfast.net.settings import NodeSettings
from holdfast.net.setup import check_broker
from holdfast.net.stream import SessionStream
from holdfast.net.throttle import Throttles
from holdfast.net.wire import Listener, Wire
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Gauges, NeighboursListed, Received, Register, Save
from holdfast.protocol.node import BrokerMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import Reliability
from holdfast.protocol.stack import new_broker
from holdfast.protocol.store_changes import Change, Stored
from holdfast.trust.budget import Budgets
from holdfast.trust.enforcement import RightsInForce
from holdfast.trust.gate import Gate, NotTrustedError
from holdfast.trust.identity import Principal
from holdfast.wire.codec import encode_message
from holdfast.wire.signals import LEVEL, AskPast, Hello, Refusal, Welcome

_GREETING_MAX = 1_000  # more that have not said who they are; they get a few seconds for it
_QUIET_S = 0.02  # the event loop reads all sockets many times in this time
_DRAIN_S = 2.0  # what waits for others when we stop is given this long to leave


class BrokerNode:
    """A broker that runs in this process's event loop, from `start` to `stop`."""

    def __init__(
        self,
        settings: NodeSettings,
        application: Application | None = None,
        log: Callable[[Note], None] | None = None,
        clock: Clock | None = None,
        tallied: bool = False,
    ) -> None:
        check_broker(settings)
        self.settings = settings
        self.counters = Counters()
        self.gate = Gate(settings.trust, settings.tls is not None and settings.tls.ca is not None)
        rights, self._budgets = self.gate.rights, Budgets(settings.budgets)
        self._rights = None if rights is None else RightsInForce(rights, lambda name: name in self.driver.links)
        self.listening: tuple[Address, ...] = ()
        self._clock = clock or Clock()
        self._log = log or (lambda note: None)
        self._committer, stored, self._clock = open_store(settings, self._clock, self._log)
        self._taken = {} if stored is None else stored.taken()
        epoch = self._clock.now_us()
        machine = self._machine = self._new_machine(epoch, stored)
        if stored is not None and stored.epoch is not None:
            epoch = stored.epoch  # to its neighbours a broker that remembers has only been silent
        faulty = settings.role.faulty if settings.role else None
        self.hello = Hello(settings.name, "broker", epoch, faulty, level=LEVEL, repairs=settings.hops.hops == "nack")
        self.driver = Driver(machine, self._clock, self.counters, application, tallied, self._committer)
        self.driver.passes_on_hold = settings.routing != "destinations"
        self._throttles = Throttles(self._budgets, self.driver.report)
        arrivals = self._arrivals = Arrivals(self.counters, self._log, lambda: self.connections)
        self._half_open = HalfOpen(settings.budgets.half_open, arrivals.on_half_open_closed)
        self._door_trust = DoorTrust(self.gate, self._rights, self._throttles.budgets, self.driver.report)
        self._directory: DirectoryService | None = None
        self.driver.on_register = self._register
        self._listeners: list[Listener] = []
        self._sessions: dict[str, Session] = {}
        self.lost_peers = LostPeers()  # that had dialled us
        self._wires: dict[Session, None] = {}  # also those that have not greeted yet
        self._absent = Absent(settings.protocol.session_us, self.driver.detach)
        self.peers: dict[str, Address] = {}  # those it dials
        self._admission = AdmissionControl(
            settings, self.gate, self._throttles.budgets, self._sessions, self.peers, self._needs_other
        )
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()  # from peers that are gone
        self._history = BrokerHistory(settings, self._accept, self._clock, self._rights, machine, self._log)
        self._watching: asyncio.Task[None] | None = None
        self._changed, self.given_up = asyncio.Event(), asyncio.Event()  # it gives up if its name stays taken
        self._name_refusals: dict[str, str] = {}  # peers that say that our name is taken, and how
        self._refused_since_s = 0.0

    def _needs_other(self, hello: Hello) -> str:
        return needs_other(hello, self._machine, self._committer is not None)

    def _new_machine(self, epoch: int, stored: Stored | None) -> BrokerMachine:
        settings = self.settings
        dice, index = Random(f"{epoch}/{settings.name}/heartbeat"), partial(Levels, threaded=True)
        own = settings.name, settings.routing, settings.protocol
        allowed = self._rights, True, self._budgets.conditions
        parts = BrokerParts(*own, ConditionBook(), index, epoch, dice, self._queue_length, *allowed)
        reliability = Reliability(settings.hops, gossip=settings.gossip, replication=settings.replication)
        return new_broker(parts, reliability, stored, settings.role)

    def _queue_length(self, neighbour: str) -> int:
        return self.driver.links[neighbour].waiting if neighbour in self.driver.links else 0

    # Starting and stopping -----------------------------------------------------------------------

    async def start(self) -> None:
        """Listen and begin to dial; a TransportError when a port is not to be had."""
        try:
            await self._history.open()
            about = self._committer, self._door_trust, self._half_open, self._arrivals, self._log
            async for listener in listeners(self.settings, self._accept, self._clock, self._taken, *about):
                self._listeners.append(listener)
        except BaseException:
            self.crash()
            raise
        if self.settings.directory is not None:
            self._directory = self.settings.directory()
        self.listening = tuple(each.address for each in self._listeners)
        for name, address in self.settings.peers.items():
            self.add_peer(name, address)
        self._watching = asyncio.create_task(self._watch_silence())

    def _register(self, register: Register) -> None:
        if self._directory is not None:
            self._directory.register(register.broker, register.neighbours)
            for name in register.neighbours:
                self._directory.watch(name, lambda broker, names: self.driver.give(NeighboursListed(broker, names)))

    def add_peer(self, name: str, address: Address) -> None:
        """Dial this broker, now and whenever the connection is lost."""
        self.peers[name] = address
        self._dialling[name] = asyncio.create_task(self._keep_dialling(name, address))

    def remove_peer(self, name: str) -> None:
        """Stop dialling this broker, and take leave of it."""
        self._stop_dialling(name)
        if name in self._sessions:
            self._sessions[name].end(f"{self.settings.name} has removed this peer")

    def set_peers(self, peers: Mapping[str, Address]) -> None:
        """Dial these and no others. Who stays is not touched; who is gone is sent what waits for it."""
        before = dict(self.peers)
        for name, address in before.items():
            if peers.get(name) != address:
                self._log(Note("peer_removed", name, f"peer {name} at {address} removed"))
                self._stop_dialling(name)
                leaving = asyncio.create_task(self._take_leave(name, moved=name in peers))
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
        for name, address in peers.items():
            if before.get(name) != address:
                self._log(Note("peer_added", name, f"peer {name} at {address} added"))
                self.add_peer(name, address)

    def read_trust(self) -> None:
        """Read keys, rights and certificates again; an InputError when one is no good, and then nothing has changed.

        Who could not prove any more what it has proved when it came is sent away.
        """
        tls = self.settings.tls
        contexts = [(each, tls.for_listening()) for each in self._listeners if tls and each.address.scheme in ENCRYPTED]
        self.gate.read()
        for listener, context in contexts:
            listener.renew(context)
        for session in list(self._sessions.values()):
            try:
                if session.dialled:
                    self.gate.check_dialled(session.credentials)
                elif session.wire.vouched is None:  # the others are the door's
                    session.identity = self.gate.identity(session.credentials, self.peers)
            except NotTrustedError as problem:
                session.expel(str(problem))
        changed: list[str] = []
        if self._rights is not None and self.gate.rights is not None:
            changed = self._rights.change(self.gate.rights)
        self._door_trust.on_change(frozenset(changed))
        for name in changed:  # they come back and begin anew
            self._absent.forget(name)
            if name in self._sessions and self._sessions[name].wire.vouched is None:
                self._sessions[name].expel("its rights have changed")

    def _stop_dialling(self, name: str) -> None:
        self.peers.pop(name, None)
        self._name_refusals.pop(name, None)
        dialling = self._dialling.pop(name, None)
        if dialling is not None:
            dialling.cancel()

    async def _take_leave(self, name: str, moved: bool) -> None:
        session = self._sessions.get(name)
        link = None if session is None else session.link
        if link is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_S):
                    await link.drained(0)
        if not moved:  # both ends forget each other; brokers that store events would keep them for a silent one
            if link is not None:
                self.driver.send(link, encode_message(Detach()))
            if self._machine.kind_of(name) is not None:
                self.driver.give(Received(name, Detach()))
        if session is None:
            return
        session.end(f"{self.settings.name} has removed this peer")
        _, slow = await asyncio.wait([session.ended], timeout=_DRAIN_S)
        if slow:
            session.end("not flushed in time", now=True)

    def crash(self) -> None:
        """Stop as a killed process does: nothing is sent, nobody is told."""
        self._stop_working()
        self._history.abandon()
        if self._committer is not None:
            self._committer.abandon()
        self._absent.close()
        for session in list(self._wires):
            session.hang_up("crash", now=True)
        if self._directory is not None:
            self._directory.close()

    def _stop_working(self) -> None:
        self._stop_listening()
        for task in (self._watching, *self._dialling.values(), *self._leaving):
            if task is not None:
                task.cancel()
        self._dialling.clear()
        self.driver.stop()

    async def stop(self, drain_s: float = _DRAIN_S) -> None:
        """Handle what has come, send what waits as far as others take it, and count the rest as unsent."""
        self._stop_working()
        await self._handle_what_has_come(drain_s)
        await self._history.close()
        self._absent.close()
        links = [session.link for session in self._wires if session.link is not None]
        for session in self._wires:
            session.wire.pause()
        for link in links:
            link.end_session()
        with suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                while any(link.waiting for link in links if not link.ended):
                    await asyncio.sleep(0.01)
        ended = [session.ended for session in self._wires]
        for session in list(self._wires):
            session.end(f"{self.settings.name} stops")
        _, slow = await asyncio.wait(ended, timeout=drain_s) if ended else ((), ())
        if slow:
            for session in list(self._wires):
                session.end("not stopped in time", now=True)
            await asyncio.wait(ended)
        if self._directory is not None:
            self._directory.close()
        if self._committer is not None:
            self.driver.give(Save())
            await self._committer.finish()

    async def _handle_what_has_come(self, limit_s: float) -> None:
        """Read on until nothing more comes, or too long: whoever sent it believes that we have it."""
        loop = asyncio.get_running_loop()
        end_s, before = loop.time() + limit_s, -1
        while before != self.counters.received and loop.time() < end_s:
            before = self.counters.received
            await asyncio.sleep(_QUIET_S)

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _accept(self, wire: Wire) -> Session:
        session = Session(wire, self, dialled=False)
        if is_full(self._wires, wire, SESSIONS_MAX + _GREETING_MAX):
            self.counters.refused += 1
            asyncio.get_running_loop().call_soon(session.end, "too many connections", True)
        self._wires[session] = None
        if wire.reliable and wire.vouched is None:  # over datagrams a cookie has come first
            self._half_open.enter(session, wire.far, lambda: session.end("too many have not greeted", now=True))
        return session

    # Connections ---------------------------------------------------------------------------------

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Brokers and clients that are connected."""
        return tuple(self._sessions)

    @property
    def connections(self) -> int:
        """Open ones, also those that have not greeted yet."""
        return len(self._wires)

    def gauges(self) -> Gauges:
        """What it holds, and how much of that there may be."""
        return {**self._machine.gauges(), **self._absent.gauges(), **self._history.gauges()}

    @property
    def store(self) -> Committer[Change] | None:
        """Who writes its durable store, if it has one."""
        return self._committer

    def dialled(self, name: str) -> bool | None:
        """Whether we dialled this neighbour, or it us; None when it is not connected."""
        session = self._sessions.get(name)
        return None if session is None else session.dialled

    async def connected_to(self, *names: str) -> None:
        """Wait until there are connections to these neighbours."""
        while not all(name in self._sessions for name in names):
            self._changed.clear()
            await self._changed.wait()

    def on_hello(self, session: Session, hello: Hello) -> Link | Refusal | None:
        decided = self._admission.decide(session, hello, self.name_taken)
        if not isinstance(decided, Principal):
            return decided
        session.identity = decided
        if self._rights is not None:
            self._rights.set(hello.node, decided)
        link = self._take(session, hello)
        self._half_open.leave(session)
        if hello.kind == "client":
            self._throttles.begin(session, link)
        return link

    def on_welcome(self, session: Session, welcome: Welcome) -> Link | Refusal:
        known = self._sessions.get(welcome.node)
        same = known is not None and known.far is not None and known.far.epoch == welcome.epoch
        if same and known is not None and not known.dialled and welcome.node < self.settings.name:
            return Refusal("other connection", f"duplicate connection: {welcome.node} has dialled this broker")
        return self._take(session, welcome)

    def _take(self, session: Session, far: Hello | Welcome) -> Link:
        known = self._sessions.get(far.node)
        self._name_refusals.pop(far.node, None)
        self.lost_peers.on_connected(far)
        self._sessions[far.node] = session
        self._wires[session] = None
        resumed = self._resumed(session, far, known)
        self._log(Note("connected", far.node, f"{far.kind} {far.node} connected ({session.wire.far})"))
        self._changed.set()
        return resumed or self._new_link(session.wire, far)

    def _new_link(self, wire: Wire, far: Hello | Welcome) -> Link:
        client = far if isinstance(far, Hello) and far.kind == "client" else None
        impairment = self.settings.impairments.get(far.node)
        keeps = client is not None and client.session and wire.reliable and impairment is None
        link = Link(
            far.node,
            far.kind,
            wire,
            self._clock,
            self.counters,
            self.settings.queue_bytes,
            impairment,
            self.settings.lossy_control,
            far.replaces if isinstance(far, Hello) else None,
            SessionStream(client.session) if client is not None and keeps else None,
            self.settings.push_back,
            has_session=client is not None and bool(client.session),
            level=far.level,
            repairs=far.repairs and self.hello.repairs and not (client is not None and wire.reliable),
        )
        if client is not None and client.lossless:
            link.push_back()
        return link

    def _resumed(self, session: Session, far: Hello | Welcome, known: Session | None) -> Link | None:
        """The link of a client that goes on; whatever else was there under this name ends."""
        away = self._absent.take(far.node)
        link = away if known is None else known.link
        if isinstance(far, Hello) and link is not None and may_resume(link, far):
            link.connect(session.wire, far.received)
            if known is not None:
                known.give_over("resumed over a newer connection")
            return link
        if known is not None:
            known.end("replaced by a newer connection")
        if away is not None:
            self.driver.detach(away)
        return None

    def on_dial(self) -> Hello:
        return self.hello

    def on_let_in(self, link: Link) -> Welcome:
        own, stream = self.hello, link.stream
        session = (0, 0) if stream is None else (stream.id, stream.received)
        about = self._committer is not None, *session, self._clock.now_us(), LEVEL, link.repairs
        return Welcome(own.node, own.kind, own.epoch, *about, keeps=self._history.keeps)

    def on_open(self, session: Session) -> None: ...
    def on_pong(self, token: int) -> None: ...
    def on_told(self, signal: Told) -> None: ...
    def on_ask_past(self, session: Session, ask: AskPast) -> None:
        self._history.on_ask(session, ask)

    @property
    def name_taken(self) -> str:
        """By whom, as a peer says that does not let us in; empty while all do."""
        return next(iter(self._name_refusals.values()), "")

    def on_refused(self, session: Session, refusal: Refusal) -> None:
        if refusal.code == "bye" and session.far is not None:  # who takes leave has said so before, and is forgotten
            session.left = self._machine.kind_of(session.far.node) is None
        if refusal.code != "taken" or session.expected is None:
            return
        now_s = asyncio.get_running_loop().time()
        if not self._name_refusals:
            self._refused_since_s = now_s
            text = f"{refusal.reason}: two brokers cannot have one name; this one refuses clients"
            self._log(Note("name_taken", session.expected, text))
        self._name_refusals[session.expected] = refusal.reason
        if now_s - self._refused_since_s > SILENT_LEASES * self.settings.protocol.lease_us / 1e6:
            self.given_up.set()
        for each in list(self._sessions.values()):
            if each.far is not None and each.far.kind == "client":
                each.end(f"{self.settings.name} cannot join its network: {refusal.reason}")

    def on_end(self, session: Session, reason: str) -> None:
        self._wires.pop(session, None)
        self._half_open.leave(session)
        self._throttles.end(session)
        self._history.on_end(session)
        name = session.far.node if session.far is not None else session.wire.far
        if self._sessions.get(name) is session:
            del self._sessions[name]
            self._changed.set()
            self._log(Note("disconnected", name, f"{name} disconnected: {reason}"))
            if session.link is not None and not session.link.ended:
                self._absent.keep(session.link)
            if name not in self.peers:
                self.lost_peers.on_end(session)
        elif session.opened.exception() is not None and not session.dialled:
            self._log(Note("refused", name, f"{name} refused: {reason}"))

    async def _keep_dialling(self, name: str, address: Address) -> None:
        backoff = Backoff(Random(f"{self.hello.epoch}/{self.settings.name}/{name}/backoff"))
        loop = asyncio.get_running_loop()
        reported = ""
        while True:
            began_s = loop.time()
            session = self._sessions.get(name)
            if session is None:
                try:
                    session = await open_session(address, self, self.settings.tls, name)
                except TransportError as problem:
                    if not str(problem).endswith(self._name_refusals.get(name, "")):  # the peer is away
                        del self._name_refusals[name]
                    if str(problem) != reported and name not in self._sessions:
                        reported = str(problem)
                        self._log(Note("cannot_connect", name, f"{reported} (retrying)"))
            if session is not None:
                await asyncio.wait([session.ended])
                reported = ""
            if loop.time() - began_s > 5 * MAX_S:  # it was a real connection, not one that is refused each time
                backoff.reset()
            await asyncio.sleep(backoff.delay_s())

    async def _watch_silence(self) -> None:
        """Close connections whose other end is dead without the network having told us."""
        limit_s = SILENT_LEASES * self.settings.protocol.lease_us / 1e6
        while True:
            await asyncio.sleep(limit_s / 4)
            for session in list(self._sessions.values()):
                # A client's application may keep its loop busy for as long as it likes.
                client = session.far is not None and session.far.kind == "client"
                session.check_alive(limit_s / 4, limit_s, host_only=client and session.wire.reliable)
                if session.link is not None:
                    session.link.mark()
            self._absent.limit()
            self.driver.stop_waiting_for_blocked(self.settings.blocked_s_max)

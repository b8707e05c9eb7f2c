"""The door of a broker for clients of MQTT: who is who, sessions that outlive connections, wills, retained events.

Every client gets a seat, a client of the broker in its own process; the door itself has one, by which it learns of
retained events of the whole network, and publishes wills.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from holdfast.books.rows import DOOR
from holdfast.model.errors import InputError
from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.model.messages import Publication
from holdfast.mqtt.connection import Open
from holdfast.mqtt.events import RETAIN, MqttEvent, event_of, topic_of
from holdfast.mqtt.notes import Notes
from holdfast.mqtt.packets import PublishPacket, Will
from holdfast.mqtt.reasons import (
    CLIENT_ID_INVALID,
    NOT_AUTHORIZED,
    SERVER_UNAVAILABLE,
    SHUTTING_DOWN,
    TAKEN_OVER,
    MqttError,
)
from holdfast.mqtt.restoring import restore
from holdfast.mqtt.retained import Retained
from holdfast.mqtt.session import MqttSession
from holdfast.mqtt.topics import TOPIC, matches
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.committer import Committer
from holdfast.net.departures import Departures
from holdfast.net.journal import Note
from holdfast.net.memory import joined
from holdfast.net.mqtt_place import ClientLine, ClientPlace
from holdfast.net.mqtt_trust import DoorTrust, Guest
from holdfast.net.seat import Seat
from holdfast.net.settings import NodeSettings
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Wire
from holdfast.protocol.effects import Incident
from holdfast.protocol.settings import BEST_EFFORT, ClientReliability
from holdfast.protocol.store_changes import Change
from holdfast.store.note_file import NoteChange, NoteFile
from holdfast.trust.certificate import Certificate
from holdfast.trust.identity import Principal

_RETAINED = "retained"
_RETAINED_MAX = 64  # events whose notes are written together, which takes a few milliseconds


class Door:
    def __init__(
        self,
        settings: NodeSettings,
        accept: Accept,
        clock: Clock,
        taken: Mapping[str, tuple[int, int]],
        store: Committer[Change] | None,
        trust: DoorTrust,
        log: Callable[[Note], None],
    ) -> None:
        self.settings = settings.mqtt
        self.retained = Retained()
        self.no_history = (
            "" if settings.history else f"{settings.name} keeps no history; start it with --history FOLDER"
        )
        self.lines: dict[ClientLine, None] = {}  # open connections
        self._node = settings
        self._accept = accept
        self._clock = clock
        self._taken = taken
        self.trust = trust
        trust.on_change = self._on_trust
        self._log = log
        log_file = partial(self.note, "")
        self._file = None if settings.store is None else NoteFile(_beside(settings.store), log_file)
        self._writer: Committer[NoteChange] | None = None if self._file is None else Committer(self._file, log_file)
        self._disks: list[Committer[Any]] = [each for each in (store, self._writer) if each is not None]
        self._places: dict[str, ClientPlace] = {}  # by the name of the client
        self._departures = Departures()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # as long as somebody has one
        self._last_come: dict[str, ClientLine] = {}  # of those that wait for a session, by its name
        self._timers: dict[
            tuple[str, str], asyncio.TimerHandle
        ] = {}  # of sessions and wills, by the name of the client
        self._tasks: set[asyncio.Task[None]] = set()
        self._own: Seat
        self.closed = False

    async def open(self) -> None:
        """Take our own seat, and find the sessions of an earlier process."""
        restored = [] if self._file is None else restore(self._file.load(), self._taken, self.retained)
        for session in restored:
            self._restore(session)
        name = f"{DOOR}{self._node.name}"
        self._own = self._new_seat(name, "the door itself", Principal(name, is_broker_itself=True))
        await self._own.__aenter__()
        self._own.want(_RETAINED, f"{RETAIN} = TRUE")
        self._own.begin()
        self._run(self._follow_retained())
        for session in restored:
            if session.will is not None:
                self._will(session, session.will, goes=True)

    def _restore(self, session: MqttSession) -> None:
        name = session.name
        place = self._places[name] = self._new_place(session, "the door itself")
        place.search_again(self.retained)
        if not session.left_us:  # it was connected when we were killed
            session.left_us = self._clock.now_us()
            session.note_session()
        left_s = max(0.0, session.expiry_s - self._away_s(session))
        self._later("session", name, left_s, lambda: self._run(self._expire(name)))

    def _away_s(self, session: MqttSession) -> float:
        return max(0.0, (self._clock.now_us() - session.left_us) / 1e6)

    def _new_place(self, session: MqttSession, far: str) -> ClientPlace:
        new_seat = partial(self._new_seat, session.name, far)
        most = self.settings.in_flight_max
        return ClientPlace(session, new_seat, self._clock, self.settings.topic, self.write, most, self._departures)

    async def write(self, notes: Notes) -> None:
        """Until these are safe; at once where the broker has no store, and a session lasts as long as its process."""
        if self._writer is not None:
            await self._writer.safe(list(notes.items()))

    def _new_seat(self, name: str, far: str, identity: Principal) -> Seat:
        async def dial(address: Address, near: Accept, tls: TlsFiles | None) -> Wire:
            return joined(far, self._accept, near, identity)

        publishes = f"{TOPIC} IS NOT NULL" if self._node.routing == "advertisements" else ""
        chosen = ClientReliability(recovery=self.settings.recovery, order=self.settings.order).guarantees
        bought = BEST_EFFORT if self._node.hops.durable else chosen  # stores lose nothing and keep the order
        own = self._node.protocol, self._clock, self._node.hops
        seat = Seat(name, dial, *own, publishes, guarantees=bought, new_witness=self._node.new_witness)
        seat.on_loss = partial(self._lost, name)
        return seat

    def _lost(self, name: str, why: str) -> None:
        """Events for a client are: MQTT has no way to tell the client, so its broker counts and tells it."""
        self.note(name, why)
        self.trust.report(Incident("events_dropped", name, reason=why))

    def note(self, who: str, text: str) -> None:
        """Something that whoever runs the broker may want to know."""
        self._log(Note("mqtt_client", who, f"MQTT client {who}: {text}"))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log(Note("mqtt_client", "", f"{task.exception()}"))

    # Sessions ------------------------------------------------------------------------------------

    async def sit(
        self, line: ClientLine, wish: Open, far: str, certificate: Certificate
    ) -> tuple[ClientPlace, bool, Guest]:
        """The place of a client, whether it had one before, and who it is.

        A MqttError when it cannot be who it says, another HoldfastError when the broker does not take it.
        """
        connect = wish.connect
        self.trust.check_method(connect)
        guest = self.trust.admit(connect, certificate)
        name = guest.name
        if len(name) > NAME_CHARACTERS_MAX:
            raise MqttError(CLIENT_ID_INVALID, f"a client identifier of {len(connect.client_id)} characters")
        if name not in self._places:
            self.trust.check_room(guest)
        self.trust.seat(guest)
        if connect.will is not None:
            self.event_of(name, _will_packet(connect.will))  # better refused now than when it is needed
        self._check_disks()
        self._last_come[name] = line
        async with self._lock_of(name):
            if self._last_come.get(name) is not line:  # many may wait, and one of them gets the session
                raise MqttError(SERVER_UNAVAILABLE, "another connection came for the session meanwhile")
            del self._last_come[name]
            place = await self._vacant(name, connect.clean or not self._may_go_on(guest))
            present = place is not None
            if place is None:
                place = self._new_place(MqttSession(name, has_notes=self._file is not None), far)
            await place.sit(guest.identity, afresh=not present)
            place.session.expiry_s, place.session.left_us = wish.expiry_s, 0
            place.session.set_will(connect.will)
            place.session.note_session()
            await self.write(place.session.notes())
            if self.closed:
                await place.close()
                raise MqttError(SERVER_UNAVAILABLE, "the broker stops")
            place.line = line
            self._places[name] = place
        return place, present, guest

    def _check_disks(self) -> None:
        """A MqttError while a disk takes nothing: a session is taken over when what it has sent is safe.

        The client would wait without an answer, and give up and come again without learning why.
        """
        for each in self._disks:
            if each.problem is not None:
                raise MqttError(SERVER_UNAVAILABLE, f"the broker cannot write to its store: {each.problem}")

    def _may_go_on(self, guest: Guest) -> bool:
        """Whether a client may have all that its session wants, and is who it was when events came for it."""
        place = self._places.get(guest.name)
        if place is None:
            return True
        same = place.seat is None or place.identity.groups == guest.identity.groups
        return same and self.trust.may_have(guest.name, place.session.subscriptions.values())

    def _on_trust(self, changed: frozenset[str]) -> None:
        """Keys or rights were read again: who could not come in any more goes, and so does what waits for it."""
        for name in changed & self._places.keys():
            line = self._places[name].line
            if line is not None:
                line.end(NOT_AUTHORIZED, "its rights have changed")
            self._run(self._expire(name, although_connected=True))
        for line in list(self.lines):
            why = "" if line.guest is None else self.trust.check(line.guest)
            if why:
                line.end(NOT_AUTHORIZED, why)

    def _lock_of(self, name: str) -> asyncio.Lock:
        """One at a time comes, goes or is forgotten."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def _vacant(self, name: str, clean: bool) -> ClientPlace | None:
        """The place that a client had, if it is to go on."""
        for kind in ("session", "will"):
            timer = self._timers.pop((kind, name), None)
            if timer is not None:
                timer.cancel()
        place = self._places.get(name)
        if place is None:
            return None
        if place.line is not None:
            line = place.line
            line.end(TAKEN_OVER, "another connection has taken the session over")
            await self._empty(name, place, line)
            place = self._places.get(name)
        if place is not None and (clean or not place.session.expiry_s):
            del self._places[name]
            await place.forget()
            return None
        return place

    async def leave(self, line: ClientLine, place: ClientPlace, with_will: bool) -> None:
        """A connection is over."""
        name = place.session.name
        async with self._lock_of(name):
            goes = place.line is line
            will = None if line.machine.connect is None or not with_will else line.machine.connect.will
            if goes and will is None and not self.closed:
                place.session.set_will(None)
            if goes:
                await self._empty(name, place, line)
            if will is not None and not self.closed:
                self._will(place.session, will, goes)

    async def _empty(self, name: str, place: ClientPlace, line: ClientLine) -> None:
        place.session.expiry_s = line.machine.expiry_s
        if self.closed:
            return
        if place.session.expiry_s:
            await place.detach()
            self._later("session", name, place.session.expiry_s, lambda: self._run(self._expire(name)))
        else:
            self._places.pop(name, None)
            await place.forget()

    async def _expire(self, name: str, although_connected: bool = False) -> None:
        async with self._lock_of(name):
            place = self._places.get(name)
            if place is not None and (place.line is None or although_connected):
                del self._places[name]
                await place.forget()

    def _later(self, kind: str, name: str, after_s: float, call: Callable[[], None]) -> None:
        self._timers[kind, name] = asyncio.get_running_loop().call_later(after_s, call)

    # Wills ---------------------------------------------------------------------------------------

    def _will(self, session: MqttSession, will: Will, goes: bool) -> None:
        """Published after the delay that the client asked for, unless it is back by then, or when its session ends."""
        delay_s = min(will.properties.get("will_delay_interval", 0), session.expiry_s)
        if not delay_s:
            self._run(self._publish_will(session, will))
        elif goes:
            left_s = max(0.0, delay_s - self._away_s(session))
            self._later("will", session.name, left_s, lambda: self._run(self._publish_will(session, will)))

    async def _publish_will(self, session: MqttSession, will: Will) -> None:
        self._timers.pop(("will", session.name), None)
        packet = _will_packet(will)
        try:
            await self.publish(self._own, packet, self.event_of(session.name, packet))
        except (InputError, MqttError) as problem:
            self._log(Note("mqtt_client", session.name, f"the will of {session.name} was not published: {problem}"))
        await self._own.all_stored()
        if session.will is will:
            session.set_will(None)
            await self.write(session.notes())

    # Publishing ----------------------------------------------------------------------------------

    def event_of(self, name: str, packet: PublishPacket) -> MqttEvent:
        """What a client publishes; a MqttError when it has no right to that."""
        event = event_of(packet, any([matches(each, packet.topic) for each in self.settings.json]))
        self.trust.check_publication(name, event.attributes)
        return event

    async def publish(self, seat: Seat, packet: PublishPacket, event: MqttEvent) -> int:
        """Its sequence number; an InputError when no event can be made of it."""
        began_us = self._clock.now_us()
        seq = await seat.publish(event.attributes, event.payload, event.lifetime_s)
        if packet.retain:  # here at once, so that whoever subscribes after the publisher was answered gets it
            lifetime_us = None if event.lifetime_s is None else int(event.lifetime_s * 1e6)
            kept = Publication(seat.name, seq, began_us, lifetime_us, event.attributes, event.payload)
            self.retained.put(packet.topic, kept)
        return seq

    async def _follow_retained(self) -> None:
        queue = self._own.queue
        while True:
            await queue.wait()
            count, notes = min(len(queue), _RETAINED_MAX), Notes()
            for _ in range(count):
                event = self._own.take().publication
                topic = topic_of(event, self.settings.topic)
                self.retained.put(topic, event)
                notes |= self.retained.notes(topic)
            await self.write(notes)
            self._own.finish(count)

    # The end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nobody comes in any more; whoever is there is told that the broker stops."""
        if self.closed:
            return
        self.closed = True
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        for line in list(self.lines):
            line.end(SHUTTING_DOWN, "the broker stops")
        self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        for place in list(self._places.values()):
            await place.close()
        await self._departures.end_all()
        await self._own.leave(for_good=False)
        if self._writer is not None:
            await self._writer.finish()


def _will_packet(will: Will) -> PublishPacket:
    properties = {name: value for name, value in will.properties.items() if name != "will_delay_interval"}
    return PublishPacket(will.topic, will.payload, will.qos, will.retain, properties=properties)


def _beside(store: Path) -> Path:
    return store.with_name(f"{store.name}.mqtt")

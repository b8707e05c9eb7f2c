"""The door of a broker for clients of MQTT: who is who, sessions that outlive connections, wills, retained events.

Every client gets a seat, a client of the broker in its own process; the door itself has one, by which it learns of
retained events of the whole network, and publishes wills.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from holdfast.model.errors import InputError
from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.model.messages import Publication
from holdfast.mqtt.connection import Open
from holdfast.mqtt.events import RETAIN, event_of, topic_of
from holdfast.mqtt.notes import Notes
from holdfast.mqtt.packets import PublishPacket, Will
from holdfast.mqtt.reasons import CLIENT_ID_INVALID, NOT_AUTHORIZED, SHUTTING_DOWN, TAKEN_OVER, MqttError
from holdfast.mqtt.restoring import restore
from holdfast.mqtt.retained import Retained
from holdfast.mqtt.session import MqttSession
from holdfast.mqtt.topics import TOPIC, matches
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.journal import Note
from holdfast.net.memory import joined
from holdfast.net.mqtt_notes import NoteFile
from holdfast.net.mqtt_place import ClientLine, ClientPlace
from holdfast.net.seat import Seat
from holdfast.net.settings import NodeSettings
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Wire
from holdfast.trust.certificate import Certificate, certified

_PREFIX = "mqtt:"
_RETAINED = "retained"


class Door:
    def __init__(
        self,
        settings: NodeSettings,
        accept: Accept,
        clock: Clock,
        taken: Mapping[str, tuple[int, int]],
        log: Callable[[Note], None],
    ) -> None:
        self.settings = settings.mqtt
        self.retained = Retained()
        self.lines: dict[ClientLine, None] = {}  # open connections
        self._node = settings
        self._accept = accept
        self._clock = clock
        self._taken = taken
        self._log = log
        self._file = None if settings.store is None else NoteFile(_beside(settings.store), partial(self.note, ""))
        self._places: dict[str, ClientPlace] = {}  # by the name of the client
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # as long as somebody has one
        self._timers: dict[
            tuple[str, str], asyncio.TimerHandle
        ] = {}  # of sessions and wills, by the name of the client
        self._tasks: set[asyncio.Task[None]] = set()
        self._own: Seat
        self.closed = False

    async def open(self) -> None:
        """Take our own seat, and find the sessions of an earlier process."""
        for restored in [] if self._file is None else restore(self._file.load(), self._taken, self.retained):
            self._restore(*restored)
        self._own = self._new_seat(f"mqtt-door:{self._node.name}", "the door itself")
        await self._own.__aenter__()
        self._own.want(_RETAINED, f"{RETAIN} = TRUE")
        self._own.begin()
        self._run(self._follow_retained())

    def _restore(self, session: MqttSession, left_us: int) -> None:
        name = session.name
        self._places[name] = self._new_place(session, "the door itself")
        away_s = (self._clock.now_us() - left_us) / 1e6 if left_us else 0.0
        left_s = max(0.0, session.expiry_s - away_s)
        self._later("session", name, left_s, lambda: self._run(self._expire(name)))

    def _new_place(self, session: MqttSession, far: str) -> ClientPlace:
        new_seat = partial(self._new_seat, session.name, far)
        most = self.settings.in_flight_max
        return ClientPlace(session, new_seat, self._clock, self.settings.topic, self.write, most)

    async def write(self, notes: Notes) -> None:
        """Until these are safe; at once where the broker has no store, and a session lasts as long as its process."""
        if self._file is not None:
            await self._file.write(notes)

    def _new_seat(self, name: str, far: str) -> Seat:
        async def dial(address: Address, near: Accept, tls: TlsFiles | None) -> Wire:
            return joined(far, self._accept, near, _vouched(name))

        publishes = f"{TOPIC} IS NOT NULL" if self._node.routing == "advertisements" else ""
        seat = Seat(name, dial, self._node.protocol, self._clock, self._node.hops, publishes)
        seat.on_loss = partial(self.note, name)
        return seat

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
    ) -> tuple[ClientPlace, bool, str]:
        """The place of a client, whether it had one before, and the identifier that it was given.

        A MqttError when its identifier cannot be one, another HoldfastError when the broker does not take it.
        """
        connect = wish.connect
        assigned = "" if connect.client_id else f"auto-{token_hex(8)}"
        name = self._name_of(connect.client_id or assigned, certificate)
        if len(name) > NAME_CHARACTERS_MAX:
            raise MqttError(CLIENT_ID_INVALID, f"a client identifier of {len(connect.client_id)} characters")
        async with self._lock_of(name):
            place = await self._vacant(name, connect.clean)
            present = place is not None
            if place is None:
                place = self._new_place(MqttSession(name, has_notes=self._file is not None), far)
            await place.sit(afresh=not present)
            place.session.expiry_s = wish.expiry_s
            place.session.note_session()
            await self.write(place.session.notes())
            place.line = line
            self._places[name] = place
        return place, present, assigned

    def _name_of(self, client_id: str, certificate: Certificate) -> str:
        """Printable and without white space; where there are certificates, who has none is anonymous."""
        who = client_id
        if self._node.tls is not None and self._node.tls.ca is not None:
            if not certificate:
                who = f"anonymous.{client_id}"
            elif certified(certificate).identity("client", client_id) is None:
                raise MqttError(NOT_AUTHORIZED, f"its certificate is for {certified(certificate)}, not for {client_id}")
        return _PREFIX + quote(who, safe=":/@!$&'()*+,;=?[]~^{}|<>#")

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
            if goes:
                await self._empty(name, place, line)
            will = None if line.machine.connect is None else line.machine.connect.will
            if will is not None and with_will and not self.closed:
                self._will(name, will, place.session.expiry_s, goes)

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

    async def _expire(self, name: str) -> None:
        async with self._lock_of(name):
            place = self._places.get(name)
            if place is not None and place.line is None:
                del self._places[name]
                await place.forget()

    def _later(self, kind: str, name: str, after_s: float, call: Callable[[], None]) -> None:
        self._timers[kind, name] = asyncio.get_running_loop().call_later(after_s, call)

    # Wills ---------------------------------------------------------------------------------------

    def _will(self, name: str, will: Will, expiry_s: float, goes: bool) -> None:
        """Published after the delay that the client asked for, unless it is back by then, or when its session ends."""
        delay_s = min(will.properties.get("will_delay_interval", 0), expiry_s)
        properties = {name: value for name, value in will.properties.items() if name != "will_delay_interval"}
        packet = PublishPacket(will.topic, will.payload, will.qos, will.retain, properties=properties)
        if delay_s and goes:
            self._later("will", name, delay_s, lambda: self._run(self._publish_will(name, packet)))
        elif not delay_s:
            self._run(self._publish_will(name, packet))

    async def _publish_will(self, name: str, packet: PublishPacket) -> None:
        self._timers.pop(("will", name), None)
        try:
            await self.publish(self._own, packet)
        except InputError as problem:
            self._log(Note("mqtt_client", name, f"the will of {name} was not published: {problem}"))

    # Publishing ----------------------------------------------------------------------------------

    async def publish_once(self, place: ClientPlace, packet: PublishPacket) -> int:
        """The same for quality 2: the number under which the broker gets the event is written down before."""
        assert place.seat is not None
        if self._file is None:
            return await self.publish(place.seat, packet)
        place.session.note_incoming(packet.packet_id, *place.seat.next_handover())
        await self.write(place.session.notes())
        seq = await self.publish(place.seat, packet)
        place.seat.send_now()
        return seq

    async def publish(self, seat: Seat, packet: PublishPacket) -> int:
        """Its sequence number; an InputError when no event can be made of it."""
        event = event_of(packet, any(matches(each, packet.topic) for each in self.settings.json))
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
            event = self._own.take().publication
            topic = topic_of(event, self.settings.topic)
            self.retained.put(topic, event)
            await self.write(self.retained.notes(topic))
            self._own.finish(1)

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
        await self._own.leave(for_good=False)
        if self._file is not None:
            await self._file.close()


def _vouched(name: str) -> Certificate:
    """The door has checked who its clients are, and vouches for each under its name."""
    return {"subjectAltName": (("URI", f"holdfast:client:{name}"),)}


def _beside(store: Path) -> Path:
    return store.with_name(f"{store.name}.mqtt")

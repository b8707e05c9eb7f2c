"""Run one machine live: inputs in, effects performed, one timer armed from `next_due_us`.

It decides nothing about the protocol. What it adds is what a simulator need not care for: all messages of a frame
are handled in one go; what they cause is written at most twice per turn of the event loop and neighbour, the first at
once and the rest together; and a neighbour that is too slow either loses its oldest events or, if so configured, slows
down those who feed it.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from holdfast.books.tally import Tally
from holdfast.model.messages import (
    Batch,
    Heartbeat,
    Message,
    NodeKind,
    Publication,
    Publish,
    with_statement,
)
from holdfast.model.replication_messages import (
    ReplicaRequest,
    Retired,
)
from holdfast.net.clock import Clock
from holdfast.net.committer import Committer
from holdfast.net.counters import Counters
from holdfast.net.link import Link
from holdfast.net.skew import with_skew_of_sender
from holdfast.protocol.effects import (
    Acknowledged,
    Delivered,
    DeliveredBatch,
    Deny,
    Effect,
    HandedOut,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Lost,
    Multicast,
    Persist,
    Persisted,
    Picked,
    Published,
    Register,
    ReplicaReleased,
    ReplicaWanted,
    Send,
    Wake,
)
from holdfast.protocol.message_kind import REPAIRS, classify
from holdfast.protocol.node import Node
from holdfast.protocol.store_changes import Change
from holdfast.wire.batch_writer import Relay
from holdfast.wire.codec import (
    FRAME_BYTES,
    count_in,
    encode_message,
    framed,
)
from holdfast.wire.older_peers import as_older
from holdfast.wire.signals import LISTS, STATEMENTS, Denied, Hold, encode_signal

WAKE = Wake()
_HOLD = encode_signal(Hold())
_OF_BROKERS = (ReplicaRequest, Retired)  # of those that we may not know yet, or not any more
_NO_FRAME: tuple[list[Message], bytes] = [], b""


def _published(message: Publish | Batch) -> list[Publish]:
    return message.published() if isinstance(message, Batch) else [message]


class Application(Protocol):
    """Who is told what a machine hands out."""

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_lost(self, lost: Lost, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...
    def on_incident(self, incident: Incident, now_us: int) -> None: ...
    def on_acknowledged(self, acknowledged: Acknowledged, now_us: int) -> None: ...


class Driver:
    kind: NodeKind = "broker"  # of its machine

    def __init__(
        self,
        machine: Node,
        clock: Clock,
        counters: Counters,
        application: Application | None = None,
        tallied: bool = False,
        committer: Committer[Change] | None = None,
    ) -> None:
        self.machine = machine
        self._committer = committer
        if committer is not None:
            committer.on_safe = lambda token: self.give(Persisted(token))
        self.counters = counters
        self.links: dict[str, Link] = {}
        self.tallies: dict[str, Tally] | None = {} if tallied else None
        self.on_links: dict[str, Tally] = {}  # of what impaired links may lose, by neighbour; only where it is tallied
        self.on_replica_wanted: Callable[[ReplicaWanted], None] = lambda wanted: None  # whoever starts brokers
        self.on_replica_released: Callable[[], None] = lambda: None  # and ends them
        self.on_register: Callable[[Register], None] = lambda register: None  # a directory outside
        self.on_handed_out: Callable[[HandedOut], None] = lambda handed_out: None  # who says what is done with
        self._clock = clock
        self._application = application
        self._full: dict[str, None] = {}  # neighbours that hold up the others
        self.passes_on_hold = False  # only where the links of brokers are a tree, so that nobody waits for itself
        self._loop = asyncio.get_running_loop()
        self._dirty: list[Link] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed_us: int | None = None
        self._stopped = False
        self._handled: tuple[list[Message], bytes | memoryview] = [], b""  # the frame that is being handled,
        self._relay: Relay | None = None  # and its batches, once one is passed on
        self._outgoing: dict[str, list[bytes]] = {}  # encoded messages by neighbour, until the input is handled
        self._kinds: dict[int, str] = {}  # of those, by identity, where they are tallied
        self.rearm()

    def now_us(self) -> int:
        return self._clock.now_us()

    # Inputs --------------------------------------------------------------------------------------

    def give(self, given: Input) -> None:
        """Hand one input to the machine and perform what comes out."""
        now_us = self._clock.now_us()
        self._perform(self.machine.handle(given, now_us), now_us)
        self._relay = None
        if self._outgoing:
            self._send()
        self.rearm()

    def receive(self, sender: str, messages: list[Message], frame: bytes | memoryview) -> None:
        """The messages of one frame, and the frame itself, which is looked at only during the call."""
        now_us = self._clock.now_us()
        link = self.links.get(sender)
        if link is not None and link.skew_us:
            messages = [with_skew_of_sender(each, link.skew_us) for each in messages]
        if self.tallies is not None:
            messages = self._one_by_one(messages)
            for message in messages:
                self._tally(classify(message)[0]).received += 1
        if link is not None and link.kind == "client" and any(type(each) in _OF_BROKERS for each in messages):
            self.report(Incident("unexpected_message", sender))  # what it is was settled when it came
            messages = [each for each in messages if type(each) not in _OF_BROKERS]
        before = self.counters.received
        for at, message in enumerate(messages):
            self.counters.received += len(message.seqs) if type(message) is Batch else 1
            if type(message) is Heartbeat and link is not None and message.kind != link.kind:
                # What it is was settled when it came.
                messages[at] = Heartbeat(message.epoch, message.heard, message.known, link.kind)
        if link is not None:
            link.received += self.counters.received - before
        self._handled = messages, frame
        self._perform(self.machine.receive(sender, messages, now_us), now_us)
        self._handled, self._relay = _NO_FRAME, None
        if self._outgoing:
            self._send()
        self.rearm()

    def _one_by_one(self, messages: list[Message]) -> list[Message]:
        """The same without batches."""
        singles: list[Message] = []
        for each in messages:
            if type(each) is Batch:
                singles += each.delivered() if self.kind == "client" else each.published()
            else:
                singles.append(each)
        return singles

    def send(self, link: Link, encoded: bytes) -> None:
        """A message that is neither tallied nor impaired."""
        self.counters.sent += 1
        if not self._sent_alone(link, encoded):
            link.outbox.put(encoded)
            if not link.dirty:
                self._touch(link)

    def attach(self, link: Link) -> None:
        """A link is there; or is there again, and goes on where its last connection broke."""
        if self.links.get(link.name) is link:
            link.go_on()
            self._weigh(link)
            return
        self.links[link.name] = link
        if self._full:
            self._pause_or_resume()
        self._pass_on_hold()
        self.give(LinkUp(link.name, link.kind, link.replaces, link.takes_statements, link.repairs, link.hears_outages))

    def detach(self, link: Link) -> None:
        link.end()
        if self.links.get(link.name) is link:
            del self.links[link.name]
            self._not_full(link.name)
            self.give(LinkDown(link.name))

    def suspend(self, link: Link) -> None:
        """A connection broke whose session may go on: the machine need not know."""
        link.disconnect()
        self._not_full(link.name)

    def send_again(self, link: Link, messages: list[Publish | Batch]) -> None:
        """What another link could not bring to its end."""
        singles = messages if link.accepts_batches else [each for one in messages for each in _published(one)]
        self._outgoing[link.name] = list(map(self._encoded, singles))
        self._send()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # The timer -----------------------------------------------------------------------------------

    def rearm(self) -> None:
        due_us = self.machine.next_due_us()
        if due_us == self._armed_us or self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_us = due_us
        if due_us is not None:
            wait_us = max(0, due_us - self._clock.now_us())
            self._timer = self._loop.call_later(wait_us / 1e6, self._on_timer)

    def _on_timer(self) -> None:
        due_us, self._armed_us, self._timer = self._armed_us, None, None
        if due_us is not None and self._clock.now_us() >= due_us:
            self.give(WAKE)
        else:
            self.rearm()  # event loops may be a little early

    # Effects -------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect], now_us: int) -> None:
        for effect in effects:  # the most frequent ones first
            if type(effect) is Multicast:
                if type(effect.message) is Batch:
                    self._multicast_batch(effect.to, effect.message, effect.part)
                    continue
                encoded = self._encoded(effect.message)
                for to in effect.to:
                    self._put(to, encoded)
            elif type(effect) is DeliveredBatch:
                if self._application is not None:
                    self._application.on_delivered_batch(effect, now_us)
            elif type(effect) is Delivered:
                if self._application is not None:
                    self._application.on_delivered(effect, now_us)
            elif type(effect) is Send:
                if type(effect.message) is Batch:
                    self._multicast_batch((effect.to,), effect.message)
                    continue
                self._put(effect.to, self._encoded(effect.message))
            elif type(effect) is Incident:
                self.report(effect)
            elif type(effect) is Persist:
                assert self._committer is not None
                self._committer.persist(effect.changes, effect.token)
            elif type(effect) is Deny:
                self._deny(effect)
            elif type(effect) is ReplicaWanted:
                self.on_replica_wanted(effect)
            elif type(effect) is ReplicaReleased:
                self.on_replica_released()
            elif type(effect) is Register:
                self.on_register(effect)
            elif type(effect) is HandedOut:
                self.on_handed_out(effect)
            elif self._application is not None:
                if type(effect) is Published:
                    self._application.on_published(effect.publication, now_us)
                elif type(effect) is Lost:
                    self._application.on_lost(effect, now_us)
                elif type(effect) is Acknowledged:
                    self._application.on_acknowledged(effect, now_us)

    def report(self, incident: Incident) -> None:
        self.counters.note(incident.kind, incident.count)
        if self._application is not None:  # by now: a large table takes a while to handle
            self._application.on_incident(incident, self._clock.now_us())

    def _deny(self, denied: Deny) -> None:
        link = self.links.get(denied.client)
        if link is not None and link.hears_outages and link.writable:  # else it is older, or reads nothing
            said = denied.condition, denied.instead, denied.reason, denied.seq, denied.events
            link.wire.send(encode_signal(Denied(*said)))

    def _put(self, to: str, encoded: bytes) -> None:
        if to in self._outgoing:
            self._outgoing[to].append(encoded)
        else:
            self._outgoing[to] = [encoded]

    def _encoded(self, message: Message) -> bytes:
        return self._noted(message, encode_message(message))

    def _noted(self, message: Message, encoded: bytes) -> bytes:
        """The same bytes; of what kind they are is remembered until they are sent, where that is tallied."""
        if self.tallies is not None:
            self._kinds[id(encoded)] = classify(message)[0]
        return encoded

    def _multicast_batch(self, to: tuple[str, ...], batch: Batch, part: Picked | None = None) -> None:
        together: dict[bool, bytes] = {}  # with or without the statement
        apart: dict[NodeKind, list[bytes]] = {}
        for name in to:
            link = self.links.get(name)
            if link is None or link.accepts_batches:
                states = link is None or link.takes_statements
                if states not in together:
                    stated = batch if states or not batch.since else with_statement(batch, batch.hops, 1, 0)
                    if self._relay is None:
                        self._relay = Relay(*self._handled)
                    whole, places = (None, ()) if part is None else (part.whole, part.places)
                    together[states] = self._noted(stated, self._relay.encoded(stated, whole, places))
                if states or batch.seqs:
                    self._put(name, together[states])
                continue
            if link.kind not in apart:  # what the batch states is nothing for a link that may lose some of it
                singles = batch.delivered() if link.kind == "client" else batch.published()
                apart[link.kind] = list(map(self._encoded, singles))
            for each in apart[link.kind]:
                self._put(name, each)

    def _send(self) -> None:
        """Put what the machine has sent into the outboxes: all that one frame has caused, neighbour by neighbour."""
        outgoing, self._outgoing = self._outgoing, {}
        older: dict[int, bytes] = {}  # what a message is to older neighbours, by its identity: many are sent the same
        for name, messages in outgoing.items():
            link = self.links.get(name)
            count = count_in(messages[0]) if len(messages) == 1 else sum(map(count_in, messages))
            if link is None:
                self.counters.nowhere += count
                continue
            self.counters.sent += count
            link.sent += count
            if self.tallies is not None:
                self._tally_sent(link, messages)
            if link.impairment is not None:
                self._impair(link, messages)
                continue
            if link.level < LISTS:
                messages = [older.get(id(each)) or older.setdefault(id(each), as_older(each)) for each in messages]
            if len(messages) == 1 and self._sent_alone(link, messages[0]):
                continue
            link.outbox.put_all(messages)
            if not link.dirty:
                self._touch(link)
            if link.waited_for and link.outbox.waiting_bytes > link.queue_bytes:
                link.flush()  # now rather than when the loop turns, so that others are held up before more comes
                self._weigh(link)
        if self._kinds:
            self._kinds.clear()

    def _impair(self, link: Link, messages: list[bytes]) -> None:
        for encoded in messages:
            kept = link.impair(encoded, self._touch)
            if not kept:
                self.counters.lost += 1
                link.lost += 1
            if self.tallies is not None:
                if not kept:
                    self._tally(self._kinds[id(encoded)]).lost += 1
                if link.may_lose(encoded):
                    self._tally_link(link.name, len(encoded) + FRAME_BYTES, kept)

    def _tally_sent(self, link: Link, messages: list[bytes]) -> None:
        for encoded in messages:
            kind = self._kinds[id(encoded)]
            link.repairs_sent += kind in REPAIRS
            tally = self._tally(kind)
            tally.sent += 1
            tally.sent_bytes += len(encoded) + FRAME_BYTES

    def _tally_link(self, name: str, size: int, kept: bool) -> None:
        tally = self.on_links.get(name)
        if tally is None:
            tally = self.on_links[name] = Tally()
        tally.sent += 1
        tally.sent_bytes += size
        tally.lost += not kept

    def _tally(self, kind: str) -> Tally:
        assert self.tallies is not None
        found = self.tallies.get(kind)
        if found is None:
            found = self.tallies[kind] = Tally()
        return found

    # Writing -------------------------------------------------------------------------------------

    def _touch(self, link: Link) -> None:
        """Write what waits now. What comes before the event loop turns is then written together, when it does.

        So an event on its own never waits, and of many that come in a row only the first goes alone.
        """
        link.flush()
        self._flush_later(link)

    def _sent_alone(self, link: Link, encoded: bytes) -> bool:
        """The same without the outbox, for one message where nothing waits: the way of an event on its own is short."""
        if link.dirty or not link.writable or link.outbox.waiting_bytes or len(encoded) > link.wire.frame_aim:
            return False
        link.send(framed((encoded,)))
        self._flush_later(link)
        return True

    def _flush_later(self, link: Link) -> None:
        if not self._dirty:
            self._loop.call_soon(self._flush)
        link.dirty = True
        self._dirty.append(link)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for link in dirty:
            link.flush()
            if link.outbox.waiting_bytes or self._full:
                self._weigh(link)
                if link.outbox.stuck:
                    link.wire.abort()

    def on_writable(self, link: Link, writable: bool) -> None:
        link.set_writable(writable)
        if writable:
            self._weigh(link)

    def on_ack(self, link: Link, received: int) -> None:
        link.on_ack(received)
        if self._full:
            self._weigh(link)

    # Pushing back --------------------------------------------------------------------------------

    def stop_waiting_for_blocked(self, limit_s: float) -> None:
        """Hold nobody up any more for neighbours that take nothing at all."""
        for name in list(self._full):
            if self.links[name].blocked_s > limit_s:
                self.counters.note("backpressure_ended")
                self.links[name].stop_waiting()
                self._not_full(name)

    def on_hold(self, link: Link) -> None:
        """Somebody behind this neighbour is to lose nothing."""
        link.push_back()
        self._pass_on_hold()

    def _pass_on_hold(self) -> None:
        """Tell each broker that it is to wait for us if somebody else here is to lose nothing: once a connection."""
        lossless = sum([link.lossless for link in self.links.values()]) if self.passes_on_hold else 0
        for link in self.links.values() if lossless else ():
            knows = link.kind == "broker" and link.wire.reliable and link.level >= STATEMENTS
            if knows and not link.asked_to_wait and lossless > link.lossless:
                link.asked_to_wait = True
                link.wire.send(_HOLD)

    def _weigh(self, link: Link) -> None:
        """Hold up everybody else while this neighbour has too much waiting; go on when half of it is gone."""
        if not link.waited_for:
            return
        waiting_bytes = link.outbox.waiting_bytes
        if waiting_bytes > link.queue_bytes:
            if link.name not in self._full:
                self._full[link.name] = None
                self._pause_or_resume()
        elif waiting_bytes <= link.queue_bytes // 2:
            self._not_full(link.name)

    def _not_full(self, name: str) -> None:
        if self._full.pop(name, self) is None:
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        # Never hold a neighbour up for its own sake: on a tree, waiting can then never go round in a circle. And never
        # hold up a client that is full itself: its acknowledgements would not be read, and it could not get on.
        for name, link in self.links.items():
            others = len(self._full) - (name in self._full)
            link.hold_up(others > 0 and not (link.kind == "client" and name in self._full))

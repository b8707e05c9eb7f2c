"""A broker: keeps tables with its neighbours and sends each event on to those who want it.

It composes machines and decides nothing itself: `tables` keeps both ends of a link equal, a router (`tree` or
`destinations`) says where events and tables go. Best effort, without acknowledgement and storage, unless it is given
the means to recover what was lost (`gossip`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

import msgspec

from holdfast.language.problems import ConditionError
from holdfast.model.messages import (
    TABLES,
    Batch,
    Delta,
    Detach,
    Heartbeat,
    LinkState,
    Message,
    NodeKind,
    Outage,
    Publish,
    Snapshot,
    Stamped,
    Table,
    TableRefused,
)
from holdfast.model.messages import Gossip as GossipMessage
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.destinations import DestinationRouter
from holdfast.protocol.effects import (
    Effect,
    Gauges,
    Incident,
    Input,
    LinkDown,
    LinkUp,
    Multicast,
    Received,
    Send,
    Wake,
)
from holdfast.protocol.gossip.classes import Classes
from holdfast.protocol.gossip.gossip import Gossip
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.recovery.control import CONTROL_SEQ
from holdfast.protocol.seen import Seen
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import ReceivedTable
from holdfast.protocol.tree import ALL_AT_ONCE, TreeRouter

BETWEEN_BROKERS = get_args(GossipMessage)
_DOWN_MAX = 1_000  # brokers that we remember to have lost; nobody has so many next to it
Routing = Literal["subscriptions", "advertisements", "destinations"]


@dataclass(frozen=True)
class BrokerParts:
    """What every kind of broker is made of."""

    name: str
    routing: Routing
    settings: ProtocolSettings
    book: ConditionBook
    new_index: Callable[[], EventIndex[str]]
    epoch: int  # when its life began
    rng: Random


class Neighbour:
    def __init__(self, kind: NodeKind, now_us: int, reliable: bool = False) -> None:
        self.kind = kind
        self.reliable = reliable  # the end of its link is noticed: silence then only means that it is slow
        self.heard: dict[Table, ReceivedTable] = {table: ReceivedTable() for table in TABLES}
        self.epoch: int | None = None
        self.heard_us = now_us
        self.silent = False  # its lease has run out; it counts again when it speaks


class Broker:
    def __init__(self, parts: BrokerParts, gossip: GossipSettings | None = None, states: bool = False) -> None:
        """Who `states` sends events at once, to each neighbour in the order in which they came, and keeps none: so it
        can state what was sent, and tells when a link to another broker was down.
        """
        self._states = states
        self._down: dict[str, tuple[int, bool]] = {}  # brokers that we have lost: since when, and whether that was told
        self.name = name = parts.name
        self._settings = settings = parts.settings
        self._book = book = parts.book
        self._epoch = epoch = parts.epoch
        new_index, rng = parts.new_index, parts.rng
        self._neighbours: dict[str, Neighbour] = {}
        classes = None if gossip is None else Classes(name, epoch, gossip.fading_us, book, new_index)
        self._router: TreeRouter | DestinationRouter
        if parts.routing == "destinations":
            self._router = DestinationRouter(name, epoch, settings, book, new_index, classes)
        else:
            by_advertisements, hops_max = parts.routing == "advertisements", settings.hops_max
            self._router = TreeRouter(book, new_index, by_advertisements, hops_max, classes, states and gossip is None)
        self._gossip: Gossip | None = None
        if gossip is not None and classes is not None:
            seen, dice = Seen(settings.dedup_window, settings.dedup_sources), Random(f"{rng.getrandbits(64)}/gossip")
            self._gossip = Gossip(name, epoch, gossip, classes, self._router, seen, settings.hops_max, dice)
        # Multicast out, so that a network started at once does not beat in one rhythm.
        self._due_us = epoch + int(settings.heartbeat_us * rng.random())

    def next_due_us(self) -> int:
        due_us, more_us = self._due_us, self._router.more_us
        if more_us is not None and more_us < due_us:
            due_us = more_us
        round_us = None if self._gossip is None else self._gossip.next_due_us()
        return due_us if round_us is None else min(round_us, due_us)

    def tell_at_once(self) -> None:
        """Tell a large table in one go: for brokers that have more to say when all of it is told, or do so first."""
        if isinstance(self._router, TreeRouter):
            self._router.slice = ALL_AT_ONCE

    def has_settled(self, now_us: int) -> bool:
        """Whether it is not likely to recover anything any more."""
        return self._gossip is None or self._gossip.has_settled(now_us)

    @property
    def counts(self) -> dict[str, int]:
        """What it has done to recover losses."""
        return {} if self._gossip is None else self._gossip.counts

    def gauges(self) -> Gauges:
        tables = (table.conditions for each in self._neighbours.values() for table in each.heard.values())
        own = {"conditions of a neighbour": (max(map(len, tables), default=0), self._settings.conditions_max)}
        return own if self._gossip is None else {**own, **self._gossip.gauges()}

    def knows(self, neighbour: str) -> bool:
        return neighbour in self._neighbours

    def heard_summary(self, neighbour: str, table: Table) -> tuple[int, int]:
        """Version and digest: a whole table may mend what we have of a version without being a newer one."""
        return self._neighbours[neighbour].heard[table].summary

    def began_anew(self, neighbour: str, epoch: int) -> bool:
        """Whether this is another life of a neighbour than the one that we know."""
        known = self._neighbours.get(neighbour)
        return known is not None and known.epoch not in (None, epoch)

    def adopt(self, neighbour: str, epoch: int) -> None:
        """Another life of a neighbour goes on with what the earlier one has told us."""
        self._neighbours[neighbour].epoch = epoch

    def holds(self, state: LinkState) -> bool:
        """Whether this is what we know of that broker."""
        return isinstance(self._router, DestinationRouter) and self._router.holds(state)

    def greet(self, neighbour: str) -> list[Effect]:
        """Say that we are here, to a neighbour that we have not forgotten."""
        return [Send(neighbour, self._summary(self._neighbours[neighbour]))]

    def suspect(self, neighbour: str, is_down: bool) -> list[Effect]:
        """A neighbour seems to be down, or is there again; what is known of it is kept."""
        return self._router.suspect(neighbour, is_down) if isinstance(self._router, DestinationRouter) else []

    def go_around(self) -> None:
        """From now on, send events round neighbours that seem to be down."""
        if isinstance(self._router, DestinationRouter):
            self._router.go_around()

    def detour(self, neighbour: str, publish: Publish) -> list[Effect]:
        """Send an event that was for this neighbour another way."""
        return self._router.forward(neighbour, msgspec.structs.replace(publish, via="multipath"))

    def kind_of(self, neighbour: str) -> NodeKind | None:
        known = self._neighbours.get(neighbour)
        return None if known is None else known.kind

    @property
    def routes_version(self) -> int:
        """Goes up whenever an event may begin to take another way from here; 0 where ways follow from more."""
        return self._router.version if isinstance(self._router, TreeRouter) else 0

    def routes(self) -> tuple[dict[str, int], dict[str, int]]:
        """On a tree, what becomes of an event: condition -> the neighbours that want it, one bit each; their bits."""
        assert isinstance(self._router, TreeRouter)
        return self._router.routes()

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        """What `Received` with each of these would do, in one go."""
        effects: list[Effect] = []
        for message in messages:
            neighbour = self._neighbours.get(sender)
            if neighbour is not None and type(message) is Publish:
                effects += self._on_publish(sender, neighbour, message, now_us)
            else:
                effects += self.handle(Received(sender, message), now_us)
        return effects

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            neighbour = self._neighbours.get(given.sender)
            if neighbour is None:
                return self._on_stranger(given.sender, given.message, now_us)
            if type(given.message) is Publish or type(given.message) is Stamped:
                return self._on_publish(given.sender, neighbour, given.message, now_us)
            if type(given.message) is Batch:
                return self._on_batch(given.sender, neighbour, given.message, now_us)
            return self._on_control(given.sender, neighbour, given.message, now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        if type(given) is LinkUp:
            return self._on_link_up(given.neighbour, given.kind, now_us, given.replaces, given.reliable)
        if type(given) is LinkDown:
            return self._on_link_down(given.neighbour, now_us)
        raise AssertionError(f"a broker cannot handle {given!r}")

    # Events --------------------------------------------------------------------------------------

    def _on_publish(self, sender: str, neighbour: Neighbour, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        publication = publish.publication
        if neighbour.kind == "client":
            if publication.source != sender:
                return [Incident("forged_source", sender)]  # its numbers would silence the real source
            if type(publish) is Stamped:
                return [Incident("unexpected_message", sender)]  # stamps are given by brokers
        if publication.lifetime_us is not None and publication.expired(now_us):
            return [Incident("expired", source=publication.source, first=publication.seq)]
        if self._gossip is not None and publication.seq != CONTROL_SEQ:
            return self._gossip.on_event(sender, neighbour.kind == "client", publish, now_us)
        return self._forward(sender, publish, now_us)

    def _forward(self, sender: str, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        return self._router.forward(sender, publish)

    def _on_batch(self, sender: str, neighbour: Neighbour, batch: Batch, now_us: int) -> list[Effect]:
        if neighbour.kind == "client" and batch.source != sender:
            return [Incident("forged_source", sender, len(batch.seqs))]
        if self._gossip is not None:
            each = (self._on_publish(sender, neighbour, publish, now_us) for publish in batch.published())
            return [effect for effects in each for effect in effects]
        if isinstance(self._router, TreeRouter):
            return self._router.forward_batch(sender, batch)
        return [effect for publish in batch.published() for effect in self._forward(sender, publish, now_us)]

    # Links ---------------------------------------------------------------------------------------

    def _on_link_up(
        self, name: str, kind: NodeKind, now_us: int, replaces: str | None = None, reliable: bool = False
    ) -> list[Effect]:
        if name in self._neighbours:
            left = self._on_link_down(name, now_us)
            return left + self._on_link_up(name, kind, now_us, replaces, reliable)
        neighbour = self._neighbours[name] = Neighbour(kind, now_us, reliable)
        effects: list[Effect] = [Send(name, self._summary(neighbour)), *self._router.on_link_up(name, kind, now_us)]
        if name in self._down:
            since_us, _ = self._down.pop(name)
            effects += self._tell_of_own_outage(name, since_us, now_us)
        return effects

    def _on_stranger(self, name: str, message: Message, now_us: int) -> list[Effect]:
        """Who speaks to us over a link is a neighbour: we have forgotten it, or its good-bye came late."""
        if self._gossip is not None and self._gossip.by_unicast and isinstance(message, BETWEEN_BROKERS):
            return self._gossip.on_message(name, message, now_us)
        if not isinstance(message, Heartbeat):
            return [Incident("unknown_neighbour", name, len(message.seqs) if isinstance(message, Batch) else 1)]
        effects = self._on_link_up(name, message.kind, now_us)
        return effects + self._on_control(name, self._neighbours[name], message, now_us)

    def _on_link_down(self, name: str, now_us: int) -> list[Effect]:
        neighbour = self._neighbours.pop(name, None)
        if neighbour is None:
            return []
        self._router.on_link_down(name)
        if self._states and neighbour.kind == "broker" and neighbour.reliable and len(self._down) < _DOWN_MAX:
            self._down[name] = neighbour.heard_us, False
        return self._forget(name, neighbour, now_us)

    def _tell_of_outage(self, came_from: str, outage: Outage) -> list[Effect]:
        """To all on this side of the link. Only reliable links carry it: over others, losses are nothing special."""
        names = [name for name, each in self._neighbours.items() if each.reliable and name != came_from]
        return [Multicast(tuple(names), outage)] if names else []

    def _tell_of_lasting_outages(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for name, (since_us, is_told) in self._down.items():
            if not is_told and now_us - since_us > self._settings.lease_us:
                self._down[name] = since_us, True
                effects += self._tell_of_own_outage(name, since_us, now_us)
        return effects

    def _tell_of_own_outage(self, name: str, since_us: int, now_us: int) -> list[Effect]:
        return self._tell_of_outage(name, Outage(self.name, name, max(0, now_us - since_us)))

    def _forget(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        """Drop all that a neighbour has told us."""
        effects: list[Effect] = []
        for table, heard in neighbour.heard.items():
            effects += self._on_change(name, neighbour, table, (), heard.forget(), now_us)
        return effects

    def _on_change(
        self,
        name: str,
        neighbour: Neighbour,
        table: Table,
        added: Iterable[str],
        dropped: Iterable[str],
        now_us: int,
    ) -> list[Effect]:
        """A neighbour wants or advertises something else than before."""
        added, dropped = list(added), list(dropped)
        if self._gossip is not None and neighbour.kind == "client" and table == "subscriptions":
            self._gossip.on_local(added, dropped, now_us)
        return self._router.on_change(name, table, added, dropped, now_us)

    # Control -------------------------------------------------------------------------------------

    def _on_control(self, name: str, neighbour: Neighbour, message: Message, now_us: int) -> list[Effect]:
        neighbour.heard_us = now_us
        effects: list[Effect] = []
        if neighbour.silent:
            neighbour.silent = False
            effects += self._router.on_link_up(name, neighbour.kind, now_us)
        match message:
            case Heartbeat():
                effects += self._on_summary(name, neighbour, message, now_us)
            case Delta() | Snapshot():
                effects += self._on_table(name, neighbour, message, now_us)
            case LinkState() if isinstance(self._router, DestinationRouter) and neighbour.kind == "broker":
                effects += self._router.on_link_state(name, message)
            case _ if isinstance(message, BETWEEN_BROKERS) and self._gossip is not None and neighbour.kind == "broker":
                effects += self._gossip.on_message(name, message, now_us)
            case TableRefused():
                told = self._router.told(name).get(message.table)
                if told is not None and not told.refused:
                    told.refused = True
                    effects.append(Incident("conditions_refused", name))
            case Detach():
                effects += self._on_link_down(name, now_us)
            case Outage() if neighbour.kind == "broker":
                if message.hops < self._settings.hops_max:
                    effects += self._tell_of_outage(name, msgspec.structs.replace(message, hops=message.hops + 1))
            case _:
                effects.append(Incident("unexpected_message", name))
        return effects

    def _on_table(self, name: str, neighbour: Neighbour, change: Delta | Snapshot, now_us: int) -> list[Effect]:
        heard = neighbour.heard[change.table]
        added, dropped = heard.change_by(change)
        most = self._settings.conditions_max
        if added and len(heard.conditions) + len(added) - len(dropped) > most:
            why = f"{self.name} takes at most {most} {change.table} of a neighbour, and refuses more"
            return [Incident("too_many_conditions", name), Send(name, TableRefused(change.table, why))]
        try:
            for each in added:
                self._book.subscription(each)
        except ConditionError:
            why = f"{self.name} cannot parse one of the {change.table}: is it of another version?"
            return [Incident("bad_condition", name), Send(name, TableRefused(change.table, why))]
        if added and change.table == "subscriptions" and isinstance(self._router, DestinationRouter):
            why_not = self._router.no_room_for(added)
            if why_not:
                return [Incident("too_many_conditions", name), Send(name, TableRefused(change.table, why_not))]
        heard.apply(change, added, dropped)
        effects = self._on_change(name, neighbour, change.table, added, dropped, now_us)
        if neighbour.reliable:  # it may wait for this: from here on, what we state holds for what was added as well
            effects.append(Send(name, self._summary(neighbour)))
        return effects

    def dropped_by(self, sender: str, message: Message) -> tuple[str, ...]:
        """What a part of a neighbour's whole table drops, if it is one."""
        neighbour = self._neighbours.get(sender)
        if neighbour is None or not isinstance(message, Snapshot) or message.parts == 1:
            return ()
        return tuple(neighbour.heard[message.table].change_by(message)[1])

    def _on_summary(self, name: str, neighbour: Neighbour, summary: Heartbeat, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if neighbour.epoch != summary.epoch:
            restarted = neighbour.epoch is not None
            neighbour.epoch = summary.epoch
            if restarted:
                effects += self._forget(name, neighbour, now_us)
                effects.append(Incident("neighbour_restarted", name))
        patience_us = self._settings.heartbeat_us // 2
        told = self._router.told(name)
        for table, (version, digest) in zip(TABLES, summary.heard, strict=False):
            if table in told:
                effects += [Send(name, each) for each in told[table].on_heard(version, digest, now_us, patience_us)]
                if table == "subscriptions" and isinstance(self._router, TreeRouter):
                    self._router.on_confirmed(name, told[table].confirmed)
        if isinstance(self._router, DestinationRouter) and neighbour.kind == "broker":
            effects += self._router.on_known(name, summary.known)
        return effects

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects = self._on_heartbeat(now_us) if now_us >= self._due_us else []
        if self._router.more_us is not None:
            effects += self._router.on_timer(now_us)
        return effects if self._gossip is None else effects + self._gossip.on_timer(now_us)

    def _on_heartbeat(self, now_us: int) -> list[Effect]:
        effects = self._tell_of_lasting_outages(now_us)
        # Who was held up itself has not read yet what others said meanwhile, and judges nobody.
        punctual = now_us - self._due_us < self._settings.heartbeat_us // 2
        for name, neighbour in list(self._neighbours.items()):
            if punctual and not neighbour.silent and self._is_silent(name, neighbour, now_us):
                effects += self._on_silence(name, neighbour, now_us)
            effects.append(Send(name, self._summary(neighbour)))
        began_us = self._due_us if punctual else now_us
        self._due_us = max(began_us + self._settings.heartbeat_us, now_us + 1)
        return effects

    def _is_silent(self, name: str, neighbour: Neighbour, now_us: int) -> bool:
        return not neighbour.reliable and now_us - neighbour.heard_us > self._settings.lease_us

    def _on_silence(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        """A lease has run out: the neighbour is forgotten until it speaks again."""
        neighbour.silent = True
        self._router.on_link_down(name)
        return [Incident("lease_expired", name), *self._forget(name, neighbour, now_us)]

    def _summary(self, neighbour: Neighbour) -> Heartbeat:
        heard = tuple([neighbour.heard[table].summary for table in TABLES])
        known = self._router.known if isinstance(self._router, DestinationRouter) else (0, 0)
        return Heartbeat(self._epoch, heard, known)

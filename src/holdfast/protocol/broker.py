"""A broker: keeps tables with its neighbours and sends each event on to those who want it.

It composes machines and decides nothing itself: `tables` keeps both ends of a link equal, a router (`tree` or
`destinations`) says where events and tables go. Best effort, without acknowledgement and storage. More comes from
layers around it, which use what stands under "For layers".
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

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
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.router import Router
from holdfast.protocol.tables import ReceivedTable

_DOWN_MAX = 1_000  # brokers that we remember to have lost; nobody has so many next to it
_TOLD_MAX = 64  # outages that are told again: as many as links fail at once
_AWAY_MAX = 10_000  # clients; as many as may be connected, and then who has been away longest is forgotten


class Presence(Enum):
    """Whether a neighbour counts."""

    HEARD = "heard"
    EXPIRED = "expired"  # its lease has run out, and what it told us is forgotten; it counts again when it speaks
    SUSPENDED = "suspended"  # a layer takes it for down, and what it told us is kept


class Neighbour:
    def __init__(self, kind: NodeKind, now_us: int, reliable: bool = False, repairs: bool = False) -> None:
        self.kind = kind
        self.reliable = reliable  # the end of its link is noticed: silence then only means that it is slow
        self.repairs = repairs
        self.hears_outages = reliable or repairs  # what we tell it arrives
        self.heard: dict[Table, ReceivedTable] = {table: ReceivedTable() for table in TABLES}
        self.epoch: int | None = None
        self.heard_us = now_us
        self.presence = Presence.HEARD
        self.lost_us = now_us  # since when it had been lost, if it returned,
        self.returned_us: int | None = None  # when it was there again after we had lost it, which we have reported


def _nobody(added: list[str], dropped: list[str], now_us: int) -> None: ...


class CoreBroker:
    def __init__(
        self,
        parts: BrokerParts,
        router: Router,
        tells_outages: bool = False,
        on_local: Callable[[list[str], list[str], int], None] = _nobody,
    ) -> None:
        """Who `tells_outages` keeps no event for who is away: so it tells those on this side when a link to another
        broker was down, and a client when its own was. `on_local` is told what our clients begin and cease to want.
        """
        self._tells_outages = tells_outages
        self._down: dict[str, tuple[int, bool]] = {}  # brokers that we have lost: since when, and whether that was told
        self._away_us: dict[str, int] = {}  # clients that we have lost, and since when
        self._told: deque[tuple[int, Outage]] = deque(maxlen=_TOLD_MAX)  # the last outages, and when we told of them
        self.name = parts.name
        self._settings = settings = parts.settings
        self._book = parts.book
        self._epoch = parts.epoch
        self._router = router
        self._on_local = on_local
        self._neighbours: dict[str, Neighbour] = {}
        self.judge: Callable[[str, int], list[Effect]] = self._judge_by_lease
        # Spread out, so that a network started at once does not beat in one rhythm.
        self._due_us = parts.epoch + int(settings.heartbeat_us * parts.rng.random())

    def next_due_us(self) -> int:
        due_us, more_us = self._due_us, self._router.more_us
        return due_us if more_us is None or due_us < more_us else more_us

    def has_settled(self, now_us: int) -> bool:
        return True

    @property
    def counts(self) -> Mapping[str, int]:
        return {}

    def gauges(self) -> Gauges:
        tables = (table.conditions for each in self._neighbours.values() for table in each.heard.values())
        return {"conditions of a neighbour": (max(map(len, tables), default=0), self._settings.conditions_max)}

    def kind_of(self, neighbour: str) -> NodeKind | None:
        known = self._neighbours.get(neighbour)
        return None if known is None else known.kind

    def keeps_for(self, client: str) -> bool:
        return False

    @property
    def routes_version(self) -> int:
        """Goes up whenever an event may begin to take another way from here; 0 where ways follow from more."""
        return self._router.version

    def routes(self) -> tuple[dict[str, int], dict[str, int]]:
        """On a tree, what becomes of an event: condition -> the neighbours that want it, one bit each; their bits."""
        return self._router.routes()

    # For layers: what they may ask and do -------------------------------------------------------

    # `judge(neighbour, now_us)` is asked at every heartbeat about each neighbour that counts, and returns what follows
    # if it has been silent for too long. A layer that knows better than leases puts its own judge here.

    def knows(self, neighbour: str) -> bool:
        return neighbour in self._neighbours

    def brokers(self) -> dict[str, bool]:
        """The neighbours that are brokers, and whether each counts."""
        found = ((name, each) for name, each in self._neighbours.items() if each.kind == "broker")
        return {name: each.presence is Presence.HEARD for name, each in found}

    def refusal(self, sender: str, message: Publish | Stamped | Batch, now_us: int) -> Incident | None:
        """Why an event that has come goes no further; None when it is to be forwarded."""
        neighbour = self._neighbours.get(sender)
        if type(message) is Batch:
            if neighbour is None:
                return Incident("unknown_neighbour", sender, len(message.seqs))
            forged = neighbour.kind == "client" and message.source != sender
            return Incident("forged_source", sender, len(message.seqs)) if forged else None
        if neighbour is None:
            return Incident("unknown_neighbour", sender)
        publication = message.publication  # type: ignore[union-attr]
        if neighbour.kind == "client":
            if publication.source != sender:
                return Incident("forged_source", sender)  # its numbers would silence the real source
            if type(message) is Stamped:
                return Incident("unexpected_message", sender)  # stamps are given by brokers
        if publication.lifetime_us is not None and publication.expired(now_us):
            self._router.on_dropped(publication)
            return Incident("expired", source=publication.source, first=publication.seq)
        return None

    def heard(self, neighbour: str, now_us: int) -> list[Effect]:
        """A neighbour has spoken: if its lease had run out, it counts again."""
        known = self._neighbours[neighbour]
        known.heard_us = now_us
        before, known.presence = known.presence, Presence.HEARD
        if before is not Presence.EXPIRED:
            return []
        return [*self._router.on_link_up(neighbour, known.kind, now_us), *self._on_return(neighbour, known, now_us)]

    def is_silent(self, neighbour: str) -> bool:
        """Whether it has not sent a heartbeat yet."""
        known = self._neighbours.get(neighbour)
        return known is None or known.epoch is None

    def admit(self, broker: str, now_us: int, reliable: bool = False) -> None:
        """There is a link to a broker that is told nothing yet, not even that we are here."""
        self._neighbours[broker] = Neighbour("broker", now_us, reliable)

    def suspend(self, neighbour: str) -> None:
        """Take a neighbour for down, and keep what it told us."""
        self._neighbours[neighbour].presence = Presence.SUSPENDED

    def resume(self, neighbour: str) -> None:
        """A suspended neighbour is there again."""
        self._neighbours[neighbour].presence = Presence.HEARD

    def lease_is_over(self, neighbour: str, now_us: int) -> bool:
        known = self._neighbours[neighbour]
        return not known.reliable and now_us - known.heard_us > self._settings.lease_us

    def expire(self, neighbour: str, now_us: int) -> list[Effect]:
        """A lease has run out: the neighbour is forgotten until it speaks again."""
        known = self._neighbours[neighbour]
        known.presence = Presence.EXPIRED
        self._note_lost(neighbour, known)
        self._router.on_link_down(neighbour)
        return [Incident("lease_expired", neighbour), *self._forget(neighbour, known, now_us)]

    @property
    def heartbeat_us(self) -> int:
        """When the next heartbeat is due."""
        return self._due_us

    def greet(self, neighbour: str) -> list[Effect]:
        """Say that we are here, to a neighbour that we have not forgotten."""
        return [Send(neighbour, self._summary(self._neighbours[neighbour]))]

    def heard_summary(self, neighbour: str, table: Table) -> tuple[int, int]:
        """Version and digest: a snapshot may mend what we have of a version without being a newer one."""
        return self._neighbours[neighbour].heard[table].summary

    def dropped_by(self, sender: str, message: Message) -> tuple[str, ...]:
        """What a part of a neighbour's snapshot drops, if it is one."""
        neighbour = self._neighbours.get(sender)
        if neighbour is None or not isinstance(message, Snapshot) or message.parts == 1:
            return ()
        return tuple(neighbour.heard[message.table].change_by(message)[1])

    def holds(self, state: LinkState) -> bool:
        """Whether this is what we know of that broker."""
        return self._router.holds(state)

    def began_anew(self, neighbour: str, epoch: int) -> bool:
        """Whether this is another life of a neighbour than the one that we know."""
        known = self._neighbours.get(neighbour)
        return known is not None and known.epoch not in (None, epoch)

    def adopt(self, neighbour: str, epoch: int) -> None:
        """Another life of a neighbour goes on with what the earlier one has told us."""
        self._neighbours[neighbour].epoch = epoch

    # Inputs --------------------------------------------------------------------------------------

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for message in messages:
            if type(message) is Publish:
                refused = self.refusal(sender, message, now_us)
                effects += self._router.forward(sender, message) if refused is None else [refused]
            else:
                effects += self._on_received(sender, message, now_us)
        return effects

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self._on_received(given.sender, given.message, now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        if type(given) is LinkUp:
            return self._on_link_up(given.neighbour, given.kind, now_us, given.reliable, given.repairs)
        if type(given) is LinkDown:
            return self._on_link_down(given.neighbour, now_us)
        raise AssertionError(f"a broker cannot handle {given!r}")

    def _on_received(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        if type(message) is Publish or type(message) is Stamped:
            refused = self.refusal(sender, message, now_us)
            return self._router.forward(sender, message) if refused is None else [refused]
        if type(message) is Batch:
            refused = self.refusal(sender, message, now_us)
            return self._router.forward_batch(sender, message) if refused is None else [refused]
        neighbour = self._neighbours.get(sender)
        if neighbour is not None:
            return self._on_control(sender, neighbour, message, now_us)
        if not isinstance(message, Heartbeat):
            return [Incident("unknown_neighbour", sender)]
        # Who speaks to us over a link is a neighbour: we have forgotten it, or its good-bye came late.
        effects = self._on_link_up(sender, message.kind, now_us)
        return effects + self._on_control(sender, self._neighbours[sender], message, now_us)

    # Links ---------------------------------------------------------------------------------------

    def _on_link_up(
        self, name: str, kind: NodeKind, now_us: int, reliable: bool = False, repairs: bool = False
    ) -> list[Effect]:
        effects = self._on_link_down(name, now_us) if name in self._neighbours else []
        neighbour = self._neighbours[name] = Neighbour(kind, now_us, reliable, repairs)
        effects += [Send(name, self._summary(neighbour)), *self._router.on_link_up(name, kind, now_us)]
        if kind == "client" and repairs:
            effects += self._tell_again(name, now_us)
        return effects + self._on_return(name, neighbour, now_us)

    def _tell_again(self, client: str, now_us: int) -> list[Effect]:
        """A client that was on its way back when we told of an outage has not heard of it."""
        recent = [(now_us - at_us, each) for at_us, each in self._told if now_us - at_us < 2 * self._settings.lease_us]
        return [Send(client, msgspec.structs.replace(each, ago_us=each.ago_us + late_us)) for late_us, each in recent]

    def _on_return(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        """Who was lost is there again: it is told so, and those on this side of a broker."""
        since_us, effects = self._away_us.pop(name, None), list[Effect]()
        if name in self._down:
            since_us, _ = self._down.pop(name)
            effects = self._report_own_outage(name, since_us, now_us)
            neighbour.lost_us, neighbour.returned_us = since_us, now_us
        if since_us is not None and neighbour.hears_outages:  # it may know of none: it was restarted, or hung
            effects.append(Send(name, Outage(self.name, name, max(0, now_us - since_us))))
        return effects

    def _on_link_down(self, name: str, now_us: int) -> list[Effect]:
        neighbour = self._neighbours.pop(name, None)
        if neighbour is None:
            return []
        self._router.on_link_down(name)
        self._note_lost(name, neighbour)
        return self._forget(name, neighbour, now_us)

    def _note_lost(self, name: str, neighbour: Neighbour) -> None:
        """What is for it does not reach it from now on; of a client on a reliable link, its session keeps account."""
        if not self._tells_outages or not neighbour.hears_outages:
            return
        if neighbour.kind == "broker":
            if len(self._down) < _DOWN_MAX:  # who is lost again so soon may have told none of its clients
                again = neighbour.repairs and self._has_reported(neighbour, neighbour.heard_us)
                self._down.setdefault(name, (neighbour.lost_us if again else neighbour.heard_us, False))
        elif not neighbour.reliable:
            self._away_us.setdefault(name, neighbour.heard_us)
            if len(self._away_us) > _AWAY_MAX:
                del self._away_us[next(iter(self._away_us))]

    def _flood_outage(self, came_from: str, outage: Outage, now_us: int) -> list[Effect]:
        """To all on this side of the link, where it arrives: over other links, losses are nothing special."""
        self._told.append((now_us, outage))
        names = [name for name, each in self._neighbours.items() if each.hears_outages and name != came_from]
        return [Multicast(tuple(names), outage)] if names else []

    def _report_lasting_outages(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for name, (since_us, is_reported) in self._down.items():
            if not is_reported and now_us - since_us > self._settings.lease_us:
                self._down[name] = since_us, True
                effects += self._report_own_outage(name, since_us, now_us)
        return effects

    def _has_reported(self, neighbour: Neighbour, now_us: int) -> bool:
        """Whether we have told of the outage that this neighbour has just noticed."""
        returned_us = neighbour.returned_us
        return returned_us is not None and now_us - returned_us < self._settings.lease_us

    def _report_own_outage(self, name: str, since_us: int, now_us: int) -> list[Effect]:
        return self._flood_outage(name, Outage(self.name, name, max(0, now_us - since_us)), now_us)

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
        if neighbour.kind == "client" and table == "subscriptions":
            self._on_local(added, dropped, now_us)
        return self._router.on_change(name, table, added, dropped, now_us)

    # Control -------------------------------------------------------------------------------------

    def _on_control(self, name: str, neighbour: Neighbour, message: Message, now_us: int) -> list[Effect]:
        effects = self.heard(name, now_us)
        match message:
            case Heartbeat():
                effects += self._on_summary(name, neighbour, message, now_us)
            case Delta() | Snapshot():
                effects += self._on_table(name, neighbour, message, now_us)
            case LinkState() if neighbour.kind == "broker":
                effects += self._router.on_link_state(name, message)
            case TableRefused():
                sent = self._router.sent_tables(name).get(message.table)
                if sent is not None and not sent.refused:
                    sent.refused = True
                    effects.append(Incident("conditions_refused", name))
            case Detach():
                effects += self._on_link_down(name, now_us)
                self._away_us.pop(name, None)
            case Outage() if neighbour.kind == "broker":
                is_known = message.other == self.name and self._has_reported(neighbour, now_us)
                if message.hops < self._settings.hops_max and not is_known:
                    effects += self._flood_outage(name, msgspec.structs.replace(message, hops=message.hops + 1), now_us)
            case _:
                effects.append(Incident("unexpected_message", name))
        return effects

    def _on_table(self, name: str, neighbour: Neighbour, change: Delta | Snapshot, now_us: int) -> list[Effect]:
        heard = neighbour.heard[change.table]
        added, dropped = heard.change_by(change)
        most = self._settings.conditions_max
        if added and len(heard.conditions) + len(added) - len(dropped) > most:
            why = f"{self.name} accepts at most {most} {change.table} of a neighbour"
            return [Incident("too_many_conditions", name), Send(name, TableRefused(change.table, why))]
        try:
            for each in added:
                self._book.subscription(each)
        except ConditionError:
            why = f"{self.name} cannot parse one of the {change.table}; does it run another version?"
            return [Incident("bad_condition", name), Send(name, TableRefused(change.table, why))]
        refused = self._router.why_refused(added) if added and change.table == "subscriptions" else ""
        if refused:
            return [Incident("too_many_conditions", name), Send(name, TableRefused(change.table, refused))]
        heard.apply(change, added, dropped)
        effects = self._on_change(name, neighbour, change.table, added, dropped, now_us)
        if neighbour.reliable:  # it may wait for this: from here on, what we state holds for what was added as well
            effects.append(Send(name, self._summary(neighbour)))
        return effects

    def _on_summary(self, name: str, neighbour: Neighbour, summary: Heartbeat, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if neighbour.epoch != summary.epoch:
            restarted = neighbour.epoch is not None
            neighbour.epoch = summary.epoch
            if restarted:
                effects += self._forget(name, neighbour, now_us)
                effects.append(Incident("neighbour_restarted", name))
        patience_us = self._settings.heartbeat_us // 2
        sent = self._router.sent_tables(name)
        for table, (version, digest) in zip(TABLES, summary.heard, strict=False):
            if table in sent:
                effects += [Send(name, each) for each in sent[table].on_heard(version, digest, now_us, patience_us)]
                if table == "subscriptions":
                    self._router.on_confirmed(name, sent[table].confirmed)
        if neighbour.kind == "broker":
            effects += self._router.on_known(name, summary.known)
        return effects

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects = self._on_heartbeat(now_us) if now_us >= self._due_us else []
        if self._router.more_us is not None:
            effects += self._router.on_timer(now_us)
        return effects

    def _on_heartbeat(self, now_us: int) -> list[Effect]:
        effects = self._report_lasting_outages(now_us)
        # Who was held up itself has not read yet what others said meanwhile, and judges nobody.
        punctual = now_us - self._due_us < self._settings.heartbeat_us // 2
        for name, neighbour in list(self._neighbours.items()):
            if punctual and neighbour.presence is Presence.HEARD:
                effects += self.judge(name, now_us)
            effects.append(Send(name, self._summary(neighbour)))
        began_us = self._due_us if punctual else now_us
        self._due_us = max(began_us + self._settings.heartbeat_us, now_us + 1)
        return effects

    def _judge_by_lease(self, name: str, now_us: int) -> list[Effect]:
        return self.expire(name, now_us) if self.lease_is_over(name, now_us) else []

    def _summary(self, neighbour: Neighbour) -> Heartbeat:
        heard = tuple([neighbour.heard[table].summary for table in TABLES])
        return Heartbeat(self._epoch, heard, self._router.known)

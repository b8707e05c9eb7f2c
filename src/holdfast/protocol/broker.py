"""A broker: keeps tables with its neighbours and sends each event on to those who want it.

It composes machines and decides nothing itself: `tables` keeps both ends of a link equal, a router (`tree` or
`destinations`) says where events and tables go. Best effort, without acknowledgement and storage. More comes from
layers around it, which use what stands under "For layers".
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
    Reachable,
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
    PassedOn,
    Received,
    Send,
    Wake,
)
from holdfast.protocol.intake import SLICE_WORK, Intake
from holdfast.protocol.neighbour import Neighbour, Presence, complete_us, largest
from holdfast.protocol.outages import LinkOutages
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.reach import Behind, Complete, Reach, known_everywhere
from holdfast.protocol.router import Router
from holdfast.protocol.store_changes import Body
from holdfast.protocol.vouching import not_vouched_for

_AWAY_MAX = 10_000  # clients; as many as may be connected, and then who has been away longest is forgotten


def _nobody(added: Collection[str], dropped: Collection[str], now_us: int) -> None: ...


class CoreBroker:
    def __init__(
        self,
        parts: BrokerParts,
        router: Router,
        tells_outages: bool = False,
        on_local: Callable[[Collection[str], Collection[str], int], None] = _nobody,
        slice_work: int = SLICE_WORK,
    ) -> None:
        """Who `tells_outages` keeps no event for who is away: so it tells those on this side when a link to another
        broker was down, and a client when its own was. `on_local` is told what our clients begin and cease to want.
        """
        self._tells_outages = tells_outages
        self._away_us: dict[str, int] = {}  # clients that we have lost, and since when
        self.name = parts.name
        self._settings = settings = parts.settings
        self.outages = LinkOutages(parts.name, parts.epoch, router.told() is not None)
        self._reach = Reach()
        self._intake = Intake(parts.name, parts.book, settings, router.why_refused, slice_work, parts.shares)
        self._waiting = self._intake.waiting  # the neighbours that have something in there
        self._forgotten = self._intake.forgotten
        self._more_us = 0  # when more of a table is to be taken in, if any is waiting
        self._epoch = parts.epoch
        self._router = router
        self._on_local = on_local
        self._neighbours: dict[str, Neighbour] = {}
        self._brokers: dict[str, Neighbour] = {}  # those of them that are brokers: few, where clients may be many
        self.judge: Callable[[str, int], list[Effect]] = self._expire_if_silent
        # Spread out, so that a network started at once does not beat in one rhythm.
        self._due_us = parts.epoch + int(settings.heartbeat_us * parts.rng.random())

    def next_due_us(self) -> int:
        due_us, more_us = self._due_us, self._router.more_us
        if self._waiting or self._forgotten:
            due_us = min(due_us, self._more_us)
        return due_us if more_us is None or due_us < more_us else more_us

    def has_settled(self, now_us: int) -> bool:
        return True

    @property
    def counts(self) -> Mapping[str, int]:
        return {}

    def gauges(self) -> Gauges:
        filters, size = largest(self._neighbours.values())
        most, most_bytes = self._settings.filters_max, self._settings.condition_bytes_max
        return {"filters of a neighbour": (filters, most), "condition bytes of a neighbour": (size, most_bytes)}

    def kind_of(self, neighbour: str) -> NodeKind | None:
        known = self._neighbours.get(neighbour)
        return None if known is None else known.kind

    def keeps_for(self, client: str) -> bool:
        return False

    def backlog(self, neighbour: str) -> list[Body]:
        return []

    @property
    def routes_version(self) -> int:
        """Goes up whenever an event may begin to take another way from here; 0 where ways follow from more."""
        return self._router.version

    def routes(self) -> tuple[Mapping[str, int], dict[str, int]]:
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
        if neighbour is None:
            return Incident("unknown_neighbour", sender, len(message.seqs) if type(message) is Batch else 1)
        refused = not_vouched_for(sender, message, now_us) if neighbour.kind == "client" else None
        if refused is not None or type(message) is Batch:
            return refused
        publication = message.publication  # type: ignore[union-attr]
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
        known.complete = Complete(now_us)
        return [*self._router.on_link_up(neighbour, known.kind, now_us), *self._on_return(neighbour, known, now_us)]

    def is_silent(self, neighbour: str) -> bool:
        """Whether it has not sent a heartbeat yet."""
        known = self._neighbours.get(neighbour)
        return known is None or known.epoch is None

    def admit(self, broker: str, now_us: int, reliable: bool = False, hears_outages: bool = True) -> None:
        """There is a link to a broker that is told nothing yet, not even that we are here."""
        self._neighbours[broker] = self._brokers[broker] = Neighbour("broker", now_us, reliable, False, hears_outages)

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
        self._router.on_link_down(neighbour)
        lost = [*self._forget(neighbour, known, now_us), *self._on_loss(neighbour, known, now_us)]
        return [Incident("lease_expired", neighbour), *lost]

    def begins_anew(self, neighbour: str, now_us: int) -> list[Effect]:
        """A neighbour is here that lost what it had: an outage, until all behind it know again what we want."""
        return self._replace(neighbour, neighbour, self._neighbours[neighbour].complete.upto_us, now_us)

    def is_replaced(self, neighbour: str, replica: str, now_us: int) -> list[Effect]:
        """A broker is gone for good, with all that waited there, and another is in its place."""
        known, since_us, effects = self._dismiss(neighbour), now_us, list[Effect]()
        if known is not None:
            self._router.on_link_down(neighbour)
            effects, since_us = self._forget(neighbour, known, now_us), known.complete.upto_us
        return effects + self._replace(neighbour, replica, since_us, now_us)

    def _replace(self, neighbour: str, by: str, since_us: int, now_us: int) -> list[Effect]:
        if not self._tells_outages:  # nobody tells what is known where
            return self._flood("", [Outage(self.name, neighbour, max(0, now_us - since_us))])
        told = self._told()
        effects = self._tell_known(self._reach.on_link_down(neighbour, told), now_us)
        self._reach.on_link_up(by)
        lost = self.outages.on_replaced(neighbour, by, since_us, told.get(by, 0), now_us)
        return [*effects, *self._flood("", lost), *self._tell_reachable(by)]

    @property
    def heartbeat_us(self) -> int:
        """When the next heartbeat is due."""
        return self._due_us

    def greet(self, neighbour: str, now_us: int) -> list[Effect]:
        """Say that we are here, to a neighbour that we have not forgotten."""
        return [Send(neighbour, self._summary(neighbour, now_us))]

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
        if len(messages) == 1:
            return self._on_received(sender, messages[0], now_us)
        return [effect for message in messages for effect in self._on_received(sender, message, now_us)]

    def beat(self, now_us: int) -> None: ...

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        known = self._neighbours.get(sender)
        return known is not None and known.hears(heartbeat, now_us)

    def passes_on(self, sender: str, message: Message, now_us: int) -> PassedOn | None:
        if type(message) is not Publish or self.refusal(sender, message, now_us) is not None:
            return None
        return self._router.passes_on(sender, message)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self._on_received(given.sender, given.message, now_us)
        if type(given) is Wake:
            return self._on_wake(now_us)
        if type(given) is LinkUp:
            return self._on_link_up(given, now_us)
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
        effects = self._on_link_up(LinkUp(sender, message.kind), now_us)
        return effects + self._on_control(sender, self._neighbours[sender], message, now_us)

    # Links ---------------------------------------------------------------------------------------

    def _on_link_up(self, given: LinkUp, now_us: int) -> list[Effect]:
        name, kind = given.neighbour, given.kind
        effects = self._on_link_down(name, now_us) if name in self._neighbours else []
        neighbour = self._neighbours[name] = Neighbour(kind, now_us, given.reliable, given.repairs, given.hears_outages)
        if kind == "broker":
            self._brokers[name] = neighbour
        effects += [Send(name, self._summary(name, now_us)), *self._router.on_link_up(name, kind, now_us)]
        return effects + self._on_return(name, neighbour, now_us)

    def _on_return(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        """A neighbour is there, perhaps again: it is told which outages last, and a client of that of its own link."""
        effects: list[Effect] = []
        if not self._tells_outages or not neighbour.hears_outages:
            return effects
        if neighbour.kind == "broker":
            self._reach.on_link_up(name)
            effects = self._tell_own(name, self.outages.on_link_up(name, self._told().get(name, 0), now_us))
            effects += self._tell_reachable(name)
        elif name in self._away_us:
            effects.append(Send(name, Outage(self.name, name, max(0, now_us - self._away_us.pop(name)))))
        effects += [Send(name, each) for each in self.outages.lasting(name, now_us)]
        effects += self._tell_reachable("", [name])
        return effects

    def _on_link_down(self, name: str, now_us: int) -> list[Effect]:
        neighbour = self._dismiss(name)
        if neighbour is None:
            return []
        self._router.on_link_down(name)
        return [*self._forget(name, neighbour, now_us), *self._on_loss(name, neighbour, now_us)]

    def _dismiss(self, name: str) -> Neighbour | None:
        self._brokers.pop(name, None)
        return self._neighbours.pop(name, None)

    def _on_loss(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        """What is for it does not reach it from now on; of a client on a reliable link, its session keeps account."""
        effects: list[Effect] = []
        if self._tells_outages and neighbour.hears_outages:
            if neighbour.kind == "broker":
                effects += self._tell_own(name, self.outages.on_link_down(name, neighbour.complete.upto_us, now_us))
                effects += self._tell_reachable(name)
            elif not neighbour.reliable:
                self._away_us.setdefault(name, neighbour.heard_us)
                if len(self._away_us) > _AWAY_MAX:
                    del self._away_us[next(iter(self._away_us))]
        return effects + self._tell_known(self._reach.on_link_down(name, self._told()), now_us)

    def _tell_own(self, name: str, outages: list[Outage]) -> list[Effect]:
        """Of our link to this neighbour. Where only silence tells that it is down, the other end may not know of it."""
        effects, neighbour = self._flood(name, outages), self._neighbours.get(name)
        return effects + [Send(name, each) for each in outages if neighbour is not None and neighbour.repairs]

    def _flood(self, came_from: str, outages: list[Outage]) -> list[Effect]:
        """To all on this side of the link, where it arrives: over other links, losses are nothing special."""
        if not outages:
            return []
        others = [(name, each) for name, each in self._neighbours.items() if name != came_from]
        names = tuple([name for name, each in others if each.hears_outages])
        older = tuple([name for name, each in others if each.reliable and not each.hears_outages])
        told = [(names if each.lasts or each.first else names + older, each) for each in outages]  # 0.2 knows no others
        return [Multicast(to, each) for to, each in told if to]

    def _tell_reachable(self, came_from: str, names: Iterable[str] | None = None) -> list[Effect]:
        """Say to these, or to all but one, which brokers they reach through us."""
        brokers = [name for name, each in self._brokers.items() if each.tells_outages]
        to = [name for name in (self._neighbours if names is None else names) if self._neighbours[name].hears_outages]
        whose = {name: name if name in self._brokers else "" for name in to if name != came_from}  # "" is any client
        reached = {name: self.outages.reachable(name, brokers) for name in dict.fromkeys(whose.values())}
        return [Send(name, Reachable(reached[of])) for name, of in whose.items()]

    def _told(self) -> Mapping[str, int]:
        """By broker: the version of our table that has all that our neighbours want."""
        return self._router.told() or {}

    def _tell_known(self, neighbours: list[str], now_us: int) -> list[Effect]:
        """All that these want is known everywhere now."""
        return [Send(name, self._summary(name, now_us)) for name in neighbours if name in self._neighbours]

    def _forget(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        """Drop all that a neighbour has told us."""
        effects: list[Effect] = []
        begun = self._intake.forget(name)
        for table, heard in neighbour.heard.items():
            effects += self._on_change(name, neighbour, table, (), heard.forget(), now_us)
            if table in begun:
                effects += self._on_change(name, neighbour, table, (), begun[table], now_us)
        return effects

    def _on_change(
        self,
        name: str,
        neighbour: Neighbour,
        table: Table,
        added: Collection[str],
        dropped: Collection[str],
        now_us: int,
    ) -> list[Effect]:
        """A neighbour wants or advertises something else than before."""
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
            case Reachable() if neighbour.kind == "broker" and self._tells_outages:
                ended = self.outages.on_reachable(name, message.names, now_us)
                effects += [] if ended is None else [*self._tell_own(name, ended), *self._tell_reachable(name)]
            case Outage() if neighbour.kind == "broker":
                is_known = message.other == self.name and neighbour.reliable  # both ends notice when it ends
                if message.hops < self._settings.hops_max and not is_known:
                    effects += self._flood(name, self.outages.on_told(name, message, now_us))
            case _:
                effects.append(Incident("unexpected_message", name))
        return effects

    def _on_table(self, name: str, neighbour: Neighbour, change: Delta | Snapshot, now_us: int) -> list[Effect]:
        self._intake.put(name, change)
        return self._take_in(name, neighbour, now_us)

    def _take_in(self, name: str, neighbour: Neighbour, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        for step in self._intake.steps(name, neighbour.heard, now_us):
            table = step.message.table
            effects += step.told(name)
            effects += self._on_change(name, neighbour, table, step.added, step.dropped, now_us)
            if step.is_last and neighbour.hears_outages:  # it may wait for this: what we state holds for what was added
                if table == "subscriptions":
                    self._reach.on_table(name, neighbour.heard[table].version, self._told())
                effects.append(Send(name, self._summary(name, now_us)))
        self._more_us = now_us
        return effects

    def _on_summary(self, name: str, neighbour: Neighbour, summary: Heartbeat, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        if neighbour.epoch != summary.epoch:
            restarted = neighbour.epoch is not None
            neighbour.epoch = summary.epoch
            if restarted:
                effects += self._forget(name, neighbour, now_us)
                effects.append(Incident("neighbour_restarted", name))
        neighbour.complete.on_summary(summary, now_us)
        patience_us = self._settings.heartbeat_us // 2
        sent = self._router.sent_tables(name)
        for table, (version, digest) in zip(TABLES, summary.heard, strict=False):
            if table in sent:
                effects += [Send(name, each) for each in sent[table].on_heard(version, digest, now_us, patience_us)]
                if table == "subscriptions":
                    self._router.on_confirmed(name, sent[table].confirmed)
                    effects += self._on_known(name, known_everywhere(sent[table], summary), now_us)
        if neighbour.kind == "broker":
            effects += self._router.on_known(name, summary.known)
        return effects

    def _on_known(self, name: str, version: int, now_us: int) -> list[Effect]:
        """A broker says which version of our table is known to it and behind it."""
        told = self._told()
        effects = self._tell_own(name, self.outages.on_known(name, version, told.get(name, 0), now_us))
        return effects + self._tell_known(self._reach.on_known(name, version, told), now_us)

    def _on_wake(self, now_us: int) -> list[Effect]:
        effects = self._on_heartbeat(now_us) if now_us >= self._due_us else []
        if self._waiting or self._forgotten:
            self._intake.begin_slice(now_us)
        for name in list(self._waiting):
            effects += self._take_in(name, self._neighbours[name], now_us)
        if self._router.more_us is not None:
            effects += self._router.on_timer(now_us)
            self._reach.on_told(self._told())
        return effects

    def _expire_if_silent(self, name: str, now_us: int) -> list[Effect]:
        return self.expire(name, now_us) if self.lease_is_over(name, now_us) else []

    def _on_heartbeat(self, now_us: int) -> list[Effect]:
        effects = self._flood("", self.outages.on_heartbeat(now_us))
        # Who was held up itself has not read yet what others said meanwhile, and judges nobody.
        punctual = now_us - self._due_us < self._settings.heartbeat_us // 2
        for name, neighbour in list(self._neighbours.items()):
            if punctual and neighbour.presence is Presence.HEARD:
                effects += self.judge(name, now_us)
            effects.append(Send(name, self._summary(name, now_us)))
        if self._tells_outages:  # whom it reaches may have been lost on the way to a neighbour that repairs its link
            effects += self._tell_reachable("", [name for name, each in self._neighbours.items() if each.repairs])
        began_us = self._due_us if punctual else now_us
        self._due_us = max(began_us + self._settings.heartbeat_us, now_us + 1)
        return effects

    def _summary(self, name: str, now_us: int) -> Heartbeat:
        neighbour = self._neighbours[name]
        heard: tuple[tuple[int, int], ...] = tuple([each.summary for each in neighbour.heard.values()])
        if self._tells_outages and neighbour.hears_outages and self._router.told() is not None:
            heard = *heard, *Behind(self._reach.known(name), now_us, complete_us(self._brokers, name, now_us)).pairs
        return Heartbeat(self._epoch, heard, self._router.known)

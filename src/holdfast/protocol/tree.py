"""Routing on a tree: subscriptions flow towards publishers and events flow back along them.

With `advertisements`, publishers first say what they will publish; that floods the tree, and a subscription is
told to a neighbour only when something advertised behind it could meet it (SRT and PRT of paper 003). With
`subscriptions`, everything is told to everybody, as if each neighbour had advertised all events (Siena, paper 001).
In both, a neighbour is told only conditions that no other told condition covers; where brokers recover losses by
themselves, all of them, because these are the classes by which losses are noticed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from holdfast.model.event import RESERVED, Attributes
from holdfast.model.limits import CONDITIONS_MAX
from holdfast.model.messages import (
    Batch,
    Deliver,
    LinkState,
    Message,
    NodeKind,
    Publication,
    Publish,
    Stamp,
    Stamped,
    Table,
    with_statement,
)
from holdfast.protocol.ceased import Ceased
from holdfast.protocol.circles import Circles
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.cover import Cover, Everything
from holdfast.protocol.discarded import Discarded
from holdfast.protocol.effects import Effect, Incident, Multicast, PassedOn, Picked, Send
from holdfast.protocol.intake import ALL_AT_ONCE, SLICE_WORK
from holdfast.protocol.interests import InterestObserver, Interests
from holdfast.protocol.peer import Peer
from holdfast.protocol.picks import picks
from holdfast.protocol.statements import NEVER, GaplessStream, Statements
from holdfast.protocol.tables import SentTable

SLICE = 200  # conditions looked at in one go: 10 ms, in which nothing else is heard
_COMPARED_BYTES = 160_000  # of conditions that are compared in one go: 10 ms, too
_SPLITS_MAX = 4_096  # sets of neighbours, by where the event came from, whose split is remembered


class TreeRouter:
    def __init__(
        self,
        book: ConditionBook,
        new_index: Callable[[], EventIndex[str]],
        advertised_only: bool,
        hops_max: int,
        watch: InterestObserver | None = None,
        states: bool = False,
        slice_max: int = SLICE,
        chunk: int = CONDITIONS_MAX,
    ) -> None:
        """Who `states` can tell what was sent to each neighbour. A change is told in messages of `chunk` conditions."""
        self._book = book
        self._statements = Statements() if states else None
        self._hops_max = hops_max
        self._circles = Circles()
        self._came_from = self._circles.came_from
        self._advertised_only = advertised_only
        self._interests = Interests(book, new_index, watch)
        self._wanting_bits = self._interests.wanting_bits
        self._new_cover = Cover if watch is None else Everything
        self._advertised: dict[str, dict[str, None]] = {}  # advertisement -> neighbours it came from
        self._peers: dict[str, Peer] = {}
        self._clients: dict[str, None] = {}
        self._splits: dict[tuple[tuple[str, ...], str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._splits_by_bits: dict[tuple[int, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._chunk = chunk
        self._slice = slice_max
        self.more_us: int | None = None  # when more are to be looked at
        self._ceased: dict[str, Ceased] = {}  # by neighbour
        self._discarded = Discarded()
        self._places: dict[str, dict[str, None]] = {}  # brokers that stand in one place: a faulty one and its replicas
        self.version = 0

    # Links ---------------------------------------------------------------------------------------

    def on_link_up(self, neighbour: str, kind: NodeKind, now_us: int) -> list[Effect]:
        self._forget_splits()
        self.version += 1
        if self._statements is not None:
            self._statements.on_link_up(neighbour)
        if kind == "client":
            self._clients[neighbour] = None
            return []
        peer = self._peers[neighbour] = Peer(self._new_cover(self._book, self._slice), now_us)
        effects: list[Effect] = []
        elsewhere = [each for each, origins in self._advertised.items() if self._from_elsewhere(origins, neighbour)]
        effects += self._send_changes(neighbour, peer.advertisements, elsewhere, (), now_us)
        if self._interests.count and self._statements is not None:
            peer.telling = True
            self._statements.on_telling(neighbour)
        return effects + self._retell_all(peer, now_us)

    def pair(self, one: str, other: str) -> None:
        """The other stands in the place of the one: none of a place is told, or sent, what came from another of it."""
        self.unpair(other)
        place = self._places.setdefault(one, {one: None})
        place[other] = None
        self._places[other] = place
        self._forget_splits()

    def unpair(self, name: str) -> None:
        place = self._places.pop(name, {})
        place.pop(name, None)
        if len(place) == 1:
            self._places.pop(next(iter(place)))
        self._forget_splits()

    def is_stood_for(self, one: str, by: str) -> bool:
        """Whether nothing is missed without the one, because the other has told us all of it, or what covers it."""
        wanted, bits = self._interests.table()
        own, other = bits.get(one, 0), bits.get(by, 0)
        alone = [condition for condition, wanting in wanted.items() if wanting & own and not wanting & other]
        wider = [condition for condition, wanting in wanted.items() if wanting & other] if alone else []
        covers = self._book.covers
        return all(any(covers(wide, each) for wide in wider) for each in alone) and not any(
            one in origins and by not in origins for origins in self._advertised.values()
        )

    def _place_of(self, neighbour: str) -> Iterable[str]:
        return self._places.get(neighbour) or (neighbour,)

    def _from_elsewhere(self, origins: dict[str, None], neighbour: str) -> bool:
        """Whether anything but this neighbour, and who stands in its place, is among the origins."""
        return len(origins) > sum(each in origins for each in self._place_of(neighbour))

    def on_link_down(self, neighbour: str) -> None:
        self._forget_splits()
        self.version += 1
        peer = self._peers.pop(neighbour, None)
        self._clients.pop(neighbour, None)
        if peer is not None:
            self._discarded.put(peer.maps)
            self.more_us = 0 if self._discarded else self.more_us
        if self._statements is not None:
            self._statements.on_link_down(neighbour)

    def on_confirmed(self, neighbour: str, version: int) -> None:
        if self._statements is not None:
            self._statements.on_confirmed(neighbour, version)

    def why_refused(self, added: list[str]) -> str:
        return ""

    def sent_tables(self, neighbour: str) -> dict[Table, SentTable]:
        peer = self._peers.get(neighbour)
        if peer is None:
            return {}
        return {"subscriptions": peer.subscriptions, "advertisements": peer.advertisements}

    def told(self) -> dict[str, int]:
        return {name: NEVER if peer.is_behind else peer.subscriptions.version for name, peer in self._peers.items()}

    # Tables --------------------------------------------------------------------------------------

    def on_change(
        self, neighbour: str, table: Table, added: Collection[str], dropped: Collection[str], now_us: int
    ) -> list[Effect]:
        if table == "advertisements":
            return self._on_advertisements(neighbour, list(added), list(dropped), now_us)
        self._forget_splits()  # bits may stand for others now
        self.version += 1
        if neighbour in self._ceased:
            self._ceased[neighbour].wants_again(added)
        if len(dropped) > self._slice:  # what comes until they are dropped is sent in vain at worst
            self._ceased.setdefault(neighbour, Ceased()).put(dropped)
            dropped, self.more_us = (), now_us
        if dropped:
            self._interests.drop(neighbour, dropped)
        more = any(map(self._concerns_events, added))
        effects = self._catch_up(neighbour) if more else []
        self._interests.add(neighbour, added)
        changed = [*dropped, *added]
        at_once = len(changed) == 1 and self.more_us is None and len(self._peers) <= self._slice
        retell = self._retell_at_once if at_once else self._retell
        effects += retell(changed, list(self._peers), now_us)
        if more and self._statements is not None:
            self._statements.on_wants_more(neighbour, self.told())
            for peer in self._peers.values():
                peer.telling |= peer.is_behind
        return effects

    def _drop_ceased(self) -> None:
        """A slice of those."""
        if not self._ceased:
            return
        neighbour, ceased = next(iter(self._ceased.items()))
        dropped = ceased.take(lambda pending: self._slice_of(pending, self._slice))
        if not ceased:
            del self._ceased[neighbour]
        self._forget_splits()
        self.version += 1
        self._interests.drop(neighbour, dropped)
        for peer in self._peers.values():
            peer.look_at(dropped)

    def _concerns_events(self, condition: str) -> bool:
        """Whether it can match events of applications, and not only what recovering clients say to each other."""
        filters = self._book.subscription(condition).filters
        if RESERVED not in condition:
            return len(filters) > 0
        of_recovery = (any(each.attribute.startswith(RESERVED) and each.op != "IS NULL" for each in f) for f in filters)
        return not all(of_recovery)

    def _on_advertisements(self, neighbour: str, added: list[str], dropped: list[str], now_us: int) -> list[Effect]:
        for each in dropped:
            self._advertised[each].pop(neighbour)
            if not self._advertised[each]:
                del self._advertised[each]
        for each in added:
            self._advertised.setdefault(each, {})[neighbour] = None
        effects: list[Effect] = []
        for name, peer in self._peers.items():
            known = {each: self._advertised.get(each, {}) for each in (*added, *dropped)}
            offered = [each for each, origins in known.items() if self._from_elsewhere(origins, name)]
            withdrawn = [each for each in known if each not in offered]
            effects += self._send_changes(name, peer.advertisements, offered, withdrawn, now_us)
        if self._advertised_only and neighbour in self._peers:
            effects += self._retell_all(self._peers[neighbour], now_us)
        return effects

    def on_timer(self, now_us: int) -> list[Effect]:
        """Go on with what was left to look at."""
        if self.more_us is None or now_us < self.more_us:
            return []
        self._drop_ceased()
        self._discarded.free()
        return self._look(now_us)

    def _retell(self, conditions: list[str], neighbours: list[str], now_us: int) -> list[Effect]:
        """Look again at whether these conditions are to be told to these neighbours; at many, in slices."""
        for name in neighbours:
            self._peers[name].look_at(conditions)
        return self._look(now_us) if self.more_us is None else []

    def _retell_all(self, peer: Peer, now_us: int) -> list[Effect]:
        peer.look_at_all(self._interests.conditions())
        return self._look(now_us) if self.more_us is None else []

    def _retell_at_once(self, conditions: list[str], neighbours: list[str], now_us: int) -> list[Effect]:
        """The same for one condition: mostly somebody else wants it, too, and nobody has to be told."""
        (condition,), peers = conditions, self._peers
        concerned = [each for each in neighbours if self._is_for(condition, each) != (condition in peers[each].cover)]
        return [told for each in concerned for told in self._look_at(each, peers[each], conditions, now_us)]

    def _look(self, now_us: int) -> list[Effect]:
        left = self._slice
        effects: list[Effect] = []
        for name, peer in self._peers.items():
            if not peer.is_behind or left <= 0:
                continue
            conditions = peer.taken(left, self._slice_of)
            left -= left if peer.is_behind else len(conditions)
            effects += self._look_at(name, peer, conditions, now_us)
            if peer.telling and not peer.is_behind and self._statements is not None:
                peer.telling = False
                self._statements.on_table_sent(name, peer.subscriptions.version)
        left_over = self._ceased or self._discarded or any(peer.is_behind for peer in self._peers.values())
        self.more_us = now_us if left_over else None
        return effects

    def _slice_of(self, pending: Iterable[str], most: int) -> list[str]:
        """Of these, as many as are looked at in one go: fewer where they are large, and may have to be parsed again."""
        if self._slice == ALL_AT_ONCE:
            return list(pending)
        conditions: list[str] = []
        work = SLICE_WORK
        for each in islice(pending, most):
            conditions.append(each)
            work -= self._book.cost(each).tests
            if work <= 0:
                break
        return conditions

    def _look_at(self, name: str, peer: Peer, conditions: list[str], now_us: int) -> list[Effect]:
        add: dict[str, None] = {}
        drop: dict[str, None] = {}
        work_max = peer.cover.work + _COMPARED_BYTES
        for at, condition in enumerate(conditions):
            if peer.cover.work >= work_max and self._slice != ALL_AT_ONCE:
                peer.look_at(conditions[at:])
                break
            chosen, fallen = (peer.cover.add if self._is_for(condition, name) else peer.cover.remove)(condition)
            for each in fallen:
                if add.pop(each, self) is self:
                    drop[each] = None
            for each in chosen:
                if drop.pop(each, self) is self:
                    add[each] = None
            if condition in peer.cover.leaving:
                peer.look_at([condition])
                self.more_us = now_us
        return self._send_changes(name, peer.subscriptions, list(add), drop, now_us)

    def _send_changes(
        self, name: str, table: SentTable, add: list[str], drop: Iterable[str], now_us: int
    ) -> list[Effect]:
        """A change of a table, in messages of not too many conditions."""
        return [Send(name, versions) for versions in table.change(add, drop, now_us, self._chunk)]

    def _is_for(self, condition: str, neighbour: str) -> bool:
        if not self._interests.wanted_apart_from(condition, self._place_of(neighbour)):
            return False
        if not self._advertised_only:
            return True
        overlaps = self._book.overlaps
        return any(
            neighbour in origins and overlaps(advertisement, condition)
            for advertisement, origins in self._advertised.items()
        )

    # Link states: a tree has none ----------------------------------------------------------------

    @property
    def known(self) -> tuple[int, int]:
        return 0, 0

    def on_known(self, neighbour: str, known: tuple[int, int]) -> list[Effect]:
        return []

    def on_link_state(self, sender: str, state: LinkState) -> list[Effect]:
        return [Incident("unexpected_message", sender)]

    def holds(self, state: LinkState) -> bool:
        return False

    def suspect(self, neighbour: str, is_down: bool) -> list[Effect]:
        return []

    # Events --------------------------------------------------------------------------------------

    @property
    def serves(self) -> bool:
        """Whether clients here want anything."""
        return any(map(self._interests.wants, self._clients))

    def wanting(self, attributes: Attributes) -> tuple[str, ...]:
        """The neighbours that want this event."""
        return self._interests.wanting(attributes)

    def forward(
        self, sender: str, publish: Publish | Stamped, stamp: Stamp | None = None, route: tuple[str, ...] = ()
    ) -> list[Effect]:
        if publish.hops > self._hops_max:  # somebody has linked brokers in a circle
            return [Incident("too_many_hops", source=publish.publication.source)]
        publication = publish.publication
        if self._came_from.get(publication.source) != sender and publish.via != "replica":
            if not self._circles.is_first(sender, publication):
                return [Incident("routing_circle", sender, source=publication.source, first=publication.seq)]
        return [Multicast(names, message) for names, message in self._sent_on(sender, publish, stamp, route)]

    def passes_on(self, sender: str, publish: Publish) -> PassedOn | None:
        if publish.hops > self._hops_max or self._came_from.get(publish.publication.source) != sender:
            return None
        return self._sent_on(sender, publish, None, ())

    def _sent_on(
        self, sender: str, publish: Publish | Stamped, stamp: Stamp | None, route: tuple[str, ...]
    ) -> PassedOn:
        publication, hops, via = publish.publication, publish.hops + 1, publish.via
        wanting = self._wanting_bits(publication.attributes)
        if self._statements is not None and publication.record is not None and publication.seq:
            self._statements.on_alone(sender, publication.source, self._interests.asking(wanting))
        if not wanting:
            return ()
        onwards, home = self._splits_by_bits.get((wanting, sender)) or self._split_by_bits(wanting, sender)
        passed: list[tuple[tuple[str, ...], Message]] = []
        if onwards and stamp is None:
            passed.append((onwards, Publish(publication, (), hops, via)))
        elif onwards and stamp is not None:
            passed.append((onwards, Stamped(publication, stamp, route, (), hops, via)))
        if home:
            passed.append((home, Deliver(publication, via)))
        return passed

    def on_dropped(self, publication: Publication) -> None:
        if self._statements is not None and publication.record is not None and publication.seq:
            self._statements.on_dropped(publication.source, publication.seq)

    def forward_batch(self, sender: str, batch: Batch) -> list[Effect]:
        count = len(batch.seqs)
        if batch.hops > self._hops_max:
            return [Incident("too_many_hops", source=batch.source, count=count)]
        places_new = self._circles.first_of(sender, batch)
        if places_new is not None:
            old = Incident("routing_circle", sender, count - len(places_new), batch.source, batch.seqs[0])
            return [old, *self._forward_new(sender, batch.picked(places_new))] if places_new else [old]
        return self._forward_new(sender, batch)

    def _forward_new(self, sender: str, batch: Batch) -> list[Effect]:
        """The events of a batch, of which none has come before."""
        count = len(batch.seqs)
        stream = None if self._statements is None else self._statements.on_batch(sender, batch)
        if not count:
            return [] if stream is None else self._pass_statement_on(batch.source, stream, sender, batch.hops)
        effects: list[Effect] = []
        for places, wanting in picks(self._interests.wanting_bits_each(batch.attributes)).items():
            picked = batch if len(places) == count else batch.picked(places)
            as_they_came = picked is not batch and picked.proof == batch.proof  # else the events have proofs in them
            part = Picked(batch, places) if as_they_came else None
            effects += self._pass_on(sender, self._interests.asking(wanting), picked, stream, part)
        return effects

    def _pass_on(
        self, sender: str, wanting: tuple[str, ...], batch: Batch, stream: GaplessStream | None, part: Picked | None
    ) -> list[Effect]:
        onwards, home = self._splits.get((wanting, sender)) or self._split(wanting, sender)
        effects: list[Effect] = []
        for names, hops in ((onwards, batch.hops + 1), (home, batch.hops)):
            for stated, alike in self._stated(names, batch, stream).items():
                effects.append(Multicast(tuple(alike), with_statement(batch, hops, *stated), part))
        return effects

    def _stated(
        self, names: tuple[str, ...], batch: Batch, stream: GaplessStream | None
    ) -> dict[tuple[int, int], list[str]]:
        """The neighbours by what the batch states to them."""
        nothing = (1, 0) if batch.since else (0, 0)
        if stream is None or self._statements is None:
            return {nothing: list(names)} if names else {}
        found: dict[tuple[int, int], list[str]] = {}
        for name in names:
            since = self._statements.since_for(stream, name)
            found.setdefault(nothing if since is None else (since, stream.upto), []).append(name)
        return found

    def _pass_statement_on(self, source: str, stream: GaplessStream, sender: str, hops: int) -> list[Effect]:
        """To those who follow the stream; to brokers also if they know, because somebody behind them may not."""
        names = [
            name
            for name in {**stream.chains, **stream.alone}
            if name != sender and (name in self._peers or (name in self._clients and not stream.has_statements(name)))
        ]
        return self._state(source, stream, names, hops)

    def _state(self, source: str, stream: GaplessStream, names: list[str], hops: int) -> list[Effect]:
        """The statement alone."""
        effects: list[Effect] = []
        for name in names:
            since = None if self._statements is None else self._statements.since_for(stream, name)
            if since is not None:
                stated = Batch(
                    (), source, (), (), (), hops + (name in self._peers), min(since, stream.upto), stream.upto
                )
                effects.append(Send(name, stated))
        return effects

    def _catch_up(self, neighbour: str) -> list[Effect]:
        """A neighbour is about to want more, and what was not stated to it before then never will be."""
        if self._statements is None:
            return []
        lagging = self._statements.lagging(neighbour)
        return [each for source, stream in lagging for each in self._state(source, stream, [neighbour], 0)]

    @property
    def brokers(self) -> dict[str, Peer]:
        return self._peers

    def towards(self, condition: str, homes: tuple[str, ...], sender: str) -> list[tuple[str, tuple[str, ...]]]:
        """The neighbours but the sender behind which somebody wants exactly this condition."""
        wanting = self._interests.asking_for(condition)
        return [(name, ()) for name in wanting if name in self._peers and name != sender]

    def home(self, attributes: Attributes) -> tuple[str, ...]:
        return tuple([name for name in self._interests.wanting(attributes) if name in self._clients])

    def routes(self) -> tuple[Mapping[str, int], dict[str, int]]:
        return self._interests.table()

    def _split(self, wanting: tuple[str, ...], sender: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those who want an event that came from `sender`: brokers to send it on to, and clients."""
        if len(self._splits) >= _SPLITS_MAX:
            self._splits.clear()
        behind = self._place_of(sender)
        gone = [name for name in self._ceased if name not in self._peers]
        here = [name for name in wanting if name not in gone]
        onwards = tuple([name for name in here if name not in self._clients and name not in behind])
        home = tuple([name for name in wanting if name in self._clients])
        self._splits[wanting, sender] = onwards, home
        return onwards, home

    def _split_by_bits(self, wanting: int, sender: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if len(self._splits_by_bits) >= _SPLITS_MAX:
            self._splits_by_bits.clear()
        split = self._splits_by_bits[wanting, sender] = self._split(self._interests.asking(wanting), sender)
        return split

    def _forget_splits(self) -> None:
        self._splits.clear()
        self._splits_by_bits.clear()

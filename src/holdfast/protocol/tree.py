"""Routing on a tree: subscriptions flow towards publishers and events flow back along them.

With `advertisements`, publishers first say what they will publish; that floods the tree, and a subscription is
told to a neighbour only when something advertised behind it could meet it (SRT and PRT of paper 003). With
`subscriptions`, everything is told to everybody, as if each neighbour had advertised all events (Siena, paper 001).
In both, a neighbour is told only conditions that no other told condition covers; where brokers recover losses by
themselves, all of them, because these are the classes by which losses are noticed.
"""

from collections.abc import Callable, Iterable

import msgspec

from holdfast.model.event import Attributes
from holdfast.model.messages import Deliver, NodeKind, Publish, Run, Stamped, Table
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.cover import Cover, Everything
from holdfast.protocol.effects import Effect, Incident, Send, Spread
from holdfast.protocol.interests import Interests, Watch
from holdfast.protocol.tables import Told

_ENCODED_MAX = 2  # times that a publication of a run may be encoded, for neighbours that want other parts of the run
_WHOLE = 2**62  # conditions in one message, where nothing asks for less
_WAYS_MAX = 4_096  # sets of neighbours, by where the event came from, whose split is remembered


class _Peer:
    """A neighbouring broker: what we tell it and what it advertises."""

    def __init__(self, cover: Cover | Everything, now_us: int) -> None:
        self.cover = cover
        self.subscriptions = Told("subscriptions", now_us)
        self.advertisements = Told("advertisements", now_us)


class TreeRouter:
    def __init__(
        self,
        book: ConditionBook,
        new_index: Callable[[], EventIndex[str]],
        advertised_only: bool,
        hops_max: int,
        watch: Watch | None = None,
    ) -> None:
        self._book = book
        self._hops_max = hops_max
        self._advertised_only = advertised_only
        self._interests = Interests(book, new_index, watch)
        self._new_cover = Cover if watch is None else Everything
        self._advertised: dict[str, dict[str, None]] = {}  # advertisement -> neighbours it came from
        self._peers: dict[str, _Peer] = {}
        self._clients: dict[str, None] = {}
        self._ways: dict[tuple[tuple[str, ...], str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self.chunk = _WHOLE  # conditions told in one message
        self._twins: dict[str, str] = {}  # brokers that stand in one place: a faulty one and its replica
        self.version = 0  # goes up whenever `forward` may begin to answer differently

    # Links ---------------------------------------------------------------------------------------

    def on_link_up(self, neighbour: str, kind: NodeKind, now_us: int) -> list[Effect]:
        self._ways.clear()
        self.version += 1
        if kind == "client":
            self._clients[neighbour] = None
            return []
        peer = self._peers[neighbour] = _Peer(self._new_cover(self._book), now_us)
        effects: list[Effect] = []
        elsewhere = [each for each, origins in self._advertised.items() if self._from_elsewhere(origins, neighbour)]
        effects += self._tell(neighbour, peer.advertisements, elsewhere, (), now_us)
        return effects + self._retell(self._interests.conditions(), [neighbour], now_us)

    def pair(self, one: str, other: str) -> None:
        """These two stand in one place: neither is told, or sent, what came from the other."""
        self.unpair(one)
        self.unpair(other)
        self._twins[one], self._twins[other] = other, one
        self._ways.clear()

    def unpair(self, name: str) -> None:
        other = self._twins.pop(name, None)
        if other is not None:
            del self._twins[other]
            self._ways.clear()

    def _from_elsewhere(self, origins: dict[str, None], neighbour: str) -> bool:
        """Whether anything but this neighbour, and who stands in its place, is among the origins."""
        twin = self._twins.get(neighbour)
        return len(origins) > (neighbour in origins) + (twin in origins)

    def on_link_down(self, neighbour: str) -> None:
        self._ways.clear()
        self.version += 1
        self._peers.pop(neighbour, None)
        self._clients.pop(neighbour, None)

    def told(self, neighbour: str) -> dict[Table, Told]:
        """The tables we keep with a neighbour."""
        peer = self._peers.get(neighbour)
        if peer is None:
            return {}
        return {"subscriptions": peer.subscriptions, "advertisements": peer.advertisements}

    # Tables --------------------------------------------------------------------------------------

    def on_change(
        self, neighbour: str, table: Table, added: Iterable[str], dropped: Iterable[str], now_us: int
    ) -> list[Effect]:
        """A neighbour's table has changed: tell the others what follows from it."""
        added, dropped = list(added), list(dropped)
        if table == "advertisements":
            return self._on_advertisements(neighbour, added, dropped, now_us)
        self.version += 1
        self._interests.drop(neighbour, dropped)
        self._interests.add(neighbour, added)
        return self._retell([*dropped, *added], list(self._peers), now_us)

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
            tell = [each for each, origins in known.items() if self._from_elsewhere(origins, name)]
            untell = [each for each in known if each not in tell]
            effects += self._tell(name, peer.advertisements, tell, untell, now_us)
        if self._advertised_only and neighbour in self._peers:
            effects += self._retell(self._interests.conditions(), [neighbour], now_us)
        return effects

    def _retell(self, conditions: list[str], neighbours: list[str], now_us: int) -> list[Effect]:
        """Look again at whether these conditions are to be told to these neighbours."""
        effects: list[Effect] = []
        for name in neighbours:
            peer = self._peers[name]
            add: dict[str, None] = {}
            drop: dict[str, None] = {}
            for condition in conditions:
                if self._is_for(condition, name):
                    chosen, fallen = peer.cover.add(condition)
                else:
                    chosen, fallen = peer.cover.remove(condition)
                for each in fallen:
                    if add.pop(each, self) is self:
                        drop[each] = None
                for each in chosen:
                    if drop.pop(each, self) is self:
                        add[each] = None
            effects += self._tell(name, peer.subscriptions, list(add), drop, now_us)
        return effects

    def _tell(self, name: str, table: Told, add: list[str], drop: Iterable[str], now_us: int) -> list[Effect]:
        """A change of a table, in messages of not too many conditions."""
        effects: list[Effect] = []
        for start in range(0, max(len(add), 1), self.chunk):
            told = table.change(add[start : start + self.chunk], drop if start == 0 else (), now_us)
            if told is not None:
                effects.append(Send(name, told))
        return effects

    def _is_for(self, condition: str, neighbour: str) -> bool:
        if not self._interests.wanted_apart_from(condition, neighbour, self._twins.get(neighbour, neighbour)):
            return False
        if not self._advertised_only:
            return True
        overlaps = self._book.overlaps
        return any(
            neighbour in origins and overlaps(advertisement, condition)
            for advertisement, origins in self._advertised.items()
        )

    # Events --------------------------------------------------------------------------------------

    def wanting(self, attributes: Attributes) -> tuple[str, ...]:
        """The neighbours that want this event."""
        return self._interests.wanting(attributes)

    def forward(self, sender: str, publish: Publish | Stamped) -> list[Effect]:
        if publish.hops > self._hops_max:  # somebody has linked brokers in a circle
            return [Incident("too many hops", publish.publication.source)]
        wanting = self._interests.wanting(publish.publication.attributes)
        if not wanting:
            return []
        ways = self._ways.get((wanting, sender))
        if ways is None:
            ways = self._split(wanting, sender)
        onwards, home = ways
        effects: list[Effect] = []
        if onwards:
            effects.append(Spread(onwards, Publish(publish.publication, (), publish.hops + 1, publish.via)))
        if home:
            effects.append(Spread(home, Deliver(publish.publication, publish.via)))
        return effects

    def forward_run(self, sender: str, run: Run) -> list[Effect]:
        """What `forward` would do with each, in as few messages as keep the order for everybody."""
        count = len(run.seqs)
        if run.hops > self._hops_max:
            return [Incident("too many hops", run.source, count)]
        found = self._interests.wanting_each(run.attributes)
        if found.count(found[0]) == count:
            return self._pass_on(sender, found[0], run)
        places: dict[str, list[int]] = {}  # of the publications that each neighbour wants
        for at, wanting in enumerate(found):
            for name in wanting:
                places.setdefault(name, []).append(at)
        alike: dict[tuple[int, ...], list[str]] = {}
        for name, wanted in places.items():
            alike.setdefault(tuple(wanted), []).append(name)
        if sum(map(len, alike)) > _ENCODED_MAX * count:
            return [effect for publish in run.published() for effect in self.forward(sender, publish)]
        effects: list[Effect] = []
        for wanted_by_all, names in alike.items():
            effects += self._pass_on(sender, tuple(names), run.picked(wanted_by_all))
        return effects

    def _pass_on(self, sender: str, wanting: tuple[str, ...], run: Run) -> list[Effect]:
        if not wanting:
            return []
        onwards, home = self._ways.get((wanting, sender)) or self._split(wanting, sender)
        effects: list[Effect] = []
        if onwards:
            effects.append(Spread(onwards, msgspec.structs.replace(run, hops=run.hops + 1)))
        if home:
            effects.append(Spread(home, run))
        return effects

    @property
    def brokers(self) -> dict[str, _Peer]:
        """The neighbours that are brokers, by name."""
        return self._peers

    def towards(self, condition: str, homes: tuple[str, ...], sender: str) -> list[tuple[str, tuple[str, ...]]]:
        """The neighbours but the sender behind which somebody wants exactly this condition."""
        wanting = self._interests.asking_for(condition)
        return [(name, ()) for name in wanting if name in self._peers and name != sender]

    def home(self, attributes: Attributes) -> tuple[str, ...]:
        """Our own clients that want an event."""
        return tuple([name for name in self._interests.wanting(attributes) if name in self._clients])

    def routes(self) -> tuple[dict[str, int], dict[str, int]]:
        """What `forward` goes by: for each condition the neighbours that want it, and each neighbour's bit."""
        return self._interests.table()

    def _split(self, wanting: tuple[str, ...], sender: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those who want an event that came from `sender`: brokers to send it on to, and clients."""
        if len(self._ways) >= _WAYS_MAX:
            self._ways.clear()
        behind = sender, self._twins.get(sender, sender)
        onwards = tuple([name for name in wanting if name not in self._clients and name not in behind])
        home = tuple([name for name in wanting if name in self._clients])
        self._ways[wanting, sender] = onwards, home
        return onwards, home

"""Routing by destinations: match once at the publisher's broker, then carry the set of brokers to reach.

Every broker tells all others who its neighbours are and what its clients want (link states, flooded; newest wins; a
heartbeat's digest finds what was lost). The first broker matches an event against everything known and
stamps the home brokers of those who want it; each broker on the way splits the set by next hop. Works on any
connected graph (B-DRP of papers 000 and 004).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from holdfast.language.problems import ConditionError
from holdfast.model import limits
from holdfast.model.event import Attributes
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
    Via,
)
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.effects import Effect, Incident, Multicast, PassedOn, Send
from holdfast.protocol.interests import InterestObserver, Interests
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import SentTable, bytes_of, digest_of

_WAYS_MAX = 4_096  # sets of homes remembered; of more, some are worked out again


def _digest_of(state: LinkState) -> int:
    return digest_of(f"{state.broker}/{state.epoch}/{state.version}")


class _Ways(NamedTuple):
    """What becomes of an event for some homes."""

    ends: list[str]  # homes that are this broker, or cannot be reached
    hops: list[tuple[str, tuple[str, ...], bool]]  # to whom, for which homes, and whether that is a detour


class DestinationRouter:
    def __init__(
        self,
        name: str,
        epoch: int,
        settings: ProtocolSettings,
        book: ConditionBook,
        new_index: Callable[[], EventIndex[str]],
        watch: InterestObserver | None = None,
        avoid_down: bool = False,
        age_us: int = 0,
    ) -> None:
        """With `avoid_down`, events take a detour round neighbours that seem to be down.

        `age_us` is how long ago the epoch began, where it outlives a crash: the versions of an earlier life are lower.
        """
        self._name = name
        self._settings = settings
        self._book = book
        self._homes = Interests(book, new_index, watch)  # conditions -> brokers whose clients want them
        self._local = Interests(book, new_index)  # conditions -> our own clients
        self._links: dict[str, None] = {}
        own = LinkState(name, epoch, age_us, (), ())
        self._states = {name: own}
        self._digest = _digest_of(own)  # of all states; every heartbeat has it
        self.more_us: int | None = None  # it never leaves anything to do for later
        self.version = 0  # there are no `routes`
        self._suspects: dict[str, None] = {}  # neighbours that we take for down
        self._avoid_down = avoid_down
        self._next_hops: dict[str, str] | None = {}
        self._ways: dict[tuple[str, ...], _Ways] = {}  # those to homes that were named before
        self._detours: dict[str, dict[str, str]] = {}  # the same without what is down, and without one neighbour

    @property
    def known(self) -> tuple[int, int]:
        return len(self._states), self._digest

    # Links and tables ----------------------------------------------------------------------------

    def on_link_up(self, neighbour: str, kind: NodeKind, now_us: int) -> list[Effect]:
        if kind == "client":
            return []
        self._links[neighbour] = None
        introduced: list[Effect] = [Send(neighbour, state) for state in self._states.values()]
        return introduced + self._announce_state()

    def on_link_down(self, neighbour: str) -> None:
        self._suspects.pop(neighbour, None)
        if self._links.pop(neighbour, self) is None:
            self._forget_routes()

    def suspect(self, neighbour: str, is_down: bool) -> list[Effect]:
        if neighbour not in self._links or (neighbour in self._suspects) == is_down:
            return []
        if is_down:
            self._suspects[neighbour] = None
        else:
            del self._suspects[neighbour]
        return self._announce_state()

    def sent_tables(self, neighbour: str) -> dict[Table, SentTable]:
        return {}

    def told(self) -> None: ...
    def on_confirmed(self, neighbour: str, version: int) -> None: ...
    def on_dropped(self, publication: Publication) -> None: ...

    def why_refused(self, added: list[str]) -> str:
        wanted = dict.fromkeys([*self._local.conditions(), *added])
        if len(wanted) <= limits.CONDITIONS_MAX and sum(map(bytes_of, wanted)) <= limits.LINK_STATE_BYTES_MAX:
            return ""
        return (
            f"{self._name} accepts at most {limits.CONDITIONS_MAX} different conditions of its clients, "
            f"in {limits.LINK_STATE_BYTES_MAX} bytes: route by subscriptions, or connect some clients to other brokers"
        )

    def on_timer(self, now_us: int) -> list[Effect]:
        return []

    def on_change(
        self, neighbour: str, table: Table, added: Collection[str], dropped: Collection[str], now_us: int
    ) -> list[Effect]:
        """A client's table has changed, or a neighbour is gone: say so to everybody."""
        if table == "subscriptions":
            self._local.drop(neighbour, dropped)
            self._local.add(neighbour, added)
        return self._announce_state()

    def _announce_state(self) -> list[Effect]:
        old = self._states[self._name]
        wanted = tuple(self._local.conditions())
        links, down = tuple(self._links), tuple(self._suspects)
        new = LinkState(old.broker, old.epoch, old.version + 1, links, wanted, down)
        if (new.neighbours, new.conditions, new.down) == (old.neighbours, old.conditions, old.down):
            return []
        self._store(new)
        return [Send(neighbour, new) for neighbour in self._links]

    def on_link_state(self, sender: str, state: LinkState) -> list[Effect]:
        known = self._states.get(state.broker)
        own = self._states[self._name]
        if state.broker == self._name and own != state and (own.epoch, own.version) <= (state.epoch, state.version):
            return self._outdo(state)
        if known and (known.epoch, known.version) >= (state.epoch, state.version):
            return []
        if known is None and len(self._states) >= limits.NODES_MAX:
            return [Incident("too_many_brokers", sender)]
        try:
            self._store(state)
        except ConditionError:
            return [Incident("bad_condition", sender)]
        return [Send(neighbour, state) for neighbour in self._links if neighbour != sender]

    def holds(self, state: LinkState) -> bool:
        return self._states.get(state.broker) is state

    def _outdo(self, past: LinkState) -> list[Effect]:
        """The others hold a state of ours that looks newer: our clock was ahead in an earlier life."""
        if past.version >= limits.TIME_US_MAX:
            return [Incident("unexpected_message", past.broker)]
        own = self._states[self._name]
        new = LinkState(self._name, past.epoch, past.version + 1, own.neighbours, own.conditions, own.down)
        self._store(new)
        return [Send(neighbour, new) for neighbour in self._links]

    def on_known(self, neighbour: str, known: tuple[int, int]) -> list[Effect]:
        """A neighbour's heartbeat: send everything when it knows something else than we do."""
        if known == self.known:
            return []
        return [Send(neighbour, state) for state in self._states.values()]

    def _store(self, state: LinkState) -> None:
        old = self._states.get(state.broker)
        known = dict.fromkeys(old.conditions) if old else {}
        for each in state.conditions:
            if each not in known:
                self._book.subscription(each)  # a text that is no condition stops here, before anything is changed
        if old is None or (old.neighbours, old.down) != (state.neighbours, state.down):
            self._forget_routes()
        self._homes.change(state.broker, old.conditions if old else (), state.conditions)
        self._states[state.broker] = state
        self._digest = (self._digest + _digest_of(state) - (_digest_of(old) if old else 0)) % 2**64

    # Events --------------------------------------------------------------------------------------

    def forward(
        self, sender: str, publish: Publish | Stamped, stamp: Stamp | None = None, route: tuple[str, ...] = ()
    ) -> list[Effect]:
        publication = publish.publication
        if publish.hops > self._settings.hops_max:
            return [Incident("too_many_hops", source=publication.source)]
        homes = publish.homes or self._homes.wanting(publication.attributes)
        detours = self._avoid_down or publish.via == "multipath"
        ways = None if detours else self._ways.get(homes)
        if ways is None:
            ways = self._ways_to(homes, self._detours_without(sender) if detours else self._route())
            if not detours:
                self._remember(homes, ways)
        effects: list[Effect] = []
        for home in ways.ends:
            if home != self._name:
                effects.append(Incident("no_route", home))
                continue
            clients = self._local.wanting(publication.attributes)
            if clients:
                effects.append(Multicast(clients, Deliver(publication, publish.via)))
        for hop, reached, is_detour in ways.hops:
            via: Via = "multipath" if is_detour else publish.via
            if stamp is None:
                effects.append(Send(hop, Publish(publication, reached, publish.hops + 1, via)))
            else:
                effects.append(Send(hop, Stamped(publication, stamp, route, reached, publish.hops + 1, via)))
        return effects

    def passes_on(self, sender: str, publish: Publish) -> PassedOn | None:
        publication, hops, via = publish.publication, publish.hops, publish.via
        ways = self._ways.get(publish.homes or self._homes.wanting(publication.attributes))
        if ways is None or self._avoid_down or via == "multipath" or hops > self._settings.hops_max:
            return None
        passed: list[tuple[tuple[str, ...], Message]] = []
        for home in ways.ends:
            if home != self._name:
                return None
            clients = self._local.wanting(publication.attributes)
            if clients:
                passed.append((clients, Deliver(publication, via)))
        for hop, reached, _ in ways.hops:
            passed.append(((hop,), Publish(publication, reached, hops + 1, via)))
        return passed

    def _ways_to(self, homes: tuple[str, ...], first_hops: dict[str, str]) -> _Ways:
        ends: list[str] = []
        by_hop: dict[str, list[str]] = {}
        detoured: dict[str, list[str]] = {}
        next_hops = self._route()
        for home in homes:
            hop = first_hops.get(home)
            if home == self._name or hop is None:
                ends.append(home)
            else:
                (by_hop if hop == next_hops.get(home) else detoured).setdefault(hop, []).append(home)
        hops = [(hop, tuple(reached), False) for hop, reached in by_hop.items()]
        return _Ways(ends, hops + [(hop, tuple(reached), True) for hop, reached in detoured.items()])

    def _remember(self, homes: tuple[str, ...], ways: _Ways) -> None:
        if len(self._ways) >= _WAYS_MAX:
            self._ways.clear()
        self._ways[homes] = ways

    def forward_batch(self, sender: str, batch: Batch) -> list[Effect]:
        return [effect for publish in batch.published() for effect in self.forward(sender, publish)]

    def routes(self) -> tuple[Mapping[str, int], dict[str, int]]:
        return {}, {}

    def _split(self, homes: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
        """The other brokers among these by next hop, and those that cannot be reached."""
        by_hop: dict[str, list[str]] = {}
        unreachable = []
        next_hops = self._route()
        for home in homes:
            if home in next_hops:
                by_hop.setdefault(next_hops[home], []).append(home)
            elif home != self._name:
                unreachable.append(home)
        return by_hop, unreachable

    @property
    def brokers(self) -> dict[str, None]:
        return self._links

    def towards(self, condition: str, homes: tuple[str, ...], sender: str) -> list[tuple[str, tuple[str, ...]]]:
        """The neighbours through which those can be reached who want exactly this condition."""
        by_hop, _ = self._split(homes or self._homes.asking_for(condition))
        return [(hop, tuple(reached)) for hop, reached in by_hop.items()]

    def home(self, attributes: Attributes) -> tuple[str, ...]:
        return self._local.wanting(attributes)

    def _forget_routes(self) -> None:
        self._next_hops = None
        self._detours.clear()
        self._ways.clear()

    def _route(self) -> dict[str, str]:
        """The neighbour to take towards each broker: fewest hops, ties broken by order of discovery."""
        if self._next_hops is None:
            self._next_hops = self._explore(self._links, False)
        return self._next_hops

    def _detours_without(self, sender: str) -> dict[str, str]:
        """The same, round what is down. An event goes back to its sender only if there is no other route: the sender
        will know by then that this one is closed.
        """
        found = self._detours.get(sender)
        if found is None:
            links = [each for each in self._links if each not in self._suspects]
            onwards = self._explore([each for each in links if each != sender], True)
            found = self._detours[sender] = {**self._explore(links, True), **onwards}
        return found

    def _explore(self, links: Iterable[str], avoid_down: bool) -> dict[str, str]:
        next_hops: dict[str, str] = {}
        waiting = deque((neighbour, neighbour) for neighbour in links)
        while waiting:
            broker, hop = waiting.popleft()
            if broker in next_hops or broker == self._name or broker not in self._states:
                continue
            next_hops[broker] = hop
            waiting.extend((beyond, hop) for beyond in self._mutual(broker, avoid_down))
        return next_hops

    def _mutual(self, broker: str, avoid_down: bool) -> list[str]:
        """Neighbours that agree there is a link: one that has died is still listed by its own old state."""
        own, states = self._states[broker], self._states
        return [
            other
            for other in own.neighbours
            if other in states
            and broker in states[other].neighbours
            and not (avoid_down and (other in own.down or broker in states[other].down))
        ]

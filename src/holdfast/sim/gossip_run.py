"""What brokers that gossip remember in a run: the arrays of sim/gossip_flights.py, and their growth.

Nodes and links stay as they are; tables grow while subscriptions spread.
"""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from holdfast.model.messages import (
    Deliver,
    GossipComplete,
    GossipDigest,
    GossipEvent,
    GossipPull,
    GossipRequest,
    GossipVector,
    Publication,
    Publish,
)
from holdfast.protocol.gossip.settings import SEARCHED_US, SETTLED_US, GossipSettings, ReconcilingSettings, StyleName
from holdfast.protocol.node import Gossips
from holdfast.sim import gossip_state as at
from holdfast.sim import numbered_state as shared
from holdfast.sim.gossip_flights import DICE, FULL, run_until
from holdfast.sim.links import LINE_SIZE, SimLink
from holdfast.sim.network_snapshot import Picture
from holdfast.sim.numbered_run import Entry, SharedDice, has_something, longer
from holdfast.sim.turns import Turns
from holdfast.wire.codec import size_of

STYLES: tuple[StyleName, ...] = get_args(StyleName)  # by number
KINDS = ("GossipDigest", "GossipPull", "GossipRequest", "GossipEvent", "GossipVector", "GossipComplete")
_ROWS = 4_096  # of arrays that grow
_TELLING = (at.DIGEST, at.PULL, at.REQUEST, at.VECTOR)  # what lies in the pool of what is told
_NOBODY = (shared.NONE, 0)  # is woken
_NOTHING = Publication("", 0, 0, None, {})


def settings_of(gossip: GossipSettings, hops_max: int) -> NDArray[np.int64]:
    plain, deliver, reconciling = Publish(_NOTHING), Deliver(_NOTHING), ReconcilingSettings()
    values = {
        at.STYLE: STYLES.index(gossip.style),
        at.INTERVAL_US: gossip.interval_us,
        at.BUFFER: gossip.buffer,
        at.LOST_US: gossip.search_us,
        at.ADAPTIVE: int(gossip.adaptive),
        at.TRANSFER_US: gossip.transfer_delay_us,
        at.KEPT_US: gossip.kept_us,
        at.LOST_MAX: gossip.lost_max,
        at.PLACES_MAX: gossip.places_max,
        at.DIGEST_MAX: gossip.digest_max,
        at.STRETCH_MAX: gossip.stretch_max,
        at.HOPS_LIMIT: hops_max,
        at.AT_ONCE: reconciling.origins_at_once,
        at.SETTLE_US: reconciling.settle_us,
        at.RETRY_US: reconciling.retry_us,
        at.RETRY_MAX_US: reconciling.retry_us_max,
        at.TRIES_ORIGIN: reconciling.tries_origin,
        at.SYNC_US: reconciling.sync_us,
        at.SYNC_TRIES: reconciling.sync_tries,
        at.SYNC_MAX_US: reconciling.sync_us_max,
        at.SETTLED_US: SETTLED_US,
        at.SEARCHED_US: SEARCHED_US,
        at.DELIVER_LESS: size_of(plain) - size_of(deliver),
        at.VIA_MORE: size_of(Deliver(_NOTHING, "gossip")) - size_of(deliver),
        # Without a byte each for an empty name, no class, no numbers, no route and no hops, which are measured apart:
        at.DIGEST_BYTES: size_of(GossipDigest(("",), 0, ())) - 4,
        at.PULL_BYTES: size_of(GossipPull(("",), ())) - 5,
        at.REQUEST_BYTES: size_of(GossipRequest(("",), ())) - 2,
        at.EVENT_BYTES: size_of(GossipEvent(_NOTHING)) - 1 - size_of(plain),
        at.VECTOR_BYTES: size_of(GossipVector(("",), 0, ())) - 2,
        at.COMPLETE_BYTES: size_of(GossipComplete("")) - 1,
    }
    settings = np.zeros(at.GOSSIP_SETTINGS_SIZE, np.int64)
    settings[list(values)] = list(values.values())
    return settings


class GossipRun:
    def __init__(
        self,
        picture: Picture,
        gossip: GossipSettings,
        settings: NDArray[np.int64],
        machines: Sequence[Gossips],
        classes: int,
        own_max: int,
        wait_max_us: int,
    ) -> None:
        """`machines` are those of the brokers, in the order of the picture. There are `classes` at most, of which the
        clients of one broker want `own_max`. What machines say may wait for a link as long as `wait_max_us`.
        """
        self._picture = picture
        self._settings = settings
        brokers, nodes = len(machines), len(picture.in_order)
        self._classes, self._own_max = classes, own_max
        ends = [(edge, *ends) for edge, ends in enumerate(picture.ends)]
        between = [(edge, a, b) for edge, a, b in ends if a.kind == b.kind == "broker"]
        links = self._links_of([(edge, picture.node(a.name), picture.node(b.name)) for edge, a, b in between])
        begun = [each.begin_elsewhere() for each in machines]
        channels = [a.channels[b.name].link for _, a, b in between]
        self._dice = SharedDice(channels, [each.draw for each in begun])
        numbers = {(row[shared.SENDER], row[shared.RECEIVER]): n for n, row in enumerate(links.tolist())}
        names = {host.name: number for number, host in enumerate(picture.in_order)}
        outwards = [[numbers[broker, names[to]] for to in each.brokers] for broker, each in enumerate(begun)]
        starts = np.zeros(brokers + 1, np.int64)
        np.cumsum([len(each) for each in outwards], out=starts[1:])
        link_of = np.full(len(picture.ends), shared.NONE, np.int32)
        link_of[links[:, shared.EDGE]] = np.arange(len(links))
        rows = np.zeros((brokers, at.BROKER_SIZE), np.int64)
        rows[:, at.DUE_US] = shared.NEVER_US
        rows[:, at.STRETCH] = 1
        rows[:, at.PHASE_US] = [each.phase_us for each in begun]
        rows[:, [at.WAKE_US, at.FIRST_LOST, at.LAST_LOST]] = shared.NONE
        rows[:, at.INNER_DUE_US] = [each.next_due_us() for each in machines]
        by_name = sorted(range(brokers), key=picture.names.__getitem__)
        ranks = np.zeros(brokers, np.int64)
        ranks[by_name] = np.arange(brokers)
        name_bytes = np.array([size_of(GossipComplete(name)) for name in picture.names], np.int64)
        name_bytes -= size_of(GossipComplete("")) - 1
        self.arrays = at.Gossiping(
            settings=self._settings,
            links=links,
            lines=_lines_of(channels, wait_max_us),
            brokers=rows,
            dice=self._dice.rows,
            drawn=self._dice.drawn,
            ways=_ways(links, brokers, name_bytes),
            name_bytes=name_bytes,
            ranks=ranks,
            starts=starts,
            outwards=np.array([link for each in outwards for link in each], np.int32),
            link_of=link_of,
            **_nothing_yet((nodes, brokers, len(links), classes, own_max), gossip),
            **self._picture_arrays(),
        )
        self.arrays.state[[at.FREE_LOST, at.FREE_LINKED]] = shared.NONE
        degree_max = int(np.diff(starts).max(initial=0))
        heap = 2 * gossip.digest_max + 8 * degree_max + 80
        words = at.BODY_HEAD + (own_max + 4) * (gossip.digest_max + 4)
        self._needed = np.array([heap, 2 * int(self._settings[at.AT_ONCE]) * words, 64 + nodes - brokers], np.int64)
        self._tagged: dict[int, str] = {}
        self._entries = np.zeros((0, 6), np.int64)
        self.events = 0  # told so far
        self._met = 0

    def _links_of(self, between: list[tuple[int, int, int]]) -> NDArray[np.int64]:
        rows = np.zeros((len(between), shared.LINK_SIZE), np.int64)
        for number, row in enumerate(between):
            rows[number, [shared.EDGE, shared.SENDER, shared.RECEIVER]] = row
        return rows

    # What machines do ------------------------------------------------------------------------------

    def learn(self, broker: int, machine: Gossips) -> None:
        """Classes that have appeared at a broker, and those that its clients want."""
        arrays, row, number_of = self.arrays, self.arrays.brokers[broker], self._picture.number
        for condition in machine.take_appeared():
            class_ = number_of(condition)
            if not arrays.tag_bytes[class_]:
                arrays.tag_bytes[class_] = self._bytes_of_tag(condition, machine.tag_of(condition))
            arrays.order[broker, row[at.APPEARED]] = class_
            row[at.APPEARED] += 1
        wanted = machine.wanted
        for condition in list(wanted)[row[at.LOCALS] :]:
            of_class = arrays.classes[broker * self._classes + number_of(condition)]
            arrays.own[broker, row[at.LOCALS]] = number_of(condition)
            of_class[at.LOCAL], of_class[at.WANTED_US] = row[at.LOCALS], wanted[condition]
            row[at.LOCALS] += 1

    def _bytes_of_tag(self, condition: str, tag: int) -> int:
        assert self._tagged.setdefault(tag, condition) == condition, "two conditions have one tag"
        return size_of(GossipDigest(("",), tag, ())) - size_of(GossipDigest(("",), 0, ())) + 1

    def woken(self, now_us: int, broker: int, inner_due_us: int, turns: Turns) -> None:
        self.arrays = self.arrays._replace(**self._picture_arrays())
        self.arrays.state[shared.ORDERS] = turns.last
        self._make_room()
        run_until((now_us, 0, False), (broker, inner_due_us), self._entries, self._needed, self.arrays)
        turns.last = turns.apart = int(self.arrays.state[shared.ORDERS])

    # Events ----------------------------------------------------------------------------------------

    def tell(self, columns: NDArray[np.int64], matched: list[list[int]]) -> None:
        """Events: their columns up to `at.PUBLISHED_US`, and which conditions they meet."""
        first, count = self.events, len(matched)
        self.events += count
        arrays = self.arrays
        if self.events > len(arrays.events):
            size = max(_ROWS, 2 * self.events)
            flags = np.zeros((len(arrays.flags), size), np.uint8)
            flags[:, :first] = arrays.flags[:, :first]
            arrays = arrays._replace(events=longer(arrays.events, size), flags=flags)
        lengths = np.array([len(each) for each in matched], np.int64)
        met = self._met + int(lengths.sum())
        if met > arrays.conditions.size:
            arrays = arrays._replace(conditions=longer(arrays.conditions, 2 * met))
        arrays.conditions[self._met : met] = [number for each in matched for number in each]
        rows = arrays.events[first : self.events]
        rows[:, : at.PUBLISHED_US + 1] = columns
        rows[:, at.CONDITIONS_AT] = self._met + np.cumsum(lengths) - lengths
        rows[:, at.CONDITIONS] = lengths
        self._met = met
        arrays.state[at.MET_MAX] = max(arrays.state[at.MET_MAX], lengths.max(initial=0))
        self.arrays = arrays

    def enter(self, entries: list[Entry]) -> None:
        waiting = self._entries[self.arrays.state[shared.ENTRY] :]
        self._entries = np.concatenate((waiting, np.array(entries, np.int64).reshape(-1, 6)))
        self.arrays.state[shared.ENTRY] = 0
        self.arrays.state[shared.FLYING] += len(entries)

    # Running ---------------------------------------------------------------------------------------

    def has_something(self, until_us: int) -> bool:
        return has_something(self.arrays.state, self.arrays.heap, self._entries, until_us)

    def go_on(self, until_us: int, stops: bool, turns: Turns) -> None:
        """Let all happen before this time and turn; or, if it `stops`, until all is settled."""
        self.arrays = self.arrays._replace(**self._picture_arrays())
        self.arrays.state[shared.ORDERS] = turns.last
        until = until_us, turns.current, stops
        while True:
            why = run_until(until, _NOBODY, self._entries, self._needed, self.arrays)
            if why == DICE:
                self._refill()
            elif why == FULL:
                self._make_room()
            else:
                turns.last = turns.apart = int(self.arrays.state[shared.ORDERS])
                return

    def _refill(self) -> None:
        self._dice.refill()
        self.arrays.state[shared.DICE_LOW] = 0

    def _make_room(self) -> None:
        """For the next thing that happens, whatever that is."""
        arrays, state, needed = self.arrays, self.arrays.state, self._needed
        met = int(state[at.MET_MAX])
        if state[shared.DICE_LOW]:
            self._refill()
        if arrays.bodies.size - state[at.BODIES] <= needed[1]:
            used = self._compact()
            if arrays.bodies.size < 2 * (used + needed[1]):
                arrays = arrays._replace(bodies=longer(arrays.bodies, 4 * (used + int(needed[1]))))
        wanted = {
            "heap": int(state[shared.COUNT] + needed[0]),
            "arrived": int(state[shared.ARRIVED] + needed[2]),
            "again": int(state[at.CAME_AGAIN] + needed[2]),
            "given_up": int(state[shared.GIVEN_UP]) + len(arrays.brokers),
            "places": int(state[at.PLACES]) + met,
            "numbers": int(state[at.NUMBERS]) + met * (8 + 2 * int(state[at.LONGEST])),
        }
        for name, rows in wanted.items():
            if len(getattr(arrays, name)) <= rows:
                arrays = arrays._replace(**{name: longer(getattr(arrays, name), 2 * rows + 1)})
        self.arrays = arrays
        if len(arrays.lost) - state[at.LOSTS] <= self._settings[at.LOST_MAX]:
            self._grow("lost", at.FREE_LOST, at.AFTER_LOST, int(state[at.LOSTS] + self._settings[at.LOST_MAX]))
        if len(arrays.linked) - state[at.LINKED] <= met:
            self._grow("linked", at.FREE_LINKED, 1, int(state[at.LINKED]) + met + _ROWS)

    def _compact(self) -> int:
        """Keep only what messages on their way tell; returns how much that is."""
        heap, bodies, state = self.arrays.heap, self.arrays.bodies, self.arrays.state
        rows = np.flatnonzero(np.isin(heap[: state[shared.COUNT], shared.KIND], _TELLING))
        places, numbers = np.unique(heap[rows, shared.A], return_inverse=True)
        used, moved = 0, np.zeros(places.size, np.int64)
        for number, place in enumerate(places.tolist()):  # in the order of the pool: none is written over
            size = int(bodies[place + at.BODY_SIZE])
            bodies[used : used + size] = bodies[place : place + size].copy()
            moved[number] = used
            used += size
        heap[rows, shared.A] = moved[numbers]
        state[at.BODIES] = used
        return used

    def _grow(self, name: str, free: int, column: int, rows: int) -> None:
        """Make a pool larger, whose free rows are a list."""
        before = len(getattr(self.arrays, name))
        pool = longer(getattr(self.arrays, name), 2 * rows + 1)
        pool[before:, column] = np.arange(before + 1, len(pool) + 1)
        pool[-1, column] = self.arrays.state[free]
        self.arrays.state[free] = before
        self.arrays = self.arrays._replace(**{name: pool})

    def _picture_arrays(self) -> dict[str, Any]:
        """The network as it is, except for links, which stay."""
        nodes, edges, tables = self._picture.nodes, self._picture.edges, self._picture.tables
        network = {"is_client": nodes.is_client, "receivers": edges.receiver, "keys": edges.key, "odds": edges.odds}
        return {**network, "wanted": tables.wanted, "place_edges": tables.place_edges}

    def take(self, name: str, count: int) -> NDArray[np.int64]:
        """The rows of a list so far, which begins anew."""
        rows: NDArray[np.int64] = getattr(self.arrays, name)[: self.arrays.state[count]].copy()
        self.arrays.state[count] = 0
        return rows


def _lines_of(links: list[SimLink], wait_max_us: int) -> NDArray[np.int64]:
    """What waits for each link: machines send on it, too."""
    lines = np.zeros((len(links), LINE_SIZE), np.int64)
    for link, line in zip(links, lines, strict=True):
        link.share_line(line.data, wait_max_us)
    return lines


def _nothing_yet(counts: tuple[int, int, int, int, int], gossip: GossipSettings) -> dict[str, Any]:
    """Of so many nodes, brokers, links, classes, and classes of one broker: what is known before the first event."""
    nodes, brokers, links, classes, own_max = counts
    of_class = np.zeros((brokers * classes, at.CLASS_SIZE), np.int64)
    of_class[:, [at.BEGAN_US, at.LOCAL, at.FIRST_LINKED, at.LAST_LINKED]] = shared.NONE
    streams = np.zeros((brokers * brokers * own_max, at.STREAM_SIZE), np.int64)
    streams[:, at.FIRST : at.LAST + 1] = shared.NONE
    of_origin = np.zeros((brokers * brokers, at.ORIGIN_SIZE), np.int64)
    of_origin[:, [at.FIRST_STREAM, at.LAST_STREAM]] = shared.NONE
    return {
        "chances": np.array([gossip.forward_ratio, gossip.source_ratio]),
        "state": np.zeros(at.GOSSIP_STATE_SIZE, np.int64),
        "heap": np.zeros((_ROWS, 7), np.int64),
        "classes": of_class,
        "order": np.zeros((brokers, classes), np.int64),
        "own": np.zeros((brokers, own_max), np.int64),
        "streams": streams,
        "tags": np.full((brokers, own_max, 2), shared.NONE, np.int64),
        "tag_order": np.zeros((brokers, own_max), np.int64),
        "origins": of_origin,
        "origin_order": np.zeros((brokers, brokers), np.int64),
        "lost": np.zeros((0, at.LOST_SIZE), np.int64),
        "ring": np.zeros((brokers, gossip.buffer, 2), np.int64),
        "linked": np.zeros((0, 2), np.int64),
        "numbers": np.zeros(_ROWS, np.int64),
        "events": np.zeros((0, at.EVENT_SIZE), np.int64),
        "conditions": np.zeros(_ROWS, np.int32),
        "places": np.zeros((_ROWS, 3), np.int64),
        "flags": np.zeros((nodes, 0), np.uint8),
        "bodies": np.zeros(_ROWS, np.int64),
        "scratch": np.zeros(gossip.buffer + 4 * gossip.digest_max + 16, np.int64),
        "counts": np.zeros((nodes, 2, 4), np.int64),
        "more": np.zeros((brokers, len(KINDS), 4), np.int64),
        "link_bytes": np.zeros((links, 2), np.int64),
        "arrived": np.zeros((_ROWS, 4), np.int64),
        "again": np.zeros((_ROWS, 4), np.int64),
        "given_up": np.zeros((_ROWS, 4), np.int64),
        "tag_bytes": np.zeros(classes, np.int64),
    }


def _ways(links: NDArray[np.int64], brokers: int, name_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """From each broker on the tree to each: see `at.TOWARDS`."""
    ways = np.zeros((brokers, brokers, 3), np.int64)
    out: list[list[tuple[int, int]]] = [[] for _ in range(brokers)]
    back: dict[tuple[int, int], int] = {}
    for number, (sender, receiver) in enumerate(links[:, [shared.SENDER, shared.RECEIVER]].tolist()):
        out[sender].append((receiver, number))
        back[sender, receiver] = number
    for origin in range(brokers):
        ways[origin, origin] = shared.NONE, name_bytes[origin], 0
        waiting, known = [origin], {origin}
        for broker in waiting:
            for to, _ in out[broker]:
                if to not in known:
                    known.add(to)
                    waiting.append(to)
                    _, names, distance = ways[origin, broker]
                    ways[origin, to] = back[to, broker], names + name_bytes[to], distance + 1
    return ways

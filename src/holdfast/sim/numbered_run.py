"""What links that repair their own losses remember in a run: the arrays of sim/numbered_flights.py, and their growth.

The network does not change here but for its tables: nodes and links are numbered when the first event comes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.model.messages import Deliver, HighestSent, Nack, Numbered, Publication, Publish
from holdfast.protocol.hops.settings import NackSettings
from holdfast.sim import numbered_state as at
from holdfast.sim.links import SimLink
from holdfast.sim.network_snapshot import Picture
from holdfast.sim.numbered_flights import DICE, HEAP, HOLE_POOL, ROOM, run_until
from holdfast.sim.turns import Turns
from holdfast.wire.codec import size_of

_ROWS = 4_096  # of arrays that grow
Entry = tuple[int, int, int, int, int, int]  # an event leaves a client: time, turn, broker, edge, event, client
KINDS = ("Resent", "Nack", "HighestSent")  # as the rows of `Arrays.more`


def settings_of(nack: NackSettings, hops_max: int, lossy_control: bool) -> NDArray[np.int64]:
    nothing = Publication("", 0, 0, None, {})
    plain, again = Publish(nothing), Publish(nothing, via="retransmission")
    values = {
        at.RING: nack.ring,
        at.IDLE_US: nack.idle_us,
        at.BEATS: nack.beats,
        at.TRIES_MAX: nack.tries,
        at.WAIT_MAX_US: nack.wait_max_us,
        at.FIRST_WAIT_US: nack.first_wait_us,
        at.SLACK_US: nack.slack_us,
        at.HOPS_MAX: hops_max,
        at.LOSSY_CONTROL: int(lossy_control),
        at.NUMBERED_BYTES: size_of(Numbered(0, 0, False, plain)) - size_of(plain) - 2,  # two counts are measured apart
        at.VIA_BYTES: size_of(again) - size_of(plain),
        at.NACK_BYTES: size_of(Nack(0, ())) - 2,
        at.HIGHEST_BYTES: size_of(HighestSent(0, 0, 0)) - 3,
        at.DELIVER_BYTES_LESS: size_of(plain) - size_of(Deliver(nothing)),
    }
    settings = np.zeros(at.SETTINGS_SIZE, np.int64)
    settings[list(values)] = list(values.values())
    return settings


class SharedDice:
    """The random numbers of links, drawn ahead: compiled code takes some of them, and what machines send the others."""

    def __init__(self, links: list[SimLink], others: Sequence[Callable[[], float]] = ()) -> None:
        """`others`: dice that compiled code has for itself; they come after those of links."""
        self.rows = np.zeros((len(links) + len(others), at.DICE_BLOCK))
        self.drawn = np.full(len(self.rows), at.DICE_BLOCK, np.int64)
        self._draws = [*(self._shared(number, link) for number, link in enumerate(links)), *others]
        self.refill()

    def _shared(self, number: int, link: SimLink) -> Callable[[], float] | None:
        return None if link.is_sure else link.draw_from(lambda: self._take(number))

    def refill(self) -> None:
        for number in np.flatnonzero(self.drawn > at.DICE_BLOCK - at.DICE_MARGIN).tolist():
            draw, left = self._draws[number], at.DICE_BLOCK - int(self.drawn[number])
            if draw is not None:
                self.rows[number, :left] = self.rows[number, at.DICE_BLOCK - left :]
                self.rows[number, left:] = [draw() for _ in range(at.DICE_BLOCK - left)]
            self.drawn[number] = 0

    def _take(self, number: int) -> float:
        taken = float(self.rows[number, self.drawn[number]])
        self.drawn[number] += 1
        if self.drawn[number] > at.DICE_BLOCK - at.DICE_MARGIN:
            self.refill()  # compiled code counts on some
        return taken


class NumberedRun:
    def __init__(self, picture: Picture, settings: NDArray[np.int64]) -> None:
        self._picture = picture
        self._settings = settings
        ends = [(edge, *ends) for edge, ends in enumerate(picture.ends)]
        between = [(edge, a, b) for edge, a, b in ends if a.kind == b.kind == "broker"]
        home = (a.channels[b.name].link for _, a, b in ends if a.kind != b.kind and b.name in a.channels)
        assert all(link.is_sure and not link.spec.delay_us for link in home), "clients are at their brokers"
        self._dice = SharedDice([a.channels[b.name].link for _, a, b in between])
        brokers = sum(host.kind == "broker" for host in picture.in_order)
        self._number_links([(edge, picture.node(a.name), picture.node(b.name)) for edge, a, b in between], brokers)
        links, ring, nodes = len(between), int(settings[at.RING]), len(picture.in_order)
        answers = np.full((links, 2), -1.0)
        self.arrays = at.Arrays(
            settings=settings,
            state=np.zeros(at.STATE_SIZE, np.int64),
            heap=np.zeros((_ROWS, 7), np.int64),
            links=self._links,
            answers=answers,
            ring=np.zeros((links, ring, 4), np.int64),
            holes=np.zeros((0, at.HOLE_SIZE), np.int64),
            brokers=np.tile(np.array([[at.NEVER_US, at.NONE]], np.int64), (brokers, 1)),
            dice=self._dice.rows,
            drawn=self._dice.drawn,
            outstanding=np.zeros(0, np.int64),
            counts=np.zeros((nodes, 2, 4), np.int64),
            more=np.zeros((brokers, 3, 4), np.int64),
            arrived=np.zeros((_ROWS, 4), np.int64),
            given_up=np.zeros((_ROWS, 3), np.int64),
            link_of=self._link_of,
            starts=self._starts,
            outwards=self._outwards,
            **self._picture_arrays(),
        )
        self.arrays.state[at.FREE_HOLE] = at.NONE
        self._grow_holes(2 * ring)
        self.known = at.KnownEvents(
            np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), _empty_pool()
        )
        self._entries = np.zeros((0, 6), np.int64)
        self._pool_used = 0

    def _number_links(self, between: list[tuple[int, int, int]], brokers: int) -> None:
        numbers = {(a, b): number for number, (_, a, b) in enumerate(between)}
        rows = np.zeros((len(between), at.LINK_SIZE), np.int64)
        for number, (edge, a, b) in enumerate(between):
            rows[number, [at.EDGE, at.BACK, at.SENDER, at.RECEIVER]] = edge, numbers[b, a], a, b
        rows[:, [at.STREAM, at.SENDER_DUE_US, at.RECEIVER_DUE_US, at.FIRST_HOLE, at.LAST_HOLE]] = at.NONE
        self._links = rows
        self._outwards = np.argsort(rows[:, at.SENDER], kind="stable").astype(np.int32)
        self._starts = np.zeros(brokers + 1, np.int64)
        np.cumsum(np.bincount(rows[:, at.SENDER], minlength=brokers), out=self._starts[1:])
        self._degree_max = int(np.diff(self._starts).max(initial=0))
        self._link_of = np.full(len(self._picture.ends), at.NONE, np.int32)
        self._link_of[rows[:, at.EDGE]] = np.arange(len(between))

    @property
    def is_busy(self) -> bool:
        """Whether an event is on its way, or missing, or nobody was told yet whether it is."""
        return bool(self.arrays.state[at.FLYING] or self.arrays.state[at.BUSY])

    # Events ----------------------------------------------------------------------------------------

    def room_for(self, slots: int) -> None:
        if slots > self.known.key.size:
            size = max(2 * self.known.key.size, slots, _ROWS)
            key, bytes_, starts, lengths, conditions = self.known
            grown = longer(key, size), longer(bytes_, size), longer(starts, size), longer(lengths, size)
            self.known = at.KnownEvents(*grown, conditions)
            self.arrays = self.arrays._replace(outstanding=longer(self.arrays.outstanding, size))

    def forget_conditions(self) -> None:
        """What events meet is going to be told anew, of all that are still of interest."""
        self._pool_used = 0

    def tell_conditions(self, slots: NDArray[np.int64], matched: list[list[int]]) -> None:
        """Which conditions these events meet."""
        lengths = np.array([len(each) for each in matched], np.int64)
        needed = self._pool_used + int(lengths.sum())
        if needed > self.known.conditions.size:
            pool = longer(self.known.conditions, max(needed, 2 * self.known.conditions.size))
            self.known = self.known._replace(conditions=pool)
        self.known.conditions[self._pool_used : needed] = [number for each in matched for number in each]
        self.known.starts[slots] = self._pool_used + np.cumsum(lengths) - lengths
        self.known.lengths[slots] = lengths
        self._pool_used = needed

    def enter(self, entries: list[Entry]) -> None:
        waiting = self._entries[self.arrays.state[at.ENTRY] :]
        self._entries = np.concatenate((waiting, np.array(entries, np.int64).reshape(-1, 6)))
        self.arrays.state[at.ENTRY] = 0
        self.arrays.state[at.FLYING] += len(entries)
        np.add.at(self.arrays.outstanding, [each[4] for each in entries], 1)

    # Running ---------------------------------------------------------------------------------------

    def has_something(self, until_us: int) -> bool:
        return has_something(self.arrays.state, self.arrays.heap, self._entries, until_us)

    def go_on(self, until_us: int, stops: bool, turns: Turns) -> None:
        """Let all happen before this time and turn; or, if it `stops`, until nothing is on its way any more."""
        self.arrays = self.arrays._replace(**self._picture_arrays())
        self.arrays.state[at.ORDERS] = turns.last
        until = until_us, turns.current, stops
        while True:
            why = run_until(until, self._entries, self.known, self._degree_max, self.arrays)
            if why == DICE:
                self._dice.refill()
                self.arrays.state[at.DICE_LOW] = 0
            elif why == HEAP:
                self.arrays = self.arrays._replace(heap=longer(self.arrays.heap, 2 * len(self.arrays.heap)))
            elif why == HOLE_POOL:
                self._grow_holes(2 * len(self.arrays.holes))
            elif why == ROOM:
                arrived, given_up = self.arrays.arrived, self.arrays.given_up
                self.arrays = self.arrays._replace(
                    arrived=longer(arrived, 2 * len(arrived)), given_up=longer(given_up, 2 * len(given_up))
                )
            else:
                turns.last = turns.apart = int(self.arrays.state[at.ORDERS])
                return

    def _picture_arrays(self) -> dict[str, Any]:
        """The network as it is, except for links, which stay."""
        nodes, edges, tables = self._picture.nodes, self._picture.edges, self._picture.tables
        network = {"is_client": nodes.is_client, "receivers": edges.receiver, "keys": edges.key, "odds": edges.odds}
        return {**network, "wanted": tables.wanted, "place_edges": tables.place_edges}

    def _grow_holes(self, size: int) -> None:
        before, state = len(self.arrays.holes), self.arrays.state
        holes = longer(self.arrays.holes, size)
        holes[before:, at.NEXT_HOLE] = np.arange(before + 1, size + 1)
        holes[-1, at.NEXT_HOLE] = state[at.FREE_HOLE]
        state[at.FREE_HOLE] = before
        self.arrays = self.arrays._replace(holes=holes)

    def take_arrived(self) -> NDArray[np.int64]:
        rows = self.arrays.arrived[: self.arrays.state[at.ARRIVED]].copy()
        self.arrays.state[at.ARRIVED] = 0
        return rows

    def take_given_up(self) -> list[list[int]]:
        rows: list[list[int]] = self.arrays.given_up[: self.arrays.state[at.GIVEN_UP]].tolist()
        self.arrays.state[at.GIVEN_UP] = 0
        return rows

    def kept_and_missing(self, broker: int) -> tuple[int, int]:
        """The most that any link of a broker keeps, and that any misses."""
        own = self._outwards[self._starts[broker] : self._starts[broker + 1]]
        kept = np.minimum(self._links[own, at.SEQ], self._settings[at.RING])
        missing = self._links[self._links[own, at.BACK], at.HOLE_COUNT]
        return int(kept.max(initial=0)), int(missing.max(initial=0))


def has_something(state: NDArray[Any], heap: NDArray[Any], entries: NDArray[Any], until_us: int) -> bool:
    """Whether anything is to happen up to a time; to ask compiled code takes longer."""
    entry = int(state[at.ENTRY])
    if entry < len(entries) and entries[entry, 0] <= until_us:
        return True
    return bool(state[at.COUNT] and heap[0, at.TIME_US] <= until_us)


def _empty_pool() -> NDArray[np.int32]:
    return np.zeros(_ROWS, np.int32)


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer

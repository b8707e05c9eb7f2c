"""Carry events from broker to broker, compiled by numba: the inner loop of sim/express.py.

Everything is a number here. A node is a number; an edge is one direction of a link; a broker's table says, for each
condition, which of its places want it, one bit each, and each place has an edge. An event is followed through the tree
edge by edge until it reaches clients, is lost, or would arrive after `until_us`: then it stays in flight.
"""

from typing import NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from holdfast.sim.keyed_dice import GOLDEN, MIX_1, MIX_2
from holdfast.sim.links import REORDERED_MAX

PUBLISH, DELIVER = 0, 1  # the kinds of message, as rows of the counts
SENT, SENT_BYTES, LOST, RECEIVED = 0, 1, 2, 3  # what is counted of each

_GOLDEN, _MIX_1, _MIX_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_ONE = np.uint64(1)
_UNIT = 2.0**-53


class Nodes(NamedTuple):
    is_client: NDArray[np.bool_]
    up: NDArray[np.bool_]


class Edges(NamedTuple):
    """Each direction of each link."""

    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    up: NDArray[np.bool_]  # the sender has the link, and it works
    accepted: NDArray[np.bool_]  # the receiver has a link to the sender
    known: NDArray[np.bool_]  # and its machine knows the sender
    key: NDArray[np.uint64]
    delay_us: NDArray[np.int64]
    jitter_us: NDArray[np.int64]
    loss: NDArray[np.float64]
    reorder: NDArray[np.float64]


class Tables(NamedTuple):
    wanted: NDArray[np.uint64]  # broker, condition, word: the places that want it, one bit each
    place_edges: NDArray[np.int32]  # broker, place: the edge to it


class Events(NamedTuple):
    key: NDArray[np.uint64]
    bytes: NDArray[np.int64]  # of the message that carries it between brokers
    starts: NDArray[np.int64]  # event -> where the conditions that it meets start
    conditions: NDArray[np.int32]


class World(NamedTuple):
    events: Events
    nodes: Nodes
    edges: Edges
    tables: Tables
    deliver_bytes_less: int  # a message to a client is shorter than one to a broker


class Flights(NamedTuple):
    """Messages on their way: when they arrive, on which edge, and which event they carry.

    A message that is still to be sent has the inverse of its edge, and the time when it is sent.
    """

    time_us: NDArray[np.int64]
    edge: NDArray[np.int32]
    event: NDArray[np.int32]

    @classmethod
    def room_for(cls, count: int) -> "Flights":
        return cls(np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.int32))

    def part(self, count: int) -> "Flights":
        return Flights(self.time_us[:count], self.edge[:count], self.event[:count])


@nb.njit(inline="always")
def _mixed(word):
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)


@nb.vectorize([nb.uint64(nb.uint64, nb.uint64)], cache=True)
def event_keys(of_source, seq):
    return _mixed(of_source + seq * _GOLDEN)


@nb.njit(inline="always")
def _delay_us(edges, edge, state):
    delay_us = edges.delay_us[edge]
    if edges.jitter_us[edge]:
        state = _mixed(state + _GOLDEN)
        delay_us += np.int64((2.0 * ((state >> _11) * _UNIT) - 1.0) * edges.jitter_us[edge])
    if edges.reorder[edge] > 0.0:
        state = _mixed(state + _GOLDEN)
        if (state >> _11) * _UNIT < edges.reorder[edge]:
            state = _mixed(state + _GOLDEN)
            delay_us += np.int64((state >> _11) * _UNIT * REORDERED_MAX * edges.delay_us[edge])
    return max(delay_us, 0)


@nb.njit(inline="always")
def _arrival_us(world, now_us, event, edge, counts):
    """Send an event on an edge: when it arrives, or -1."""
    events, nodes, edges = world.events, world.nodes, world.edges
    sender = edges.sender[edge]
    kind = DELIVER if nodes.is_client[edges.receiver[edge]] else PUBLISH
    counts[sender, kind, SENT] += 1
    counts[sender, kind, SENT_BYTES] += events.bytes[event] - kind * world.deliver_bytes_less
    if edges.up[edge]:
        state = edges.key[edge] ^ (events.key[event] + np.uint64(now_us) * _GOLDEN)
        if edges.loss[edge] > 0.0:
            state = _mixed(state + _GOLDEN)
        if edges.loss[edge] == 0.0 or (state >> _11) * _UNIT >= edges.loss[edge]:
            return now_us + _delay_us(edges, edge, state)
    counts[sender, kind, LOST] += 1
    return -1


@nb.njit(cache=True)
def fly(until_us, given, first, world, counts, stack, left, seen):
    """Carry what is given, from the first on, into two lists: what is still on its way, and what has come to a client
    or to a broker that does not know the sender. Stops when a list might not hold one more event's messages; returns
    how far it came and how long the lists are.

    The arrays are taken apart here because passing tuples of them on costs counting references in the inner loop.
    """
    n_left, n_seen, room = 0, 0, stack.time_us.size
    is_client, node_up = world.nodes.is_client, world.nodes.up
    senders, receivers, accepted, known = (
        world.edges.sender,
        world.edges.receiver,
        world.edges.accepted,
        world.edges.known,
    )
    starts, conditions = world.events.starts, world.events.conditions
    wanted, place_edges = world.tables.wanted, world.tables.place_edges
    for number in range(first, given.time_us.size):
        if left.time_us.size - n_left < room or seen.time_us.size - n_seen < room:
            return number, n_left, n_seen
        event, now_us, edge = given.event[number], given.time_us[number], given.edge[number]
        if edge < 0:
            edge = ~edge
            now_us = _arrival_us(world, now_us, event, edge, counts)
        waiting = 0 if now_us < 0 else 1
        stack.time_us[0], stack.edge[0] = now_us, edge
        while waiting:
            waiting -= 1
            now_us, edge = stack.time_us[waiting], stack.edge[waiting]
            if now_us >= until_us:
                left.time_us[n_left], left.edge[n_left], left.event[n_left] = now_us, edge, event
                n_left += 1
                continue
            node, sender = receivers[edge], senders[edge]
            if not node_up[node] or not accepted[edge]:
                continue
            counts[node, DELIVER if is_client[node] else PUBLISH, RECEIVED] += 1
            if is_client[node] or not known[edge]:
                seen.time_us[n_seen], seen.edge[n_seen], seen.event[n_seen] = now_us, edge, event
                n_seen += 1
                continue
            for word in range(wanted.shape[2]):
                places = np.uint64(0)
                for at in range(starts[event], starts[event + 1]):
                    places |= wanted[node, conditions[at], word]
                place = word * 64
                while places:
                    if places & _ONE:
                        onwards = place_edges[node, place]
                        if receivers[onwards] != sender or is_client[sender]:
                            arrives_us = _arrival_us(world, now_us, event, onwards, counts)
                            if arrives_us >= 0:
                                if waiting == room:
                                    raise RuntimeError("an event goes round in a circle")
                                stack.time_us[waiting], stack.edge[waiting] = arrives_us, onwards
                                waiting += 1
                    places >>= _ONE
                    place += 1
    return given.time_us.size, n_left, n_seen


@nb.njit(cache=True)
def account(events, clients_of_starts, clients_of, arrived_events, arrived_nodes, marks, owed, is_owed):
    """Who is owed each event, and which arrivals were. Arrivals are in the order of events; marks are node numbers."""
    at = 0
    for event in range(events.starts.size - 1):
        for number in range(events.starts[event], events.starts[event + 1]):
            condition = events.conditions[number]
            if condition + 1 < clients_of_starts.size:
                for place in range(clients_of_starts[condition], clients_of_starts[condition + 1]):
                    node = clients_of[place]
                    if marks[node] != event:
                        marks[node] = event
                        owed[event] += 1
        while at < arrived_events.size and arrived_events[at] == event:
            is_owed[at] = marks[arrived_nodes[at]] == event
            at += 1

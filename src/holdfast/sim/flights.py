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


LOSS, DELAY_US, JITTER_US, REORDER = 0, 1, 2, 3  # columns of what may happen on an edge


class Edges(NamedTuple):
    """Each direction of each link."""

    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    accepted: NDArray[np.bool_]  # the receiver has a link to the sender
    known: NDArray[np.bool_]  # and its machine knows the sender
    key: NDArray[np.uint64]
    odds: NDArray[np.float64]  # a loss of 1 where the sender has no link, or it does not work


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


# Columns of a list of messages on their way: when it arrives, on which edge, which event it carries, brokers passed.
# A message that is still to be sent has the inverse of its edge, and the time when it is sent.
TIME_US, EDGE, EVENT, HOPS = 0, 1, 2, 3


@nb.njit(inline="always")
def _mixed(word):
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)


def keys_of_events(of_source: NDArray[np.uint64], seq: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of arrays, by NumPy: a ufunc of numba's own takes a quarter of a second of every process to load."""
    keys: NDArray[np.uint64] = _mixed.py_func(of_source + seq * _GOLDEN)
    return keys


@nb.njit(inline="always")
def _delay_us(odds, edge, state):
    delay_us = odds[edge, DELAY_US]
    if odds[edge, JITTER_US] > 0.0:
        state = _mixed(state + _GOLDEN)
        delay_us += np.int64((2.0 * ((state >> _11) * _UNIT) - 1.0) * odds[edge, JITTER_US])
    if odds[edge, REORDER] > 0.0:
        state = _mixed(state + _GOLDEN)
        if (state >> _11) * _UNIT < odds[edge, REORDER]:
            state = _mixed(state + _GOLDEN)
            delay_us += np.int64((state >> _11) * _UNIT * REORDERED_MAX * odds[edge, DELAY_US])
    return max(np.int64(delay_us), 0)


@nb.njit(inline="always")
def arrival_us(now_us, event_key, edge, edge_key, odds):
    """Send an event on an edge: when it arrives, or -1."""
    state = edge_key ^ (event_key + np.uint64(now_us) * _GOLDEN)
    if odds[edge, LOSS] > 0.0:
        state = _mixed(state + _GOLDEN)
        if (state >> _11) * _UNIT < odds[edge, LOSS]:
            return -1
    return now_us + _delay_us(odds, edge, state)


@nb.njit(inline="always")
def _put(rows, count, time_us, edge, event, hops):
    """Append to a list; it is made longer when it is full.

    Copied by hand: with np.concatenate, or a row assigned to a row, numba also compiles the texts of NumPy's errors.
    """
    if count == rows.shape[0]:
        longer = np.empty((2 * count, 4), np.int64)
        for at in range(count):
            for column in range(4):
                longer[at, column] = rows[at, column]
        rows = longer
    rows[count, TIME_US] = time_us
    rows[count, EDGE] = edge
    rows[count, EVENT] = event
    rows[count, HOPS] = hops
    return rows


@nb.njit(cache=True)
def fly(until_us, given, world, hops_max, counts):
    """Carry what is given; return what is still on its way, and what a machine has to see: arrivals at clients, at
    brokers that do not know the sender, and of what has come too far.

    All arrays have names of their own, because reaching into tuples of arrays in the loop costs more than the rest.
    """
    is_client, node_up = world.nodes
    senders, receivers, accepted, known, edge_keys, odds = world.edges
    event_keys, sizes, starts, conditions = world.events
    wanted, place_edges = world.tables
    stack, left, arrived = np.empty((64, 4), np.int64), np.empty((64, 4), np.int64), np.empty((4096, 4), np.int64)
    n_left, n_arrived = 0, 0
    for number in range(given.shape[0]):
        waiting, event = 1, given[number, EVENT]
        stack = _put(stack, 0, given[number, TIME_US], given[number, EDGE], event, given[number, HOPS])
        key = event_keys[event]
        while waiting:
            waiting -= 1
            now_us, edge, hops = stack[waiting, TIME_US], stack[waiting, EDGE], stack[waiting, HOPS]
            if edge < 0:
                edge = ~edge
                kind = DELIVER if is_client[receivers[edge]] else PUBLISH
                counts[senders[edge], kind, SENT] += 1
                counts[senders[edge], kind, SENT_BYTES] += sizes[event] - kind * world.deliver_bytes_less
                now_us = arrival_us(now_us, key, edge, edge_keys[edge], odds)
                if now_us < 0:
                    counts[senders[edge], kind, LOST] += 1
                    continue
            if now_us >= until_us:
                left = _put(left, n_left, now_us, edge, event, hops)
                n_left += 1
                continue
            node, sender = receivers[edge], senders[edge]
            if not node_up[node] or not accepted[edge]:
                continue
            counts[node, DELIVER if is_client[node] else PUBLISH, RECEIVED] += 1
            if is_client[node] or not known[edge] or hops > hops_max:
                arrived = _put(arrived, n_arrived, now_us, edge, event, hops)
                n_arrived += 1
                continue
            for word in range(wanted.shape[2]):
                places = np.uint64(0)
                for at in range(starts[event], starts[event + 1]):
                    places |= wanted[node, conditions[at], word]
                place = word * 64
                while places:
                    onwards = place_edges[node, place]
                    if places & _ONE and (receivers[onwards] != sender or is_client[sender]):
                        stack = _put(stack, waiting, now_us, ~onwards, event, hops + 1)
                        waiting += 1
                    places >>= _ONE
                    place += 1
    return left[:n_left], arrived[:n_arrived]


@nb.njit(cache=True)
def account(events, asking_starts, asking, arrived, nodes, marks, owed, is_owed, repeated):
    """Who is owed each event, which arrivals were, and which events came to a client more than once.

    Arrivals are in the order of events. `marks` has two places for each node.
    """
    at = 0
    for event in range(events.starts.size - 1):
        for number in range(events.starts[event], events.starts[event + 1]):
            condition = events.conditions[number]
            if condition + 1 < asking_starts.size:
                for place in range(asking_starts[condition], asking_starts[condition + 1]):
                    if marks[asking[place], 0] != event:
                        marks[asking[place], 0] = event
                        owed[event] += 1
        while at < arrived.size and arrived[at] == event:
            is_owed[at] = marks[nodes[at], 0] == event
            repeated[event] |= marks[nodes[at], 1] == event
            marks[nodes[at], 1] = event
            at += 1

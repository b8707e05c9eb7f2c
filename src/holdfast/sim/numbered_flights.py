"""Carry events over links that repair their own losses, compiled by numba: the inner loop of sim/numbered_express.py.

One thing after the other, in the order of time: here, unlike on links that only lose (sim/flights.py), what becomes of
an event depends on those before it. A call goes on until a time, or until nothing is on its way, or until one of its
arrays is full: then the caller makes it larger and calls again.
"""

import numpy as np

from holdfast.sim.flights import DELIVER, PUBLISH
from holdfast.sim.held import held, njit
from holdfast.sim.numbered_links import (
    announce,
    arrived_or_given_up,
    ask,
    drop_first,
    number,
    on_highest,
    on_idle,
    on_numbered,
    push,
    transmit,
)
from holdfast.sim.numbered_state import (
    AGAIN_BIT,
    ARRIVED,
    BACK,
    BUSY,
    COUNT,
    DELIVER_BYTES_LESS,
    DICE_LOW,
    DUE_US,
    EDGE,
    ENTRY,
    FIRST_BIT,
    FLYING,
    GIVEN_UP,
    HIGHEST_SENT,
    HIGHESTS,
    HOLES,
    HOPS_MAX,
    HOPS_SHIFT,
    KIND,
    LAST_BIT,
    LINK,
    NACK,
    NACKS,
    NEVER_US,
    NONE,
    NOW_US,
    NUMBERED,
    ORDER,
    RECEIVED,
    RECEIVER,
    RECEIVER_DUE_US,
    RESENT,
    RING,
    SENDER,
    SENDER_DUE_US,
    SENT,
    SENT_BYTES,
    SEQ,
    TIME_US,
    TIMER,
    UNKEPT,
    VIA_BIT,
    VIA_BYTES,
    WAKE_US,
    A,
    B,
    C,
)

DONE, LANDED, DICE, HEAP, HOLE_POOL, ROOM = range(6)  # why a call has ended
_ONE = np.uint64(1)


@njit(forceinline=True)
def _rearm(now_us, broker, run):
    brokers = run.brokers
    due_us = brokers[broker, DUE_US]
    if due_us != NEVER_US and due_us != brokers[broker, WAKE_US]:
        brokers[broker, WAKE_US] = due_us
        push(max(due_us, now_us), TIMER, broker, due_us, 0, 0, run)


@njit(forceinline=True)
def _arrive(now_us, edge, event, flags, run):
    """A machine may have to see it; the books do."""
    arrived, at = run.arrived, run.state[ARRIVED]
    arrived[at, 0], arrived[at, 1], arrived[at, 2], arrived[at, 3] = now_us, edge, event, flags
    run.state[ARRIVED] += 1


@njit(forceinline=True)
def _deliver(now_us, broker, edge, event, flags, size, run):
    """To a client, who is at its broker: at once, and without a loss."""
    counts, settings = run.counts, run.settings
    counts[broker, DELIVER, SENT] += 1
    counts[broker, DELIVER, SENT_BYTES] += size - settings[DELIVER_BYTES_LESS] + (flags & VIA_BIT) * settings[VIA_BYTES]
    counts[run.receivers[edge], DELIVER, RECEIVED] += 1
    _arrive(now_us, edge, event, flags, run)


@njit(forceinline=True)
def _forward(now_us, broker, edge, sender, event, flags, events, run):
    """Number it for the brokers that want it, and deliver it to the clients that do."""
    is_client, wanted, place_edges, receivers = run.is_client, run.wanted, run.place_edges, run.receivers
    hops, size = flags >> HOPS_SHIFT, events.bytes[event]
    if hops > run.settings[HOPS_MAX]:
        _arrive(now_us, edge, event, flags, run)
        return
    first, last = events.starts[event], events.starts[event] + events.lengths[event]
    for word in range(wanted.shape[2]):
        places, place = np.uint64(0), word * 64
        for at in range(first, last):
            places |= wanted[broker, events.conditions[at], word]
        while places:
            onwards = place_edges[broker, place]
            to = receivers[onwards]
            if places & _ONE and (to != sender or is_client[sender]):
                if is_client[to]:
                    _deliver(now_us, broker, onwards, event, flags, size, run)
                else:
                    link, further = run.link_of[onwards], flags & VIA_BIT | (hops + 1) << HOPS_SHIFT
                    seq = number(now_us, link, event, events.key[event], size, further, run)
                    transmit(now_us, link, seq, False, run)
            places >>= _ONE
            place += 1


@njit(forceinline=True)
def _on_entry(now_us, at, entries, events, run):
    broker, edge, event, sender = entries[at, 2], entries[at, 3], entries[at, 4], entries[at, 5]
    run.state[ENTRY] += 1
    run.state[FLYING] -= 1
    run.counts[sender, PUBLISH, SENT] += 1
    run.counts[sender, PUBLISH, SENT_BYTES] += events.bytes[event]
    run.counts[broker, PUBLISH, RECEIVED] += 1
    _forward(now_us, broker, edge, sender, event, 0, events, run)
    run.outstanding[event] -= 1
    _rearm(now_us, broker, run)


@njit(forceinline=True)
def _on_event(now_us, link, event, seq, flags, events, run):
    links, again = run.links, flags & AGAIN_BIT
    broker = links[link, RECEIVER]
    if again:
        run.more[broker, RESENT, RECEIVED] += 1
    else:
        run.counts[broker, PUBLISH, RECEIVED] += 1
    run.state[FLYING] -= 1
    is_new = on_numbered(now_us, link, seq, again, run)
    if is_new and event >= 0:
        arrived_or_given_up(link, seq, run)
        came = (flags & ~(VIA_BIT | AGAIN_BIT)) | (VIA_BIT if again else flags & VIA_BIT)
        _forward(now_us, broker, links[link, EDGE], links[link, SENDER], event, came, events, run)
    if event >= 0:
        run.outstanding[event] -= 1
    if links[link, RECEIVER_DUE_US] >= 0:
        ask(now_us, link, run)
    _rearm(now_us, broker, run)


@njit
def _on_nack(now_us, back, seq, flags, run):
    links, state = run.links, run.state
    link, broker = links[back, BACK], links[back, RECEIVER]
    if flags & FIRST_BIT:
        run.more[broker, NACKS, RECEIVED] += 1
        state[UNKEPT] = 0
    if links[link, SEQ] - run.settings[RING] < seq <= links[link, SEQ]:
        transmit(now_us, link, seq, True, run)
    else:
        state[UNKEPT] += 1
    if flags & LAST_BIT:
        if state[UNKEPT]:
            announce(now_us, link, run)
        _rearm(now_us, broker, run)


@njit
def _on_highest(now_us, link, seq, first_kept, run):
    broker = run.links[link, RECEIVER]
    run.more[broker, HIGHESTS, RECEIVED] += 1
    on_highest(now_us, link, seq, first_kept, run)
    ask(now_us, link, run)
    _rearm(now_us, broker, run)


@njit
def _on_timer(now_us, broker, run):
    links, brokers, starts, outwards = run.links, run.brokers, run.starts, run.outwards
    brokers[broker, WAKE_US] = NONE
    if brokers[broker, DUE_US] <= now_us:
        brokers[broker, DUE_US] = NEVER_US
        for at in range(starts[broker], starts[broker + 1]):
            ask(now_us, links[outwards[at], BACK], run)
        for at in range(starts[broker], starts[broker + 1]):
            link = outwards[at]
            on_idle(now_us, link, run)
            if links[link, SENDER_DUE_US] >= 0:
                brokers[broker, DUE_US] = min(brokers[broker, DUE_US], links[link, SENDER_DUE_US])
    _rearm(now_us, broker, run)


@njit(forceinline=True)
def _what_is_full(degree_max, run):
    """What has to be made larger before the next thing may happen, whatever that is; DONE when nothing has."""
    state, ring, places = run.state, run.settings[RING], run.place_edges.shape[1]
    if state[DICE_LOW]:
        return DICE
    if run.heap.shape[0] - state[COUNT] <= 2 * state[HOLES] + ring + 4 * degree_max + places:
        return HEAP
    if run.holes.shape[0] - state[HOLES] <= ring:
        return HOLE_POOL
    no_room = run.arrived.shape[0] - state[ARRIVED] <= places + 1
    return ROOM if no_room or run.given_up.shape[0] - state[GIVEN_UP] <= degree_max else DONE


@njit(cache=True)
def run_until(until, entries, known, degree_max, arrays):
    """Let all happen before a time and turn; if it stops then, until nothing is on its way. Returns why it ended."""
    run, events = held(arrays), held(known)
    until_us, turn, stops = until
    state, heap = run.state, run.heap
    while True:
        full = _what_is_full(degree_max, run)
        if full != DONE:
            return full
        entry = state[ENTRY]
        heap_us = heap[0, TIME_US] if state[COUNT] else NEVER_US
        entry_us = entries[entry, 0] if entry < entries.shape[0] else NEVER_US
        now_us, enters = min(heap_us, entry_us), entry_us < heap_us  # clients publish when all before is done
        if stops and now_us > state[NOW_US] and not state[FLYING] and not state[BUSY]:
            return LANDED
        if now_us > until_us or (now_us == until_us and (entries[entry, 1] if enters else heap[0, ORDER]) > turn):
            return DONE
        state[NOW_US] = now_us
        if enters:
            _on_entry(now_us, entry, entries, events, run)
            continue
        kind, whose, a, b, c = heap[0, KIND], heap[0, LINK], heap[0, A], heap[0, B], heap[0, C]
        drop_first(run)
        if kind == NUMBERED:
            _on_event(now_us, whose, a, b, c, events, run)
        elif kind == NACK:
            _on_nack(now_us, whose, a, c, run)
        elif kind == HIGHEST_SENT:
            _on_highest(now_us, whose, a, b, run)
        elif run.brokers[whose, WAKE_US] == a:
            _on_timer(now_us, whose, run)

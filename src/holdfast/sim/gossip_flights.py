"""Carry events through brokers that gossip, compiled by numba: the inner loop of sim/gossip_express.py.

One thing after the other, in the order of time, as on links that repair their losses (sim/numbered_flights.py): a call
goes on until a time, or until all is settled, or until one of its arrays is full.
"""

import numpy as np

from holdfast.sim import gossip_state as at
from holdfast.sim.flights import DELIVER, PUBLISH
from holdfast.sim.gossip_memory import keep, stamp, take_in
from holdfast.sim.gossip_rounds import (
    all_settled,
    heard,
    on_complete,
    on_digest,
    on_numbers,
    on_pull,
    on_recovered,
    on_request,
    on_round,
    on_vector,
    wake,
)
from holdfast.sim.gossip_talk import send_event
from holdfast.sim.held import held, njit
from holdfast.sim.numbered_links import drop_first, push
from holdfast.sim.numbered_state import (
    ARRIVED,
    COUNT,
    DICE_LOW,
    ENTRY,
    FLYING,
    GIVEN_UP,
    KIND,
    LINK,
    NEVER_US,
    NONE,
    NOW_US,
    ORDER,
    RECEIVED,
    RECEIVER,
    SENDER,
    SENT,
    SENT_BYTES,
    TIME_US,
    A,
    B,
    C,
)

DONE, LANDED, DICE, FULL = range(4)  # why a call has ended
_ONE = np.uint64(1)


@njit(forceinline=True)
def rearm(now_us, broker, run):
    """The timer of a broker, who has others; the simulator knows those."""
    row = run.brokers[broker]
    due_us = min(row[at.DUE_US], row[at.INNER_DUE_US])
    if due_us != row[at.WAKE_US]:
        row[at.WAKE_US] = due_us
        if due_us < row[at.INNER_DUE_US]:
            push(max(due_us, now_us), at.ROUND, broker, due_us, 0, 0, run)


@njit
def _on_woken(now_us, broker, inner_due_us, run):
    """The simulator has woken a broker."""
    row = run.brokers[broker]
    row[at.WAKE_US], row[at.INNER_DUE_US] = NONE, inner_due_us
    on_round(now_us, broker, run)
    rearm(now_us, broker, run)


@njit
def _deliver(now_us, broker, edge, event, recovered, run):
    """To a client, who is at its broker: at once, and without a loss."""
    state, settings, counts, client = run.state, run.settings, run.counts, run.receivers[edge]
    counts[broker, DELIVER, SENT] += 1
    counts[broker, DELIVER, SENT_BYTES] += run.events[event, at.SIZE] - settings[at.DELIVER_LESS]
    counts[broker, DELIVER, SENT_BYTES] += recovered * settings[at.VIA_MORE]
    counts[client, DELIVER, RECEIVED] += 1
    if run.flags[client, event]:
        rows, slot = run.again, state[at.CAME_AGAIN]
        state[at.CAME_AGAIN] += 1
    else:
        rows, slot = run.arrived, state[ARRIVED]
        state[ARRIVED] += 1
        run.flags[client, event] = 1
    rows[slot, 0], rows[slot, 1], rows[slot, 2], rows[slot, 3] = now_us, edge, event, recovered


@njit(forceinline=True)
def _forward(now_us, broker, sender, event, hops, onwards_too, run):
    """Send an event to the brokers that want it, and deliver it to the clients that do; to how many clients."""
    is_client, wanted, events = run.is_client, run.wanted, run.events
    first = events[event, at.CONDITIONS_AT]
    delivered = 0
    for word in range(wanted.shape[2]):
        places, place = np.uint64(0), word * 64
        for slot in range(first, first + events[event, at.CONDITIONS]):
            places |= wanted[broker, run.conditions[slot], word]
        while places:
            if places & _ONE:
                edge = run.place_edges[broker, place]
                to = run.receivers[edge]
                if is_client[to]:
                    _deliver(now_us, broker, edge, event, 1 - onwards_too, run)
                    delivered += 1
                elif onwards_too and to != sender:
                    send_event(now_us, run.link_of[edge], event, hops + 1, run)
            places >>= _ONE
            place += 1
    return delivered


@njit(forceinline=True)
def _on_event(now_us, broker, sender, event, hops, run):
    brokers, style = run.brokers, run.settings[at.STYLE]
    enters = run.is_client[sender]
    take_in(now_us, broker, run)
    if enters and style != at.PUSH:
        stamp(broker, event, run)
    is_ours = _forward(now_us, broker, sender, event, hops, 1, run) > 0 or enters
    if is_ours:
        brokers[broker, at.ACTIVE_US] = now_us
        if keep(now_us, broker, event, run) and style == at.PUSH and brokers[broker, at.DUE_US] == NEVER_US:
            wake(now_us, broker, run)
        if style != at.PUSH and not enters:
            on_numbers(now_us, broker, event, True, run)
    elif style == at.RECONCILE and brokers[broker, at.LOCALS]:
        heard(now_us, broker, run.events[event, at.ORIGIN], False, run)


@njit
def _on_entry(now_us, slot, entries, run):
    broker, event, sender = entries[slot, 2], entries[slot, 4], entries[slot, 5]
    run.state[ENTRY] += 1
    run.state[FLYING] -= 1
    run.counts[sender, PUBLISH, SENT] += 1
    run.counts[sender, PUBLISH, SENT_BYTES] += run.events[event, at.SIZE]
    run.counts[broker, PUBLISH, RECEIVED] += 1
    _on_event(now_us, broker, sender, event, 0, run)
    rearm(now_us, broker, run)


@njit
def _on_handed_out(now_us, broker, event, run):
    if run.flags[broker, event] & np.uint8(at.IS_SEEN):
        run.brokers[broker, at.TWICE] += 1
    elif _forward(now_us, broker, NONE, event, 0, 0, run):
        on_recovered(now_us, broker, event, run)
        run.brokers[broker, at.RECOVERED] += 1
    else:
        run.flags[broker, event] |= np.uint8(at.IS_SEEN)
        run.brokers[broker, at.NOT_OURS] += 1


@njit
def _on_message(now_us, kind, whose, a, b, c, run):
    """What brokers say about recovery."""
    more, links = run.more, run.links
    broker, sender = whose, c
    if kind <= at.PULL:
        broker, sender = links[whose, RECEIVER], links[whose, SENDER]
    take_in(now_us, broker, run)
    if kind == at.DIGEST:
        more[broker, at.DIGESTS, RECEIVED] += 1
        on_digest(now_us, broker, sender, a, b, c, run)
    elif kind == at.PULL:
        more[broker, at.PULLS, RECEIVED] += 1
        on_pull(now_us, broker, sender, a, b, c, run)
    elif kind == at.REQUEST:
        more[broker, at.REQUESTS, RECEIVED] += 1
        on_request(now_us, broker, a, run)
    elif kind == at.RECOVERED_EVENT:
        more[broker, at.EVENTS, RECEIVED] += 1
        _on_handed_out(now_us, broker, a, run)
    elif kind == at.VECTOR:
        more[broker, at.VECTORS, RECEIVED] += 1
        on_vector(now_us, broker, a, run)
    elif kind == at.COMPLETE:
        more[broker, at.COMPLETES, RECEIVED] += 1
        on_complete(now_us, broker, a, run)
    rearm(now_us, broker, run)


@njit
def what_is_full(needed, run):
    """What has to be made larger before the next thing may happen, whatever that is; DONE when nothing has.

    `needed` has the rows that one thing may take, of the arrays whose need does not change.
    """
    state = run.state
    if state[DICE_LOW]:
        return DICE
    met = state[at.MET_MAX]
    if (
        run.heap.shape[0] - state[COUNT] <= needed[0]
        or run.bodies.shape[0] - state[at.BODIES] <= needed[1]
        or run.arrived.shape[0] - state[ARRIVED] <= needed[2]
        or run.again.shape[0] - state[at.CAME_AGAIN] <= needed[2]
        or run.given_up.shape[0] - state[GIVEN_UP] <= run.brokers.shape[0]
        or run.lost.shape[0] - state[at.LOSTS] <= run.settings[at.LOST_MAX]
        or run.linked.shape[0] - state[at.LINKED] <= met
        or run.places.shape[0] - state[at.PLACES] <= met
        or run.numbers.shape[0] - state[at.NUMBERS] <= met * (8 + 2 * state[at.LONGEST])
    ):
        return FULL
    return DONE


@njit(cache=True)
def run_until(until, woken, entries, needed, arrays):
    """Let all happen before a time and turn; if it stops then, until all is settled. Returns why it ended.

    If the simulator has `woken` a broker, which comes with the time when it is due for something else, that is all.
    """
    run = held(arrays)
    until_us, turn, stops = until
    if woken[0] >= 0:
        _on_woken(until_us, woken[0], woken[1], run)
        return DONE
    state, heap = run.state, run.heap
    while True:
        full = what_is_full(needed, run)
        if full != DONE:
            return full
        entry = state[ENTRY]
        heap_us = heap[0, TIME_US] if state[COUNT] else NEVER_US
        entry_us = entries[entry, 0] if entry < entries.shape[0] else NEVER_US
        now_us, enters = min(heap_us, entry_us), entry_us < heap_us  # clients publish when all before is done
        if stops and now_us > state[NOW_US] and not state[FLYING] and all_settled(min(now_us, until_us), run):
            return LANDED
        if now_us > until_us or (now_us == until_us and (entries[entry, 1] if enters else heap[0, ORDER]) > turn):
            return DONE
        state[NOW_US] = now_us
        if enters:
            _on_entry(now_us, entry, entries, run)
            continue
        kind, whose, a, b, c = heap[0, KIND], heap[0, LINK], heap[0, A], heap[0, B], heap[0, C]
        drop_first(run)
        if kind == at.EVENT_ON_LINK:
            state[FLYING] -= 1
            broker, sender = run.links[whose, RECEIVER], run.links[whose, SENDER]
            run.counts[broker, PUBLISH, RECEIVED] += 1
            _on_event(now_us, broker, sender, a, b, run)
            rearm(now_us, broker, run)
        elif kind == at.ROUND:
            if run.brokers[whose, at.WAKE_US] == a:
                run.brokers[whose, at.WAKE_US] = NONE
                on_round(now_us, whose, run)
                rearm(now_us, whose, run)
        else:
            _on_message(now_us, kind, whose, a, b, c, run)

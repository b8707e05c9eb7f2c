"""Links that repair their own losses, as rows of numbers and compiled by numba: for sim/numbered_flights.py.

The machines of `hops = "nack"` (a sender and a receiver for each direction of each link) have few numbers each. Where
nothing but events, requests and timers touches them, a run keeps these numbers in arrays and takes the same steps as
the machines, in the same order. The machines are the reference: tests/sim/test_numbered_express.py runs both.
"""

import numpy as np

from holdfast.model.limits import MISSING_MAX
from holdfast.protocol.hops.settings import ANNOUNCED, BACKOFF, FORGOTTEN_MAX
from holdfast.sim.flights import DELAY_US, JITTER_US, LOSS, REORDER, arrival_us
from holdfast.sim.held import njit
from holdfast.sim.links import REORDERED_MAX
from holdfast.sim.numbered_state import (
    AGAIN_BIT,
    ANNOUNCEMENTS,
    ANSWER_US,
    ASKED_US,
    BACK,
    BEATS,
    BEGUN,
    BUSY,
    COUNT,
    DICE_BLOCK,
    DICE_LOW,
    DICE_MARGIN,
    DUE_US,
    EDGE,
    FIRST_BIT,
    FIRST_HOLE,
    FIRST_WAIT_US,
    FLYING,
    FREE_HOLE,
    GIVEN_UP,
    HIGHEST,
    HIGHEST_BYTES,
    HIGHEST_SENT,
    HIGHESTS,
    HOLE_COUNT,
    HOLE_DUE_US,
    HOLE_SEQ,
    HOLES,
    HOPS_SHIFT,
    IDLE_US,
    KIND,
    LAST_BIT,
    LAST_HOLE,
    LINK,
    LOSSY_CONTROL,
    LOST,
    LOST_COUNT,
    NACK,
    NACK_BYTES,
    NACKS,
    NEXT_HOLE,
    NONE,
    NOTICED_US,
    NUMBERED,
    NUMBERED_BYTES,
    ORDER,
    ORDERS,
    PATIENCE_US,
    RECEIVER,
    RECEIVER_DUE_US,
    RESENT,
    RING,
    RING_EVENT,
    RING_FLAGS,
    RING_KEY,
    RING_SIZE,
    SENDER,
    SENDER_BUSY,
    SENDER_DUE_US,
    SENT,
    SENT_BYTES,
    SENT_US,
    SEQ,
    SLACK_US,
    STREAM,
    TIME_US,
    TRIES,
    TRIES_MAX,
    VARIES_US,
    VIA_BIT,
    VIA_BYTES,
    WAIT_MAX_US,
    A,
    B,
    C,
)


@njit(forceinline=True)
def bytes_of_count(count):
    if count < 2**16:
        return 3 if count >= 2**8 else 2 if count >= 2**7 else 1
    return 5 if count < 2**32 else 9


# The heap ----------------------------------------------------------------------------------------------


@njit(forceinline=True)
def push(time_us, kind, link, a, b, c, run):
    """There is room: whoever lets things happen sees to that."""
    heap, state = run.heap, run.state
    at = state[COUNT]
    state[COUNT] += 1
    state[ORDERS] += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[above, TIME_US] <= time_us:  # an equal one was there before
            break
        for column in range(7):
            heap[at, column] = heap[above, column]
        at = above
    heap[at, TIME_US] = time_us
    heap[at, ORDER] = state[ORDERS]
    heap[at, KIND] = kind
    heap[at, LINK] = link
    heap[at, A] = a
    heap[at, B] = b
    heap[at, C] = c


@njit(forceinline=True)
def drop_first(run):
    heap, state = run.heap, run.state
    last = state[COUNT] - 1
    state[COUNT] = last
    time_us, order, at = heap[last, TIME_US], heap[last, ORDER], 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        right = below + 1
        if right < last and (
            heap[right, TIME_US] < heap[below, TIME_US]
            or (heap[right, TIME_US] == heap[below, TIME_US] and heap[right, ORDER] < heap[below, ORDER])
        ):
            below = right
        if time_us < heap[below, TIME_US] or (time_us == heap[below, TIME_US] and order < heap[below, ORDER]):
            break
        for column in range(7):
            heap[at, column] = heap[below, column]
        at = below
    for column in range(7):
        heap[at, column] = heap[last, column]


# Sending -----------------------------------------------------------------------------------------------


@njit
def _draw(link, run):
    state, dice, drawn = run.state, run.dice, run.drawn
    number = dice[link, drawn[link]]
    drawn[link] += 1
    if drawn[link] > DICE_BLOCK - DICE_MARGIN:
        state[DICE_LOW] = 1
    return number


@njit
def control_arrival_us(now_us, link, edge, is_lossy, run):
    """Send what carries no event: when it arrives, or -1. Its luck is that of the link, one number after the other."""
    odds = run.odds
    if is_lossy and odds[edge, LOSS] > 0.0 and _draw(link, run) < odds[edge, LOSS]:
        return -1
    delay_us = odds[edge, DELAY_US]
    if odds[edge, JITTER_US] > 0.0:
        delay_us += np.int64((2.0 * _draw(link, run) - 1.0) * odds[edge, JITTER_US])
    if odds[edge, REORDER] > 0.0 and _draw(link, run) < odds[edge, REORDER]:
        delay_us += np.int64(_draw(link, run) * REORDERED_MAX * odds[edge, DELAY_US])
    return now_us + max(np.int64(delay_us), 0)


@njit(forceinline=True)
def transmit(now_us, link, seq, again, run):
    """Put what the ring has under this number on the link, for the first time or again."""
    state, links, ring, outstanding, counts = run.state, run.links, run.ring, run.outstanding, run.counts
    more, settings, odds, edge_keys = run.more, run.settings, run.odds, run.keys
    slot, edge, node = seq % settings[RING], links[link, EDGE], links[link, SENDER]
    event, flags = ring[link, slot, RING_EVENT], ring[link, slot, RING_FLAGS]
    hops = flags >> HOPS_SHIFT
    size = ring[link, slot, RING_SIZE] + settings[NUMBERED_BYTES] + (flags & VIA_BIT) * settings[VIA_BYTES]
    size += bytes_of_count(hops) - 1 + bytes_of_count(links[link, STREAM]) + bytes_of_count(seq)
    if again:
        more[node, RESENT, SENT] += 1
        more[node, RESENT, SENT_BYTES] += size
    else:
        counts[node, 0, SENT] += 1
        counts[node, 0, SENT_BYTES] += size
    arrives_us = arrival_us(now_us, np.uint64(ring[link, slot, RING_KEY]), edge, edge_keys[edge], odds)
    if arrives_us < 0:
        if again:
            more[node, RESENT, LOST_COUNT] += 1
        else:
            counts[node, 0, LOST_COUNT] += 1
        return
    if event >= 0:
        outstanding[event] += 1
    state[FLYING] += 1
    push(arrives_us, NUMBERED, link, event, seq, flags | (AGAIN_BIT if again else 0), run)


@njit
def announce(now_us, link, run):
    """Say what the last number was, and the first that is still kept."""
    links, more, settings = run.links, run.more, run.settings
    seq, node, edge = links[link, SEQ], links[link, SENDER], links[link, EDGE]
    first = max(1, seq - settings[RING] + 1)
    size = settings[HIGHEST_BYTES] + bytes_of_count(links[link, STREAM]) + bytes_of_count(seq) + bytes_of_count(first)
    more[node, HIGHESTS, SENT] += 1
    more[node, HIGHESTS, SENT_BYTES] += size
    arrives_us = control_arrival_us(now_us, link, edge, settings[LOSSY_CONTROL], run)
    if arrives_us < 0:
        more[node, HIGHESTS, LOST_COUNT] += 1
    else:
        push(arrives_us, HIGHEST_SENT, link, seq, first, 0, run)


@njit(forceinline=True)
def _note_sender(link, run):
    """Whether the receiver still has to be told how far the sender has got."""
    state, links = run.state, run.links
    is_busy = links[link, SENDER_DUE_US] >= 0 and links[link, ANNOUNCEMENTS] < ANNOUNCED
    state[BUSY] += is_busy - links[link, SENDER_BUSY]
    links[link, SENDER_BUSY] = is_busy


@njit(forceinline=True)
def number(now_us, link, event, key, size, flags, run):
    """Give an event the next number of a link and keep it there."""
    links, ring, brokers, outstanding, settings = run.links, run.ring, run.brokers, run.outstanding, run.settings
    row = links[link]
    if row[STREAM] < 0:
        row[STREAM] = now_us
    row[SEQ] += 1
    kept = ring[link, row[SEQ] % settings[RING]]
    if row[SEQ] > settings[RING] and kept[RING_EVENT] >= 0:
        outstanding[kept[RING_EVENT]] -= 1
    kept[RING_KEY], kept[RING_EVENT], kept[RING_SIZE], kept[RING_FLAGS] = np.int64(key), event, size, flags
    outstanding[event] += 1
    row[SENT_US] = now_us
    if row[ANNOUNCEMENTS] or row[SENDER_DUE_US] < 0:
        row[ANNOUNCEMENTS] = 0
        row[SENDER_DUE_US] = now_us + settings[IDLE_US]
        _note_sender(link, run)
    brokers[row[SENDER], DUE_US] = min(brokers[row[SENDER], DUE_US], row[SENDER_DUE_US])
    return row[SEQ]


@njit
def on_idle(now_us, link, run):
    """The timer of a sender: after a silence it repeats its last number, each time after twice as long."""
    links, settings = run.links, run.settings
    row = links[link]
    if row[SENDER_DUE_US] < 0 or now_us < row[SENDER_DUE_US]:
        return
    idle_us = settings[IDLE_US] << row[ANNOUNCEMENTS]
    if now_us - row[SENT_US] < idle_us:
        row[SENDER_DUE_US] = row[SENT_US] + idle_us
        return
    row[ANNOUNCEMENTS] += 1
    row[SENT_US] = now_us
    row[SENDER_DUE_US] = now_us + 2 * idle_us if row[ANNOUNCEMENTS] < settings[BEATS] else NONE
    _note_sender(link, run)
    announce(now_us, link, run)


# Receiving ---------------------------------------------------------------------------------------------


@njit(forceinline=True)
def arrived_or_given_up(link, seq, run):
    """Nobody waits for this copy any more; the sender may have forgotten it already."""
    links, ring, outstanding, settings = run.links, run.ring, run.outstanding, run.settings
    if links[link, SEQ] - settings[RING] < seq <= links[link, SEQ]:
        kept = ring[link, seq % settings[RING]]
        if kept[RING_EVENT] >= 0:
            outstanding[kept[RING_EVENT]] -= 1
            kept[RING_EVENT] = NONE


@njit
def _take_hole(link, before, hole, run):
    """Take a hole out of the list of its link; `before` is the one before it, or NONE."""
    state, links, holes = run.state, run.links, run.holes
    after = holes[hole, NEXT_HOLE]
    if before < 0:
        links[link, FIRST_HOLE] = after
    else:
        holes[before, NEXT_HOLE] = after
    if after < 0:
        links[link, LAST_HOLE] = before
    links[link, HOLE_COUNT] -= 1
    holes[hole, NEXT_HOLE] = state[FREE_HOLE]
    state[FREE_HOLE] = hole
    state[HOLES] -= 1
    if links[link, HOLE_COUNT] == 0:
        state[BUSY] -= 1


@njit
def _give_up(link, before, hole, run):
    links, holes = run.links, run.holes
    arrived_or_given_up(link, holes[hole, HOLE_SEQ], run)
    _take_hole(link, before, hole, run)
    links[link, LOST] += 1


@njit
def _open(now_us, link, last, run):
    """All between the highest number and this one are missing; what the sender cannot have any more is lost."""
    state, links, holes, settings = run.state, run.links, run.holes, run.settings
    row = links[link]
    first = max(row[HIGHEST] + 1, last + 1 - settings[RING])
    row[LOST] += first - row[HIGHEST] - 1
    for _ in range(row[HOLE_COUNT] + last + 1 - first - settings[RING]):
        if row[HOLE_COUNT] > 0:
            _give_up(link, NONE, row[FIRST_HOLE], run)
    due_us = now_us + row[PATIENCE_US]
    for seq in range(first, last + 1):
        hole = state[FREE_HOLE]
        state[FREE_HOLE] = holes[hole, NEXT_HOLE]
        state[HOLES] += 1
        holes[hole, HOLE_SEQ], holes[hole, NOTICED_US], holes[hole, HOLE_DUE_US] = seq, now_us, due_us
        holes[hole, ASKED_US], holes[hole, TRIES], holes[hole, NEXT_HOLE] = 0, 0, NONE
        if row[HOLE_COUNT] == 0:
            row[FIRST_HOLE] = hole
            state[BUSY] += 1
        else:
            holes[row[LAST_HOLE], NEXT_HOLE] = hole
        row[LAST_HOLE] = hole
        row[HOLE_COUNT] += 1
    row[RECEIVER_DUE_US] = due_us if row[RECEIVER_DUE_US] < 0 else min(row[RECEIVER_DUE_US], due_us)


@njit
def _learn(now_us, link, hole, again, run):
    links, answers, holes = run.links, run.answers, run.holes
    row = links[link]
    if not again:
        row[PATIENCE_US] = max(row[PATIENCE_US], now_us - holes[hole, NOTICED_US])
        return
    row[PATIENCE_US] -= row[PATIENCE_US] >> 3
    if holes[hole, TRIES] == 1:
        took_us = np.float64(now_us - holes[hole, ASKED_US])
        if answers[link, ANSWER_US] < 0.0:
            answers[link, ANSWER_US], answers[link, VARIES_US] = took_us, took_us / 2
        else:
            varies_us = answers[link, VARIES_US]
            answers[link, VARIES_US] = varies_us + (abs(took_us - answers[link, ANSWER_US]) - varies_us) / 4
            answers[link, ANSWER_US] += (took_us - answers[link, ANSWER_US]) / 8


@njit(forceinline=True)
def _begin(link, seq, run):
    links = run.links
    if not links[link, BEGUN]:
        links[link, BEGUN] = 1
        links[link, HIGHEST] = 0 if seq < FORGOTTEN_MAX else seq


@njit(forceinline=True)
def on_numbered(now_us, link, seq, again, run):
    """Whether it is new."""
    links, holes = run.links, run.holes
    row = links[link]
    _begin(link, seq - 1, run)
    if seq > row[HIGHEST]:
        if seq > row[HIGHEST] + 1:
            _open(now_us, link, seq - 1, run)
        row[HIGHEST] = seq
        return True
    before, hole = NONE, row[FIRST_HOLE] if row[HOLE_COUNT] else NONE
    while hole >= 0 and holes[hole, HOLE_SEQ] != seq:
        before, hole = hole, holes[hole, NEXT_HOLE]
    if hole < 0:
        return False
    _learn(now_us, link, hole, again, run)
    _take_hole(link, before, hole, run)
    return True


@njit
def on_highest(now_us, link, seq, first_kept, run):
    links, holes = run.links, run.holes
    row = links[link]
    _begin(link, seq, run)
    if seq > row[HIGHEST]:
        _open(now_us, link, seq, run)
        row[HIGHEST] = seq
    before, hole = NONE, row[FIRST_HOLE] if row[HOLE_COUNT] else NONE
    while hole >= 0:
        after = holes[hole, NEXT_HOLE]
        if holes[hole, HOLE_SEQ] < first_kept:
            _give_up(link, before, hole, run)
        else:
            before = hole
        hole = after


@njit
def _wait_us(link, tries, run):
    answers, settings = run.answers, run.settings
    wait_us = np.float64(settings[FIRST_WAIT_US])
    if answers[link, ANSWER_US] >= 0.0:
        wait_us = answers[link, ANSWER_US] + max(4 * answers[link, VARIES_US], np.float64(settings[SLACK_US]))
    return np.int64(min(wait_us * BACKOFF**tries, np.float64(settings[WAIT_MAX_US])))


@njit
def ask(now_us, link, run):
    """Ask for all that it is time to ask for, and note what is given up."""
    state, links, brokers, lost = run.state, run.links, run.brokers, run.given_up
    row = links[link]
    if row[RECEIVER_DUE_US] >= 0:
        if row[RECEIVER_DUE_US] <= now_us:
            _ask_due(now_us, link, run)
        if row[RECEIVER_DUE_US] >= 0:
            brokers[row[RECEIVER], DUE_US] = min(brokers[row[RECEIVER], DUE_US], row[RECEIVER_DUE_US])
    if row[LOST]:
        at = state[GIVEN_UP]
        lost[at, 0], lost[at, 1], lost[at, 2] = now_us, row[EDGE], row[LOST]
        state[GIVEN_UP] += 1
        row[LOST] = 0


@njit
def _ask_due(now_us, link, run):
    links, holes, counts, more, settings = run.links, run.holes, run.counts, run.more, run.settings
    row = links[link]
    before, hole = NONE, row[FIRST_HOLE] if row[HOLE_COUNT] else NONE
    while hole >= 0:
        after = holes[hole, NEXT_HOLE]
        if holes[hole, HOLE_DUE_US] <= now_us and holes[hole, TRIES] >= settings[TRIES_MAX]:
            _give_up(link, before, hole, run)
        else:
            before = hole
        hole = after
    due, hole = 0, row[FIRST_HOLE] if row[HOLE_COUNT] else NONE
    while hole >= 0:
        due += holes[hole, HOLE_DUE_US] <= now_us
        hole = holes[hole, NEXT_HOLE]
    asked, back, arrives_us = min(due, MISSING_MAX), row[BACK], NONE
    if asked:
        edge = links[back, EDGE]
        arrives_us = control_arrival_us(now_us, back, edge, settings[LOSSY_CONTROL], run)
    left, bytes_, due_us = asked, 0, NONE
    hole = row[FIRST_HOLE] if row[HOLE_COUNT] else NONE
    while hole >= 0:
        if left and holes[hole, HOLE_DUE_US] <= now_us:
            holes[hole, HOLE_DUE_US] = now_us + _wait_us(link, holes[hole, TRIES], run)
            holes[hole, ASKED_US] = now_us
            holes[hole, TRIES] += 1
            bytes_ += bytes_of_count(holes[hole, HOLE_SEQ])
            if arrives_us >= 0:
                flags = (FIRST_BIT if left == asked else 0) | (LAST_BIT if left == 1 else 0)
                push(arrives_us, NACK, back, holes[hole, HOLE_SEQ], 0, flags, run)
            left -= 1
        due_us = holes[hole, HOLE_DUE_US] if due_us < 0 else min(due_us, holes[hole, HOLE_DUE_US])
        hole = holes[hole, NEXT_HOLE]
    row[RECEIVER_DUE_US] = due_us
    if asked:
        counts = more[row[RECEIVER], NACKS]
        counts[SENT] += 1
        counts[SENT_BYTES] += settings[NACK_BYTES] + bytes_of_count(row[STREAM]) + (1 if asked < 16 else 3) + bytes_
        counts[LOST_COUNT] += arrives_us < 0

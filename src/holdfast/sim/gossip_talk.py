"""What brokers that gossip say to each other, and which way it goes, compiled by numba: beside sim/gossip_memory.py.

What a message tells lies in a pool. It never changes, so whoever passes it on as it is shares it.
"""

import numpy as np

from holdfast.sim import gossip_state as at
from holdfast.sim.flights import PUBLISH, arrival_us
from holdfast.sim.gossip_memory import bytes_of_head, event_with, has
from holdfast.sim.held import njit
from holdfast.sim.links import BYTES_PER_S, FREE_US, QUEUE_MAX
from holdfast.sim.numbered_links import bytes_of_count, control_arrival_us, push
from holdfast.sim.numbered_state import (
    DICE_BLOCK,
    DICE_LOW,
    DICE_MARGIN,
    EDGE,
    FLYING,
    LOST_COUNT,
    NONE,
    RECEIVER,
    SENDER,
    SENT,
    SENT_BYTES,
)

_ONE = np.uint64(1)


@njit
def draw(broker, run):
    """A random number of a broker's own."""
    row, state, drawn = run.links.shape[0] + broker, run.state, run.drawn
    number = run.dice[row, drawn[row]]
    drawn[row] += 1
    if drawn[row] > DICE_BLOCK - DICE_MARGIN:
        state[DICE_LOW] = 1
    return number


# Sending -----------------------------------------------------------------------------------------------


@njit(forceinline=True)
def _leaves_us(now_us, link, size, run):
    """When the last byte has left, as `SimLink` has it; NONE when too many messages wait already."""
    line = run.lines[link]
    if not line[BYTES_PER_S]:
        return now_us
    sending_us = max(1, size * 1_000_000 // line[BYTES_PER_S])
    waiting_us = max(0, line[FREE_US] - now_us)
    if waiting_us > sending_us * line[QUEUE_MAX]:
        return NONE
    line[FREE_US] = now_us + waiting_us + sending_us
    return line[FREE_US]


@njit(forceinline=True)
def send_event(now_us, link, event, hops, run):
    """An event that has passed so many brokers, with its stamp and its way where the style has them."""
    events, links, counts, settings = run.events, run.links, run.counts, run.settings
    node, edge, size = links[link, SENDER], links[link, EDGE], events[event, at.SIZE] + bytes_of_count(hops) - 1
    if settings[at.STYLE] != at.PUSH:
        size += events[event, at.STAMP_BYTES] + 1
    if settings[at.STYLE] == at.PUBLISHER or settings[at.STYLE] == at.COMBINED:
        size += bytes_of_head(hops) - 1 + run.ways[events[event, at.ORIGIN], node, at.NAMES_BYTES]
    counts[node, PUBLISH, SENT] += 1
    counts[node, PUBLISH, SENT_BYTES] += size
    run.link_bytes[link, at.OF_EVENTS] += size
    leaves_us = arrives_us = _leaves_us(now_us, link, size, run)
    if leaves_us >= 0:
        arrives_us = arrival_us(now_us, np.uint64(events[event, at.KEY]), edge, run.keys[edge], run.odds)
    if arrives_us < 0:
        counts[node, PUBLISH, LOST_COUNT] += 1
        return
    run.state[FLYING] += 1
    push(arrives_us + leaves_us - now_us, at.EVENT_ON_LINK, link, event, hops, 0, run)


@njit
def _send(now_us, link, row, size, what, run):
    """A message about recovery, over a link."""
    node, counts = run.links[link, SENDER], run.more
    counts[node, row, SENT] += 1
    counts[node, row, SENT_BYTES] += size
    run.link_bytes[link, at.OF_RECOVERY] += size
    arrives_us = _leaves_us(now_us, link, size, run)
    if arrives_us >= 0:
        arrives_us = control_arrival_us(arrives_us, link, run.links[link, EDGE], 1, run)
    if arrives_us < 0:
        counts[node, row, LOST_COUNT] += 1
    else:
        kind, body, to, hops = what
        push(arrives_us, kind, link, body, to, hops, run)


@njit
def unicast(now_us, broker, to, row, size, what, run):
    """One past the links: it takes a while and arrives."""
    run.more[broker, row, SENT] += 1
    run.more[broker, row, SENT_BYTES] += size
    kind, a, b = what
    push(now_us + run.settings[at.TRANSFER_US], kind, to, a, b, broker, run)


@njit
def _size_of_digest(body, class_, hops, run):
    size = run.settings[at.DIGEST_BYTES] + run.name_bytes[run.bodies[body + at.BEGUN_BY]] + run.tag_bytes[class_]
    return size + run.bodies[body + at.BODY_BYTES] + bytes_of_count(hops)


@njit
def _size_of_pull(body, tag_bytes, hops, run):
    size = run.settings[at.PULL_BYTES] + run.name_bytes[run.bodies[body + at.BEGUN_BY]] + tag_bytes
    return size + run.bodies[body + at.BODY_BYTES] + bytes_of_count(hops)


@njit
def send_on(now_us, broker, kind, body, class_, hops, sender, run):
    """To each neighbour behind which the class is wanted, with the probability for it; to how many."""
    wanted, width = run.wanted, run.order.shape[1]
    sent = 0
    if run.classes[broker * width + class_, at.BEGAN_US] < 0 or hops > run.settings[at.HOPS_LIMIT]:
        return sent
    row, size = at.DIGESTS, 0
    if kind == at.DIGEST:
        size = _size_of_digest(body, class_, hops + 1, run)
    else:
        row, size = at.PULLS, _size_of_pull(body, run.tag_bytes[class_], hops + 1, run) + 1
    for word in range(wanted.shape[2]):
        places, place = wanted[broker, class_, word], word * 64
        while places:
            if places & _ONE:
                edge = run.place_edges[broker, place]
                to = run.receivers[edge]
                if not run.is_client[to] and to != sender and draw(broker, run) < run.chances[at.FORWARD]:
                    _send(now_us, run.link_of[edge], row, size, (kind, body, class_, hops + 1), run)
                    sent += 1
            places >>= _ONE
            place += 1
    return sent


@njit
def send_along(now_us, broker, body, origin, hops, run):
    """A pull, to the next broker on the way to an origin."""
    link = run.ways[origin, broker, at.TOWARDS]
    to = run.links[link, RECEIVER]
    left = run.ways[origin, to, at.DISTANCE]
    names = run.ways[origin, to, at.NAMES_BYTES] - run.name_bytes[to]
    size = _size_of_pull(body, 1, hops, run) + bytes_of_head(left) + names
    _send(now_us, link, at.PULLS, size, (at.PULL, body, at.ANYBODY - 1 - origin, hops), run)


@njit
def send_to_anybody(now_us, broker, body, hops, sender, run):
    first, last = run.starts[broker], run.starts[broker + 1]
    others = last - first
    for slot in range(first, last):
        others -= run.links[run.outwards[slot], RECEIVER] == sender
    if not others or hops > run.settings[at.HOPS_LIMIT]:
        return 0
    chosen = np.int64(draw(broker, run) * others)
    for slot in range(first, last):
        link = run.outwards[slot]
        if run.links[link, RECEIVER] != sender:
            if not chosen:
                size = _size_of_pull(body, 1, hops + 1, run) + 1
                _send(now_us, link, at.PULLS, size, (at.PULL, body, at.ANYBODY, hops + 1), run)
                break
            chosen -= 1
    return 1


@njit
def hand_out(now_us, broker, to, event, run):
    size = run.settings[at.EVENT_BYTES] + run.events[event, at.SIZE]
    size += 1 if run.settings[at.STYLE] == at.PUSH else run.events[event, at.STAMP_BYTES]
    unicast(now_us, broker, to, at.EVENTS, size, (at.RECOVERED_EVENT, event, 0), run)


@njit
def say_complete(now_us, broker, to, run):
    size = run.settings[at.COMPLETE_BYTES] + run.name_bytes[broker]
    unicast(now_us, broker, to, at.COMPLETES, size, (at.COMPLETE, broker, 0), run)


# What is told ------------------------------------------------------------------------------------------


@njit
def begin_body(broker, run):
    body = run.state[at.BODIES]
    run.bodies[body + at.BODY_SIZE] = at.BODY_HEAD
    run.bodies[body + at.BEGUN_BY], run.bodies[body + at.BODY_BYTES], run.bodies[body + at.ENTRIES] = broker, 0, 0
    return body


@njit(forceinline=True)
def put(body, value, run):
    run.bodies[body + run.bodies[body + at.BODY_SIZE]] = value
    run.bodies[body + at.BODY_SIZE] += 1


@njit
def end_body(body, run):
    """It is complete; without it, the pool is as it was."""
    run.bodies[body + at.BODY_BYTES] += bytes_of_head(run.bodies[body + at.ENTRIES])
    run.state[at.BODIES] = body + run.bodies[body + at.BODY_SIZE]


@njit
def body_of_ids(broker, count, run):
    """Of so many events in `scratch`: by source, sources as they come first. Their names and numbers are told."""
    events, scratch = run.events, run.scratch
    body = begin_body(broker, run)
    first = done = heads = 0
    while done < count:
        while scratch[first] < 0:
            first += 1
        source, of_source = events[scratch[first], at.SOURCE], 0
        for slot in range(first, count):
            event = scratch[slot]
            if event >= 0 and events[event, at.SOURCE] == source:
                put(body, event, run)
                run.bodies[body + at.BODY_BYTES] += bytes_of_count(events[event, at.SEQ_OF])
                scratch[slot] = NONE
                of_source += 1
        run.bodies[body + at.BODY_BYTES] += 1 + run.name_bytes[source] + bytes_of_head(of_source)
        heads += 1
        done += of_source
    run.bodies[body + at.BODY_BYTES] += bytes_of_head(heads)
    run.state[at.BODIES] = body + run.bodies[body + at.BODY_SIZE]
    return body


@njit
def body_of_missing(broker, first, by_tag, count_max, run):
    """What is lost of some streams, from this one on by class or by origin."""
    streams, lost, owns, brokers = run.streams, run.lost, run.own.shape[1], run.brokers.shape[0]
    body, stream = begin_body(broker, run), first
    while stream >= 0 and count_max > 0:
        origin, class_ = stream // owns % brokers, run.own[broker, stream % owns]
        count, number = streams[stream, at.COUNT_LOST], streams[stream, at.FIRST]
        for _ in range(count - count_max):
            number, count = lost[number, at.AFTER_LOST], count - 1
        put(body, origin, run)
        put(body, class_, run)
        put(body, count, run)
        run.bodies[body + at.BODY_BYTES] += 2 + run.name_bytes[origin] + run.tag_bytes[class_] + bytes_of_head(count)
        while number >= 0:
            put(body, lost[number, at.NUMBER], run)
            run.bodies[body + at.BODY_BYTES] += bytes_of_count(lost[number, at.NUMBER])
            number = lost[number, at.AFTER_LOST]
        run.bodies[body + at.ENTRIES] += 1
        count_max -= count
        stream = streams[stream, at.NEXT_OF_TAG] if by_tag else streams[stream, at.NEXT_OF_ORIGIN]
    end_body(body, run)
    return body


@njit
def hand_out_missing(now_us, broker, body, run):
    """Hand out what is kept of what a pull asks for, each event once; what is left to ask for, or NONE."""
    state, bodies, events, width = run.state, run.bodies, run.events, run.order.shape[1]
    to, slot, end = bodies[body + at.BEGUN_BY], body + at.BODY_HEAD, body + bodies[body + at.BODY_SIZE]
    state[at.TOKEN] += 1
    found = 0
    while slot < end:
        row, count = bodies[slot] * width + bodies[slot + 1], bodies[slot + 2]
        for place in range(slot + 3, slot + 3 + count):
            event = event_with(row, bodies[place], run)
            if has(broker, event, run):
                found += 1
                if events[event, at.MARK] != state[at.TOKEN]:
                    events[event, at.MARK] = state[at.TOKEN]
                    hand_out(now_us, broker, to, event, run)
        slot += 3 + count
    if not found:
        return body
    left, slot = begin_body(to, run), body + at.BODY_HEAD
    while slot < end:
        row, count = bodies[slot] * width + bodies[slot + 1], bodies[slot + 2]
        head = left + bodies[left + at.BODY_SIZE]
        kept = 0
        for place in range(slot + 3, slot + 3 + count):
            if not has(broker, event_with(row, bodies[place], run), run):
                if not kept:
                    put(left, bodies[slot], run)
                    put(left, bodies[slot + 1], run)
                    put(left, 0, run)
                put(left, bodies[place], run)
                bodies[left + at.BODY_BYTES] += bytes_of_count(bodies[place])
                kept += 1
        if kept:
            bodies[head + 2] = kept
            names = run.name_bytes[bodies[slot]] + run.tag_bytes[bodies[slot + 1]]
            bodies[left + at.BODY_BYTES] += 2 + names + bytes_of_head(kept)
            bodies[left + at.ENTRIES] += 1
        slot += 3 + count
    if not bodies[left + at.ENTRIES]:
        return NONE
    end_body(left, run)
    return left

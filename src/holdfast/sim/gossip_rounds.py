"""Rounds of gossip and the answers to what is said in them, compiled by numba: the styles, and who is asked next.

The machines are the reference: `protocol/gossip`, in `styles`, `reconciling` and `gossip`.
"""

import numpy as np

from holdfast.protocol.gossip.settings import UNSURE as ASKED_WHEN_UNSURE
from holdfast.sim import gossip_state as at
from holdfast.sim.gossip_memory import bytes_of_head, count_in, drop_older, event_with, give_up_old, has, keep, take_in
from holdfast.sim.gossip_talk import (
    begin_body,
    body_of_ids,
    body_of_missing,
    draw,
    hand_out,
    hand_out_missing,
    put,
    say_complete,
    send_along,
    send_on,
    send_to_anybody,
    unicast,
)
from holdfast.sim.held import njit
from holdfast.sim.numbered_links import bytes_of_count
from holdfast.sim.numbered_state import GIVEN_UP, NEVER_US, NONE

_STEPS_MAX = 16  # waits are doubled no more often


@njit(forceinline=True)
def wake(now_us, broker, run):
    """The next round, in the rhythm that this broker has always had."""
    brokers = run.brokers
    interval_us = run.settings[at.INTERVAL_US] * brokers[broker, at.STRETCH]
    brokers[broker, at.DUE_US] = now_us + interval_us - (now_us - brokers[broker, at.PHASE_US]) % interval_us


# Partners, for `reconcile` -----------------------------------------------------------------------------


@njit
def _set_open(broker, origin, is_open, run):
    row = run.origins[broker * run.brokers.shape[0] + origin]
    run.brokers[broker, at.OPEN] += is_open - row[at.IS_OPEN]
    row[at.IS_OPEN] = is_open


@njit
def heard(now_us, broker, origin, missing, run):
    """An event of this origin has passed; whether others of it are known to be missing."""
    settings, row = run.settings, run.origins[broker * run.brokers.shape[0] + origin]
    if not row[at.PARTNER]:
        row[at.PARTNER], row[at.PARTNER_DUE_US] = 1, NEVER_US
    row[at.HEARD_US], row[at.WAIT_US], row[at.SILENCES] = now_us, settings[at.SYNC_US], 0
    _set_open(broker, origin, 1, run)
    if missing and not row[at.MISSING]:
        row[at.MISSING], row[at.TRIES_OF] = 1, 0
        row[at.PARTNER_DUE_US] = now_us
    elif row[at.PARTNER_DUE_US] == NEVER_US:
        row[at.PARTNER_DUE_US] = now_us + row[at.WAIT_US]


@njit
def _brought(now_us, broker, origin, run):
    """An event has come from there on our request: what else is missing is worth asking for soon."""
    row = run.origins[broker * run.brokers.shape[0] + origin]
    if row[at.PARTNER] and row[at.MISSING] and row[at.TRIES_OF] > 1:
        row[at.TRIES_OF] = 1
        row[at.PARTNER_DUE_US] = min(row[at.PARTNER_DUE_US], now_us + run.settings[at.RETRY_US])


@njit
def on_complete(now_us, broker, origin, run):
    row = run.origins[broker * run.brokers.shape[0] + origin]
    if not row[at.PARTNER] or not row[at.SILENCES]:
        return
    _set_open(broker, origin, 0, run)
    row[at.SILENCES] = 0
    row[at.WAIT_US] *= 4
    row[at.PARTNER_DUE_US] = now_us + row[at.WAIT_US] if row[at.WAIT_US] <= run.settings[at.SYNC_MAX_US] else NEVER_US


@njit
def _next_partner(broker, run):
    """The origin that is due first, and when."""
    count, origins, ranks = run.brokers.shape[0], run.origins, run.ranks
    found, due_us = NONE, NEVER_US
    for origin in range(count):
        row = broker * count + origin
        if origins[row, at.PARTNER] and origins[row, at.PARTNER_DUE_US] != NEVER_US:
            this_us = origins[row, at.PARTNER_DUE_US]
            if this_us < due_us or (this_us == due_us and ranks[origin] < ranks[found]):
                found, due_us = origin, this_us
    return found, due_us


@njit
def _retry_us(tries, run):
    return min(run.settings[at.RETRY_US] << min(tries, _STEPS_MAX), run.settings[at.RETRY_MAX_US])


@njit
def _take_partner(now_us, broker, origin, run):
    """Whether the origin, which is due, gets a vector; and how many before it were in vain."""
    settings, row = run.settings, run.origins[broker * run.brokers.shape[0] + origin]
    row[at.MISSING] = row[at.FIRST_STREAM] >= 0
    if row[at.MISSING]:
        tries = row[at.TRIES_OF]
        row[at.PARTNER_DUE_US] = now_us + _retry_us(tries, run)
        row[at.TRIES_OF] += 1
        return True, tries
    if row[at.UNSURE_TIMES]:
        row[at.UNSURE_TIMES] -= 1
        row[at.PARTNER_DUE_US] = now_us + settings[at.RETRY_US]
        return True, 0
    if now_us - row[at.HEARD_US] < settings[at.SYNC_US]:
        row[at.PARTNER_DUE_US] = row[at.HEARD_US] + settings[at.SYNC_US]
        return False, 0
    if row[at.SILENCES] < settings[at.SYNC_TRIES]:
        row[at.PARTNER_DUE_US] = now_us + _retry_us(row[at.SILENCES], run)
        row[at.SILENCES] += 1
    else:
        _set_open(broker, origin, 0, run)
        row[at.PARTNER_DUE_US] = NEVER_US
    return True, 0


@njit
def _ask_origin(now_us, broker, origin, run):
    """Tell an origin how far we have got with its events."""
    streams, lost, settings, owns = run.streams, run.lost, run.settings, run.own.shape[1]
    body = begin_body(broker, run)
    bytes_ = bytes_of_head(run.brokers[broker, at.LOCALS])
    for own in range(run.brokers[broker, at.LOCALS]):
        stream, class_ = (broker * run.brokers.shape[0] + origin) * owns + own, run.own[broker, own]
        number = streams[stream, at.NEXT]
        if number and streams[stream, at.UNSURE]:
            streams[stream, at.UNSURE] -= 1
            number = 0
        count = streams[stream, at.COUNT_LOST]
        each = streams[stream, at.FIRST] if count else NONE
        for _ in range(count - settings[at.DIGEST_MAX]):
            each, count = lost[each, at.AFTER_LOST], count - 1
        put(body, class_, run)
        put(body, number, run)
        put(body, count, run)
        bytes_ += 2 + run.tag_bytes[class_] + bytes_of_count(number) + bytes_of_head(count)
        while each >= 0:
            put(body, lost[each, at.NUMBER], run)
            bytes_ += bytes_of_count(lost[each, at.NUMBER])
            each = lost[each, at.AFTER_LOST]
    run.state[at.BODIES] = body + run.bodies[body + at.BODY_SIZE]
    size = settings[at.VECTOR_BYTES] + run.name_bytes[broker] + bytes_
    unicast(now_us, broker, origin, at.VECTORS, size, (at.VECTOR, body, 0), run)


@njit
def _compare(now_us, broker, run):
    """Vectors to origins; to how many, and to others that may have what origins did not answer for."""
    chosen = 0
    at_once, tries_origin = run.settings[at.AT_ONCE], run.settings[at.TRIES_ORIGIN]
    asked = run.scratch
    while chosen < at_once:
        origin, due_us = _next_partner(broker, run)
        if origin < 0 or due_us > now_us:
            break
        is_chosen, in_vain = _take_partner(now_us, broker, origin, run)
        if is_chosen:
            asked[2 * chosen], asked[2 * chosen + 1] = origin, in_vain
            chosen += 1
    for slot in range(chosen):
        origin = asked[2 * slot]
        _ask_origin(now_us, broker, origin, run)
        stream = run.origins[broker * run.brokers.shape[0] + origin, at.FIRST_STREAM]
        if asked[2 * slot + 1] >= tries_origin and stream >= 0:
            _ask_subscribers(now_us, broker, stream % run.own.shape[1], run)
    return chosen


# Rounds ------------------------------------------------------------------------------------------------


@njit
def _push(now_us, broker, run):
    brokers, scratch, linked = run.brokers, run.scratch, run.linked
    if not brokers[broker, at.TAKEN]:
        return 0
    class_ = run.order[broker, np.int64(draw(broker, run) * brokers[broker, at.TAKEN])]
    each = run.classes[broker * run.order.shape[1] + class_, at.FIRST_LINKED]
    count = 0
    while each >= 0:
        scratch[count], each, count = linked[each, 0], linked[each, 1], count + 1
    surplus = count - run.settings[at.DIGEST_MAX]
    if surplus > 0:
        for slot in range(surplus, count):
            scratch[slot - surplus] = scratch[slot]
        count -= surplus
    if not count:
        return 0
    return send_on(now_us, broker, at.DIGEST, body_of_ids(broker, count, run), class_, 0, NONE, run)


@njit
def _ask_subscribers(now_us, broker, own, run):
    body = body_of_missing(broker, run.tags[broker, own, 0], True, run.settings[at.DIGEST_MAX], run)
    return send_on(now_us, broker, at.PULL, body, run.own[broker, own], 0, NONE, run)


@njit
def _ask_publisher(now_us, broker, run):
    brokers, count_max = run.brokers, run.settings[at.DIGEST_MAX]
    if not brokers[broker, at.LOST]:
        return 0
    origin = run.origin_order[broker, np.int64(draw(broker, run) * brokers[broker, at.ORIGINS])]
    with_origin = broker * brokers.shape[0] + origin
    if not run.origins[with_origin, at.ROUTE]:
        return 0
    body = body_of_missing(broker, run.origins[with_origin, at.FIRST_STREAM], False, count_max, run)
    send_along(now_us, broker, body, origin, 0, run)
    return 1


@njit
def _pull(now_us, broker, style, run):
    brokers = run.brokers
    if not brokers[broker, at.LOST]:
        return 0
    own = run.tag_order[broker, np.int64(draw(broker, run) * brokers[broker, at.TAGS])]
    if style != at.RANDOM:
        return _ask_subscribers(now_us, broker, own, run)
    body = body_of_missing(broker, run.tags[broker, own, 0], True, run.settings[at.DIGEST_MAX], run)
    return send_to_anybody(now_us, broker, body, 0, NONE, run)


@njit
def _round(now_us, broker, run):
    style = run.settings[at.STYLE]
    if style == at.PUSH:
        return _push(now_us, broker, run)
    if style == at.RECONCILE:
        return _compare(now_us, broker, run)
    if style == at.PUBLISHER or (style == at.COMBINED and draw(broker, run) < run.chances[at.TO_SOURCE]):
        return _ask_publisher(now_us, broker, run)
    return _pull(now_us, broker, style, run)


@njit
def _has_more_to_send(broker, run):
    style = run.settings[at.STYLE]
    if style == at.PUSH:
        return run.brokers[broker, at.KEPT] > 0
    return run.brokers[broker, at.LOST] > 0 or (style == at.RECONCILE and _next_partner(broker, run)[0] >= 0)


@njit
def on_round(now_us, broker, run):
    brokers, settings = run.brokers, run.settings
    if brokers[broker, at.DUE_US] == NEVER_US or now_us < brokers[broker, at.DUE_US]:
        return
    take_in(now_us, broker, run)
    give_up_old(now_us, broker, run)
    drop_older(broker, now_us - settings[at.KEPT_US], run)
    sent = _round(now_us, broker, run)
    brokers[broker, at.ROUNDS if sent else at.SILENT] += 1
    if settings[at.ADAPTIVE]:
        is_idle = not brokers[broker, at.ASKED] if settings[at.STYLE] == at.PUSH else not sent
        brokers[broker, at.ASKED] = 0
        brokers[broker, at.STRETCH] = min(2 * brokers[broker, at.STRETCH], settings[at.STRETCH_MAX]) if is_idle else 1
    brokers[broker, at.DUE_US] = NEVER_US
    if _has_more_to_send(broker, run):
        wake(now_us, broker, run)
    if brokers[broker, at.UNREPORTED]:
        _report(now_us, broker, run)


@njit
def _report(now_us, broker, run):
    brokers, origins, given_up, state = run.brokers, run.origins, run.given_up, run.state
    for origin in range(brokers.shape[0]):
        row = broker * brokers.shape[0] + origin
        if origins[row, at.GIVEN_UP_OF]:
            slot = state[GIVEN_UP]
            given_up[slot, 0], given_up[slot, 1], given_up[slot, 2] = now_us, broker, origin
            given_up[slot, 3] = origins[row, at.GIVEN_UP_OF]
            origins[row, at.GIVEN_UP_OF] = 0
            state[GIVEN_UP] += 1
    brokers[broker, at.UNREPORTED] = 0


# What others say ---------------------------------------------------------------------------------------


@njit
def on_numbers(now_us, broker, event, is_direct, run):
    """An event of ours has come, with its numbers; directly, or because somebody handed it out."""
    brokers, settings, origin = run.brokers, run.settings, run.events[event, at.ORIGIN]
    before, unsure = brokers[broker, at.NOTICED], brokers[broker, at.UNSURE_BEGUN]
    count_in(now_us, broker, event, run)
    has_lost, reconciles = brokers[broker, at.NOTICED] > before, settings[at.STYLE] == at.RECONCILE
    if is_direct:
        run.origins[broker * brokers.shape[0] + origin, at.ROUTE] = 1
    if reconciles:
        heard(now_us, broker, origin, has_lost, run)
        if brokers[broker, at.UNSURE_BEGUN] > unsure:
            row = run.origins[broker * brokers.shape[0] + origin]
            row[at.UNSURE_TIMES], row[at.PARTNER_DUE_US] = ASKED_WHEN_UNSURE, now_us
    if has_lost:
        brokers[broker, at.STRETCH] = 1
    if brokers[broker, at.DUE_US] == NEVER_US and (brokers[broker, at.LOST] or reconciles):
        wake(now_us, broker, run)


@njit
def on_digest(now_us, broker, sender, body, class_, hops, run):
    bodies, scratch, flags = run.bodies, run.scratch, run.flags
    count = 0
    if run.classes[broker * run.order.shape[1] + class_, at.LOCAL] >= 0:
        for slot in range(body + at.BODY_HEAD, body + bodies[body + at.BODY_SIZE]):
            if not flags[broker, bodies[slot]] & np.uint8(at.IS_SEEN):
                scratch[count] = bodies[slot]
                count += 1
    if count:
        wanted = body_of_ids(broker, count, run)
        size = run.settings[at.REQUEST_BYTES] + run.name_bytes[broker] + bodies[wanted + at.BODY_BYTES]
        unicast(now_us, broker, bodies[body + at.BEGUN_BY], at.REQUESTS, size, (at.REQUEST, wanted, 0), run)
    send_on(now_us, broker, at.DIGEST, body, class_, hops, sender, run)


@njit
def on_pull(now_us, broker, sender, body, to, hops, run):
    left = hand_out_missing(now_us, broker, body, run)
    if left < 0:
        return
    if to < at.ANYBODY and at.ANYBODY - 1 - to != broker:
        send_along(now_us, broker, left, at.ANYBODY - 1 - to, hops, run)
    elif to > at.ANYBODY:
        send_on(now_us, broker, at.PULL, left, to, hops, sender, run)
    elif draw(broker, run) < run.chances[at.FORWARD]:
        send_to_anybody(now_us, broker, left, hops, sender, run)


@njit
def on_request(now_us, broker, body, run):
    bodies = run.bodies
    run.brokers[broker, at.ASKED] = 1
    for slot in range(body + at.BODY_HEAD, body + bodies[body + at.BODY_SIZE]):
        if has(broker, bodies[slot], run):
            hand_out(now_us, broker, bodies[body + at.BEGUN_BY], bodies[slot], run)


@njit
def _choose(event, count, run):
    """Put an event into `scratch` behind so many, if it is not there."""
    if run.events[event, at.MARK] == run.state[at.TOKEN]:
        return count
    run.events[event, at.MARK] = run.state[at.TOKEN]
    run.scratch[count] = event
    return count + 1


@njit
def on_vector(now_us, broker, body, run):
    """Somebody tells how far it has got with what we let in: hand it the rest, or say that there is none."""
    bodies, classes, events, settings = run.bodies, run.classes, run.events, run.settings
    slot, end, to = body + at.BODY_HEAD, body + bodies[body + at.BODY_SIZE], bodies[body + at.BEGUN_BY]
    count_max, count, is_complete = settings[at.DIGEST_MAX], 0, True
    run.state[at.TOKEN] += 1
    while slot < end and count < count_max:
        row, known, asked = broker * run.order.shape[1] + bodies[slot], bodies[slot + 1], bodies[slot + 2]
        for place in range(slot + 3, slot + 3 + asked):
            event = event_with(row, bodies[place], run)
            if has(broker, event, run):
                count, is_complete = _choose(event, count, run), False
        last = classes[row, at.LAST_NUMBER]
        first = last + 1
        while first > max(known, last - count_max + 1, 1) and has(broker, event_with(row, first - 1, run), run):
            first -= 1
        for number in range(first, last + 1):
            event, is_complete = event_with(row, number, run), False
            if events[event, at.PUBLISHED_US] <= now_us - settings[at.SETTLE_US]:
                count = _choose(event, count, run)
        slot += 3 + asked
    if is_complete:
        say_complete(now_us, broker, to, run)
    for chosen in range(min(count, count_max)):
        hand_out(now_us, broker, to, run.scratch[chosen], run)


@njit
def on_recovered(now_us, broker, event, run):
    """An event that somebody handed out: keep it. Its numbers tell as much as if it had come by itself."""
    if not keep(now_us, broker, event, run):
        return
    if run.settings[at.STYLE] == at.PUSH:
        if run.brokers[broker, at.DUE_US] == NEVER_US:
            wake(now_us, broker, run)
        return
    on_numbers(now_us, broker, event, False, run)
    if run.settings[at.STYLE] == at.RECONCILE:
        _brought(now_us, broker, run.events[event, at.ORIGIN], run)


# The end -----------------------------------------------------------------------------------------------


@njit
def _has_settled(now_us, broker, run):
    brokers, settings = run.brokers, run.settings
    silent_us = now_us - brokers[broker, at.ACTIVE_US]
    if settings[at.STYLE] != at.RECONCILE:
        return silent_us >= settings[at.SETTLED_US]
    waits_us = settings[at.SEARCHED_US] if brokers[broker, at.OPEN] else settings[at.SETTLED_US]
    return not brokers[broker, at.LOST] and silent_us >= waits_us


@njit
def all_settled(now_us, run):
    """Whether no broker expects anything; one that does is asked first next time."""
    state, count = run.state, run.brokers.shape[0]
    for slot in range(count):
        broker = (state[at.RESTLESS] + slot) % count
        if not _has_settled(now_us, broker, run):
            state[at.RESTLESS] = broker
            return False
    return True

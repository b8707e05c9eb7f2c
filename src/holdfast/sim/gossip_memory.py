"""What a broker that gossips keeps, has seen and has lost, as rows of numbers and compiled by numba.

The machines are the reference (`protocol/gossip`: `classes`, `buffer`, `losses`): the same steps in the same order,
so that the same dice choose the same things.
"""

import numpy as np

from holdfast.protocol.gossip.settings import UNSURE as ASKED_WHEN_UNSURE
from holdfast.sim import gossip_state as at
from holdfast.sim.held import njit
from holdfast.sim.numbered_links import bytes_of_count
from holdfast.sim.numbered_state import NONE

_FIRST_NUMBERS = 8  # room for the numbers of a class, doubled when they are full


@njit(forceinline=True)
def bytes_of_head(count):
    """Of a list of so many."""
    return 1 if count < 16 else 3 if count < 65_536 else 5


# Classes -----------------------------------------------------------------------------------------------


@njit(forceinline=True)
def take_in(now_us, broker, run):
    brokers, width = run.brokers, run.order.shape[1]
    while brokers[broker, at.TAKEN] < brokers[broker, at.APPEARED]:
        class_ = run.order[broker, brokers[broker, at.TAKEN]]
        run.classes[broker * width + class_, at.BEGAN_US] = now_us
        brokers[broker, at.TAKEN] += 1


@njit
def _append_number(row, event, run):
    state, classes, numbers = run.state, run.classes, run.numbers
    size = classes[row, at.LAST_NUMBER]
    if size == classes[row, at.NUMBERS_MAX]:
        slot, size_max = state[at.NUMBERS], max(_FIRST_NUMBERS, 2 * size)
        for number in range(size):
            numbers[slot + number] = numbers[classes[row, at.NUMBERS_AT] + number]
        classes[row, at.NUMBERS_AT], classes[row, at.NUMBERS_MAX] = slot, size_max
        state[at.NUMBERS] += size_max
        state[at.LONGEST] = max(state[at.LONGEST], size_max)
    numbers[classes[row, at.NUMBERS_AT] + size] = event
    classes[row, at.LAST_NUMBER] += 1


@njit
def stamp(broker, event, run):
    """Number an event in every class that it belongs to."""
    state, events, classes, places = run.state, run.events, run.classes, run.places
    width, first = run.order.shape[1], run.state[at.PLACES]
    size = 2 + run.name_bytes[broker]
    for slot in range(events[event, at.CONDITIONS_AT], events[event, at.CONDITIONS_AT] + events[event, at.CONDITIONS]):
        class_ = run.conditions[slot]
        row = broker * width + class_
        if classes[row, at.BEGAN_US] >= 0:
            _append_number(row, event, run)
            place = state[at.PLACES]
            places[place, at.PLACE_CLASS], places[place, at.PLACE_NUMBER] = class_, classes[row, at.LAST_NUMBER]
            places[place, at.PLACE_BEGAN_MS] = classes[row, at.BEGAN_US] // 1_000
            size += 1 + run.tag_bytes[class_] + bytes_of_count(classes[row, at.LAST_NUMBER])
            size += bytes_of_count(places[place, at.PLACE_BEGAN_MS])
            state[at.PLACES] += 1
    events[event, at.PLACES_AT], events[event, at.PLACE_COUNT] = first, state[at.PLACES] - first
    events[event, at.STAMP_BYTES] = size + bytes_of_head(state[at.PLACES] - first)


@njit(forceinline=True)
def event_with(row, number, run):
    """Which event a broker has given a number in a class; -1 when none."""
    classes = run.classes
    return run.numbers[classes[row, at.NUMBERS_AT] + number - 1] if 0 < number <= classes[row, at.LAST_NUMBER] else NONE


# The buffer --------------------------------------------------------------------------------------------


@njit
def _file(broker, event, run):
    """Note the event under its classes."""
    state, events, classes, linked = run.state, run.events, run.classes, run.linked
    for slot in range(events[event, at.CONDITIONS_AT], events[event, at.CONDITIONS_AT] + events[event, at.CONDITIONS]):
        row = broker * run.order.shape[1] + run.conditions[slot]
        if classes[row, at.BEGAN_US] >= 0:
            new = state[at.FREE_LINKED]
            state[at.FREE_LINKED] = linked[new, 1]
            state[at.LINKED] += 1
            linked[new, 0], linked[new, 1] = event, NONE
            if classes[row, at.FIRST_LINKED] < 0:
                classes[row, at.FIRST_LINKED] = new
            else:
                linked[classes[row, at.LAST_LINKED], 1] = new
            classes[row, at.LAST_LINKED] = new


@njit
def _take_from_files(broker, event, run):
    """It is the oldest of every class that it stands under."""
    state, events, classes, linked = run.state, run.events, run.classes, run.linked
    for slot in range(events[event, at.CONDITIONS_AT], events[event, at.CONDITIONS_AT] + events[event, at.CONDITIONS]):
        row = broker * run.order.shape[1] + run.conditions[slot]
        first = classes[row, at.FIRST_LINKED]
        if first >= 0 and linked[first, 0] == event:
            classes[row, at.FIRST_LINKED] = linked[first, 1]
            linked[first, 1] = state[at.FREE_LINKED]
            state[at.FREE_LINKED] = first
            state[at.LINKED] -= 1


@njit
def _drop_oldest(broker, run):
    brokers, ring = run.brokers, run.ring
    event = ring[broker, brokers[broker, at.RING_FIRST], 0]
    brokers[broker, at.RING_FIRST] = (brokers[broker, at.RING_FIRST] + 1) % ring.shape[1]
    brokers[broker, at.KEPT] -= 1
    run.flags[broker, event] = at.IS_SEEN
    if run.settings[at.STYLE] == at.PUSH:
        _take_from_files(broker, event, run)
    else:
        brokers[broker, at.PLACES_KEPT] -= run.events[event, at.PLACE_COUNT]


@njit
def drop_older(broker, than_us, run):
    brokers, ring = run.brokers, run.ring
    while brokers[broker, at.KEPT] and ring[broker, brokers[broker, at.RING_FIRST], 1] < than_us:
        _drop_oldest(broker, run)


@njit
def keep(now_us, broker, event, run):
    """Keep an event for others if it has not been seen here; whether it has not."""
    brokers, ring, settings, flags = run.brokers, run.ring, run.settings, run.flags
    if flags[broker, event] & at.IS_SEEN:
        return False
    by_class = settings[at.STYLE] == at.PUSH
    places = 0 if by_class else run.events[event, at.PLACE_COUNT]
    places_max = settings[at.PLACES_MAX] - places
    while brokers[broker, at.KEPT] and (
        brokers[broker, at.KEPT] >= settings[at.BUFFER] or brokers[broker, at.PLACES_KEPT] > places_max
    ):
        _drop_oldest(broker, run)
    slot = (brokers[broker, at.RING_FIRST] + brokers[broker, at.KEPT]) % ring.shape[1]
    ring[broker, slot, 0], ring[broker, slot, 1] = event, now_us
    brokers[broker, at.KEPT] += 1
    brokers[broker, at.PLACES_KEPT] += places
    flags[broker, event] |= at.IS_SEEN | at.IS_KEPT
    if by_class:
        _file(broker, event, run)
    return True


# Losses ------------------------------------------------------------------------------------------------


@njit
def _without(row, count, value):
    """Take a value out of a list in a row."""
    slot = 0
    while row[slot] != value:
        slot += 1
    for after in range(slot + 1, count):
        row[after - 1] = row[after]


@njit
def _enlist(broker, stream, run):
    """Something is lost of a stream now: it goes to the end of the lists of its class and origin."""
    streams, tags, origins, brokers = run.streams, run.tags, run.origins, run.brokers
    own, with_origin = stream % run.own.shape[1], stream // run.own.shape[1]
    before = tags[broker, own, 1]
    streams[stream, at.BEFORE_OF_TAG], streams[stream, at.NEXT_OF_TAG] = before, NONE
    if before < 0:
        tags[broker, own, 0] = stream
        run.tag_order[broker, brokers[broker, at.TAGS]] = own
        brokers[broker, at.TAGS] += 1
    else:
        streams[before, at.NEXT_OF_TAG] = stream
    tags[broker, own, 1] = stream
    before = origins[with_origin, at.LAST_STREAM]
    streams[stream, at.BEFORE_OF_ORIGIN], streams[stream, at.NEXT_OF_ORIGIN] = before, NONE
    if before < 0:
        origins[with_origin, at.FIRST_STREAM] = stream
        run.origin_order[broker, brokers[broker, at.ORIGINS]] = with_origin % brokers.shape[0]
        brokers[broker, at.ORIGINS] += 1
    else:
        streams[before, at.NEXT_OF_ORIGIN] = stream
    origins[with_origin, at.LAST_STREAM] = stream


@njit
def _delist(broker, stream, run):
    streams, tags, origins, brokers = run.streams, run.tags, run.origins, run.brokers
    own, with_origin = stream % run.own.shape[1], stream // run.own.shape[1]
    before, after = streams[stream, at.BEFORE_OF_TAG], streams[stream, at.NEXT_OF_TAG]
    if before < 0:
        tags[broker, own, 0] = after
    else:
        streams[before, at.NEXT_OF_TAG] = after
    if after < 0:
        tags[broker, own, 1] = before
    else:
        streams[after, at.BEFORE_OF_TAG] = before
    if tags[broker, own, 0] < 0:
        _without(run.tag_order[broker], brokers[broker, at.TAGS], own)
        brokers[broker, at.TAGS] -= 1
    before, after = streams[stream, at.BEFORE_OF_ORIGIN], streams[stream, at.NEXT_OF_ORIGIN]
    if before < 0:
        origins[with_origin, at.FIRST_STREAM] = after
    else:
        streams[before, at.NEXT_OF_ORIGIN] = after
    if after < 0:
        origins[with_origin, at.LAST_STREAM] = before
    else:
        streams[after, at.BEFORE_OF_ORIGIN] = before
    if origins[with_origin, at.FIRST_STREAM] < 0:
        _without(run.origin_order[broker], brokers[broker, at.ORIGINS], with_origin % brokers.shape[0])
        brokers[broker, at.ORIGINS] -= 1


@njit
def _strike(broker, number, run):
    """A lost number, by its row, is lost no more."""
    state, streams, lost, brokers = run.state, run.streams, run.lost, run.brokers
    stream = lost[number, at.STREAM]
    before, after = lost[number, at.BEFORE_LOST], lost[number, at.AFTER_LOST]
    if before < 0:
        streams[stream, at.FIRST] = after
    else:
        lost[before, at.AFTER_LOST] = after
    if after < 0:
        streams[stream, at.LAST] = before
    else:
        lost[after, at.BEFORE_LOST] = before
    before, after = lost[number, at.BEFORE_AGE], lost[number, at.AFTER_AGE]
    if before < 0:
        brokers[broker, at.FIRST_LOST] = after
    else:
        lost[before, at.AFTER_AGE] = after
    if after < 0:
        brokers[broker, at.LAST_LOST] = before
    else:
        lost[after, at.BEFORE_AGE] = before
    lost[number, at.AFTER_LOST] = state[at.FREE_LOST]
    state[at.FREE_LOST] = number
    state[at.LOSTS] -= 1
    brokers[broker, at.LOST] -= 1
    streams[stream, at.COUNT_LOST] -= 1
    if not streams[stream, at.COUNT_LOST]:
        _delist(broker, stream, run)


@njit
def _give_up(broker, with_origin, count, run):
    run.origins[with_origin, at.GIVEN_UP_OF] += count
    run.brokers[broker, at.UNREPORTED] += count


@njit
def _give_up_oldest(broker, run):
    oldest = run.brokers[broker, at.FIRST_LOST]
    with_origin = run.lost[oldest, at.STREAM] // run.own.shape[1]
    _strike(broker, oldest, run)
    _give_up(broker, with_origin, 1, run)


@njit
def give_up_old(now_us, broker, run):
    brokers, lost, than_us = run.brokers, run.lost, now_us - run.settings[at.LOST_US]
    while brokers[broker, at.LOST] and lost[brokers[broker, at.FIRST_LOST], at.NOTICED_US] <= than_us:
        _give_up_oldest(broker, run)


@njit
def _note(now_us, broker, stream, number, run):
    state, streams, lost, brokers = run.state, run.streams, run.lost, run.brokers
    if brokers[broker, at.LOST] >= run.settings[at.LOST_MAX]:
        _give_up_oldest(broker, run)
    new = state[at.FREE_LOST]
    state[at.FREE_LOST] = lost[new, at.AFTER_LOST]
    state[at.LOSTS] += 1
    if not streams[stream, at.COUNT_LOST]:
        _enlist(broker, stream, run)
        streams[stream, at.FIRST] = streams[stream, at.LAST] = NONE
    lost[new, at.STREAM], lost[new, at.NUMBER], lost[new, at.NOTICED_US] = stream, number, now_us
    lost[new, at.BEFORE_LOST], lost[new, at.AFTER_LOST] = streams[stream, at.LAST], NONE
    if streams[stream, at.LAST] < 0:
        streams[stream, at.FIRST] = new
    else:
        lost[streams[stream, at.LAST], at.AFTER_LOST] = new
    streams[stream, at.LAST] = new
    lost[new, at.BEFORE_AGE], lost[new, at.AFTER_AGE] = brokers[broker, at.LAST_LOST], NONE
    if brokers[broker, at.LAST_LOST] < 0:
        brokers[broker, at.FIRST_LOST] = new
    else:
        lost[brokers[broker, at.LAST_LOST], at.AFTER_AGE] = new
    brokers[broker, at.LAST_LOST] = new
    brokers[broker, at.LOST] += 1
    brokers[broker, at.NOTICED] += 1
    streams[stream, at.COUNT_LOST] += 1


@njit
def _on_other(now_us, broker, stream, row, number, began_ms, run):
    """A number that is not the next."""
    streams, lost = run.streams, run.lost
    if not streams[stream, at.NEXT]:
        all_ours = 1_000 * began_ms >= run.classes[row, at.WANTED_US]
        streams[stream, at.NEXT] = 1 if all_ours else number
        streams[stream, at.UNSURE] = 0 if all_ours or number == 1 else ASKED_WHEN_UNSURE
        run.brokers[broker, at.UNSURE_BEGUN] += streams[stream, at.UNSURE] > 0
    after = streams[stream, at.NEXT]
    if number < after:
        found = streams[stream, at.FIRST] if streams[stream, at.COUNT_LOST] else NONE
        while found >= 0 and lost[found, at.NUMBER] != number:
            found = lost[found, at.AFTER_LOST]
        if found >= 0:
            _strike(broker, found, run)
        return
    first = max(after, number - run.settings[at.LOST_MAX])
    if first > after:
        _give_up(broker, stream // run.own.shape[1], first - after, run)
    for each in range(first, number):
        _note(now_us, broker, stream, each, run)
    streams[stream, at.NEXT] = number + 1


@njit
def count_in(now_us, broker, event, run):
    """An event has come, and its numbers tell what has not."""
    events, places, streams, classes = run.events, run.places, run.streams, run.classes
    with_origin = broker * run.brokers.shape[0] + events[event, at.ORIGIN]
    for place in range(events[event, at.PLACES_AT], events[event, at.PLACES_AT] + events[event, at.PLACE_COUNT]):
        row = broker * run.order.shape[1] + places[place, at.PLACE_CLASS]
        own = classes[row, at.LOCAL]
        if own >= 0:
            stream, number = with_origin * run.own.shape[1] + own, places[place, at.PLACE_NUMBER]
            if streams[stream, at.NEXT] == number:
                streams[stream, at.NEXT] += 1
            else:
                _on_other(now_us, broker, stream, row, number, places[place, at.PLACE_BEGAN_MS], run)


@njit(forceinline=True)
def has(broker, event, run):
    """Whether a broker keeps an event."""
    return event >= 0 and (run.flags[broker, event] & np.uint8(at.IS_KEPT)) != 0

"""The inner loop of `connectivity.py`: from the states of one level of a decision diagram to those of the next.

A state is sixteen places of four bits, one for each broker in view: 0 is down, 1 hangs together with the source, 2 with
the target, higher numbers are other groups in the order of their first place. A level's states are all different.
"""

import numba as nb
import numpy as np

SLOTS = 15  # brokers in view; one place stays free, so that a group's number always fits four bits
ENTER, JOIN = 0, 1
FAILED, REACHED = -1, -2  # also where their values stand: behind those of the level

_NEW = 16  # a group that has no number yet
_SOURCE, _TARGET = 1, 2
_MIX = np.uint64(0x9E3779B97F4A7C15)


@nb.njit(cache=True)
def expand(states, kind, slot, other, places, leaving, ahead):
    """Where each state leads when the step's component is down and when it is up, and the states it leads to.

    Only the first `places` are in use. `ahead` has a bit for each broker that a place has undecided links with.
    """
    count = len(states)
    down, up = np.empty(count, np.int32), np.empty(count, np.int32)
    following = np.empty(2 * count, np.uint64)
    size = 16
    while size < 4 * count:
        size *= 2
    table = np.full(size, -1, np.int32)
    groups, names, meets = np.zeros(_NEW, np.int64), np.zeros(_NEW + 1, np.int64), np.zeros(_NEW + 1, np.uint64)
    found = 0
    for at in range(count):
        _read(states[at], groups, places)
        if kind == ENTER:
            if other == 0:
                down[at], found = _node(groups, places, leaving, ahead, names, meets, table, following, found)
                _read(states[at], groups, places)
                groups[slot] = _NEW
                up[at], found = _node(groups, places, leaving, ahead, names, meets, table, following, found)
            else:
                groups[slot] = other
                up[at], found = _node(groups, places, leaving, ahead, names, meets, table, following, found)
                down[at] = up[at]
            continue
        one, two = min(groups[slot], groups[other]), max(groups[slot], groups[other])
        down[at], found = _node(groups, places, leaving, ahead, names, meets, table, following, found)
        if one in (0, two):
            up[at] = down[at]
        elif one == _SOURCE and two == _TARGET:
            up[at] = REACHED
        else:
            _read(states[at], groups, places)
            for place in range(places):
                if groups[place] == two:
                    groups[place] = one
            up[at], found = _node(groups, places, leaving, ahead, names, meets, table, following, found)
    return down, up, following[:found].copy()


@nb.njit(inline="always")
def _read(state, groups, places):
    for place in range(places):
        groups[place] = np.int64(state & np.uint64(15))
        state >>= np.uint64(4)


@nb.njit(cache=True)
def _node(groups, places, leaving, ahead, names, meets, table, following, found):
    """The number of a state in the next level, which it joins if it is new. The first of these arrays are scratch."""
    for at in range(len(leaving)):
        group = groups[leaving[at]]
        groups[leaving[at]] = 0
        if group in (_SOURCE, _TARGET):
            alone = True
            for place in range(places):
                if groups[place] == group:
                    alone = False
            if alone:
                return np.int32(FAILED), found  # nobody in view hangs together with this end any more
    state = _packed(groups, places, ahead, names, meets)
    mask = len(table) - 1
    at = np.int64((state * _MIX) >> np.uint64(33)) & mask
    while table[at] >= 0:
        if following[table[at]] == state:
            return table[at], found
        at = (at + 1) & mask
    table[at] = found
    following[found] = state
    return np.int32(found), found + 1


@nb.njit(inline="always")
def _packed(groups, places, ahead, names, meets):
    """Groups are numbered in the order of their first place, so that equal partitions are equal states.

    A group of neither end that can meet only one more broker leads nowhere, and may as well be down.
    """
    for place in range(places):
        meets[groups[place]] = np.uint64(0)
        names[groups[place]] = 0
    for place in range(places):
        meets[groups[place]] |= ahead[place]
    names[_SOURCE], names[_TARGET] = _SOURCE, _TARGET
    fresh = _TARGET
    state = np.uint64(0)
    for place in range(places):
        group = groups[place]
        if group == 0 or (group > _TARGET and meets[group] & (meets[group] - np.uint64(1)) == 0):
            continue
        if not names[group]:
            fresh += 1
            names[group] = fresh
        state |= np.uint64(names[group]) << np.uint64(4 * place)
    return state

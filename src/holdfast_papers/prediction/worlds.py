"""The worlds of `failures.py`, one after the other."""

import numba as nb
import numpy as np

OUTCOMES = 8  # four schemes with the end brokers counted, then four with them assumed up


@nb.njit(cache=True)
def run_worlds(
    worlds, seed, lifetime, up_s, down_s, places, steps, first, links, near, near_first, brokers, member, weight
):
    """How often each pair got through, and sums and squares of each group's weighted share."""
    np.random.seed(seed)
    pairs, parts, groups = len(first) - 1, len(up_s), member.max() + 1
    counts = np.zeros((pairs, OUTCOMES), np.int64)
    sums, squares = np.zeros((groups, OUTCOMES)), np.zeros((groups, OUTCOMES))
    of_group = np.zeros((groups, OUTCOMES))
    changes = np.zeros(places[-1])  # when each component changes, its own one after the other
    number, up = np.zeros(parts, np.int64), np.ones(parts, np.bool_)
    seen, waiting = np.zeros(brokers, np.int64), np.zeros(brokers, np.int64)
    mark = 0
    outcome = np.zeros(OUTCOMES, np.bool_)
    for _ in range(worlds):
        _draw(lifetime, up_s, down_s, places, changes, number, up)
        of_group[:] = 0.0
        reached_from = -1
        for pair in range(pairs):
            a, b = first[pair], first[pair + 1]
            source, target = steps[a], steps[b - 1]
            inside = True
            for at in range(a, b - 1):
                inside = inside and up[links[at - pair]]
            for at in range(a + 1, b - 1):
                inside = inside and up[steps[at]]
            ends = up[source] and up[target]
            if inside and ends:
                outcome[:] = True
            else:
                if reached_from != target:
                    mark += 1
                    _reach(target, mark, up, near, near_first, brokers, seen, waiting)
                    reached_from = target
                connected = seen[source] == mark
                outcome[0], outcome[4] = False, inside
                outcome[2], outcome[6] = connected and ends, connected
                outcome[1] = _in_time(False, lifetime, steps, links, a, b, pair, places, changes, number, up)
                outcome[5] = inside or _in_time(True, lifetime, steps, links, a, b, pair, places, changes, number, up)
                outcome[3], outcome[7] = outcome[1] or outcome[2], outcome[5] or outcome[6]
            for each in range(OUTCOMES):
                if outcome[each]:
                    counts[pair, each] += 1
                    of_group[member[pair], each] += weight[pair]
        sums += of_group
        squares += of_group * of_group
    return counts, sums, squares


@nb.njit(cache=True)
def _draw(lifetime, up_s, down_s, places, changes, number, up):
    """Every component's first state and its changes within the lifetime."""
    for part in range(len(up_s)):
        number[part] = 0
        if up_s[part] == 0.0:
            continue
        state = np.random.random() * (up_s[part] + down_s[part]) < up_s[part]
        up[part] = state
        if lifetime == 0.0:
            continue
        at = np.random.exponential(up_s[part] if state else down_s[part])
        while at < lifetime and places[part] + number[part] < places[part + 1]:
            changes[places[part] + number[part]] = at
            number[part] += 1
            state = not state
            at += np.random.exponential(up_s[part] if state else down_s[part])


@nb.njit(cache=True)
def _reach(target, mark, up, near, near_first, brokers, seen, waiting):
    """Mark whom a link that is up joins with the target, through brokers that are up; the last one may be down."""
    seen[target] = mark
    waiting[0] = target
    head, tail = 0, 1
    while head < tail:
        broker = waiting[head]
        head += 1
        for at in range(near_first[broker], near_first[broker + 1], 2):
            other = near[at]
            if seen[other] != mark and up[brokers + near[at + 1]]:
                seen[other] = mark
                if up[other]:
                    waiting[tail] = other
                    tail += 1


@nb.njit(cache=True)
def _in_time(ends_up, lifetime, steps, links, a, b, pair, places, changes, number, up):
    """Whether an event that every broker keeps until the next one has it arrives within the lifetime."""
    now = 0.0
    if not ends_up:
        now = _up_from(steps[a], now, places, changes, number, up)
    for at in range(a, b - 1):
        while now <= lifetime:
            later = _up_from(links[at - pair], now, places, changes, number, up)
            if not (ends_up and at == a):
                later = _up_from(steps[at], later, places, changes, number, up)
            if not (ends_up and at == b - 2):
                later = _up_from(steps[at + 1], later, places, changes, number, up)
            if later == now:
                break
            now = later
    return now <= lifetime


@nb.njit(cache=True)
def _up_from(part, now, places, changes, number, up):
    """The first moment from now on at which a component is up."""
    state = up[part]
    for at in range(places[part], places[part] + number[part]):
        if changes[at] > now:
            return now if state else changes[at]
        state = not state
    return now if state else np.inf

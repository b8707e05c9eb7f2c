"""The chain behind `hybrid.py`: the components of one path and the event's place on it."""

import numba as nb
import numpy as np


@nb.njit(cache=True)
def late_by_state(fail, mend, needs, weights):
    """P(not through) for each mask of components that are down at first, mixed over ticks by their weights."""
    parts, places = len(fail), len(needs)
    states = 1 << parts
    on = np.empty((states, places), np.int64)  # how far an event goes at once; `places` is all the way
    for state in range(states):
        for place in range(places - 1, -1, -1):
            if state & needs[place]:
                on[state, place] = place
            else:
                on[state, place] = on[state, place + 1] if place + 1 < places else places
    value, following = np.zeros((states, places)), np.zeros((states, places))
    for state in range(states):
        for place in range(places):
            value[state, place] = 1.0 if on[state, place] < places else 0.0
    late = np.zeros(states)
    for tick in range(len(weights)):
        for state in range(states):
            if on[state, 0] < places:
                late[state] += weights[tick] * value[state, on[state, 0]]
        for state in range(states):
            for place in range(places):
                if on[state, place] != place:
                    continue  # nobody stays there
                total, stays = 0.0, 1.0
                for part in range(parts):
                    rate = mend[part] if state >> part & 1 else fail[part]
                    stays -= rate
                    other = state ^ (1 << part)
                    if on[other, place] < places:
                        total += rate * value[other, on[other, place]]
                following[state, place] = total + max(stays, 0.0) * value[state, place]
        value, following = following, value
    return late

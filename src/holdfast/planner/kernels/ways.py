"""The ways of `overlay.WaysTo`: who is how far from a broker, and what lies between."""

import numba as nb
import numpy as np


@nb.njit(cache=True)
def ways_to(target, near, near_first):
    """Breadth first: brokers with a way, nearest first; for each broker the next one, the link to it, how far it is."""
    brokers = len(near_first) - 1
    order, onward, by = np.empty(brokers, np.int64), np.full(brokers, -1), np.full(brokers, -1)
    far = np.full(brokers, -1)
    order[0], far[target] = target, 0
    head, tail = 0, 1
    while head < tail:
        broker = order[head]
        head += 1
        for at in range(near_first[broker], near_first[broker + 1], 2):
            if far[near[at]] < 0:
                far[near[at]] = far[broker] + 1
                order[tail] = near[at]
                tail += 1
    for place in range(1, tail):
        broker = order[place]
        for at in range(near_first[broker], near_first[broker + 1], 2):
            if far[near[at]] == far[broker] - 1:
                onward[broker], by[broker] = near[at], near[at + 1]
                break
    return order[:tail], onward, by, far


@nb.njit(cache=True)
def between(order, onward, by, broker_share, link_share, link_kept, link_delay):
    """For each broker with a way: that all between it and the target is up and no link loses the event; that no link
    loses it; and what the links take. 0, 0 and infinity for those without."""
    brokers = len(onward)
    inside, kept, delay = np.zeros(brokers), np.zeros(brokers), np.full(brokers, np.inf)
    target = order[0]
    inside[target], kept[target], delay[target] = 1.0, 1.0, 0.0
    for broker in order[1:]:
        following, link = onward[broker], by[broker]
        share = 1.0 if following == target else broker_share[following]
        inside[broker] = inside[following] * share * link_share[link]
        kept[broker] = kept[following] * link_kept[link]
        delay[broker] = delay[following] + link_delay[link]
    return inside, kept, delay


@nb.njit(cache=True)
def with_those_between(order, onward, brokers):
    """These brokers and all on their ways, but for the target; each behind the next one on its way."""
    needed = np.zeros(len(onward), np.bool_)
    for broker in brokers:
        while onward[broker] >= 0 and not needed[broker]:
            needed[broker] = True
            broker = onward[broker]
    found = np.empty(len(order), np.int64)
    count = 0
    for broker in order:
        if needed[broker]:
            found[count] = broker
            count += 1
    return found[:count]

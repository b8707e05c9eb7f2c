"""The chain behind `wait_trees.py`, tick by tick."""

import numba as nb
import numpy as np

STATES = 8  # which of a hop's three components are down, one bit each


@nb.njit(cache=True)
def still_running(starts, fail, mend, before, fastest, ticks):
    """By tick and hop: the chance that the waits from the root up to and with this hop are not over."""
    count = len(before)
    running = np.zeros((ticks, count))
    mass, moved = np.zeros((count, STATES)), np.zeros((count, STATES))
    entering = np.zeros(count)
    for tick in range(ticks):
        for hop in range(count):  # a hop stands behind the one before it
            at = before[hop]
            if at < 0:
                entering[hop] = 1.0 if tick == 0 else 0.0
            else:
                entering[hop] = mass[at, 0] + entering[at] * starts[at, 0]
            waiting = 0.0
            for state in range(1, STATES):
                mass[hop, state] += entering[hop] * starts[hop, state]
                waiting += mass[hop, state]
            running[tick, hop] = waiting + (running[tick, at] if at >= 0 else 0.0)
        for hop in range(count):
            for state in range(STATES):
                moved[hop, state] = 0.0
            for state in range(1, STATES):
                here = mass[hop, state]
                if here == 0.0:
                    continue
                stays = 1.0
                for bit in range(3):
                    rate = mend[hop, bit] if state >> bit & 1 else fail[hop, bit]
                    moved[hop, state ^ (1 << bit)] += here * rate / fastest
                    stays -= rate / fastest
                moved[hop, state] += here * max(stays, 0.0)
        mass, moved = moved, mass
    return running


@nb.njit(cache=True)
def mixed(running, hops, means, reaches, log_factorials):
    """For each hop and mean number of ticks: P(still running), over how many ticks there were."""
    found = np.zeros(len(hops))
    for at in range(len(hops)):
        mean, hop = means[at], hops[at]
        if mean == 0.0:
            found[at] = running[0, hop]
            continue
        log_mean, total = np.log(mean), 0.0
        for tick in range(min(reaches[at] + 1, len(running))):
            total += np.exp(tick * log_mean - mean - log_factorials[tick]) * running[tick, hop]
        found[at] = total
    return found

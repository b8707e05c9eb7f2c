"""The chain behind `wait_trees.py`, tick by tick."""

import numba as nb
import numpy as np

STATES = 8  # which of a hop's three components are down, one bit each


@nb.njit(cache=True)
def still_running(starts, fail, mend, before, ends, ticks):
    """For each hop of `ends`, by tick: the chance that the waits from the root up to and with this hop are not over.

    Rates are by tick; arrays have a row for each state or component, so that a step of all hops is loops over rows.
    """
    count = len(before)
    running = np.zeros((ticks, len(ends)))
    mass = np.zeros((STATES, count))  # of state 0: what has left the hop in the last tick
    entering, upto = np.zeros(count), np.zeros(count)
    for tick in range(ticks):
        for hop in range(count):  # a hop stands behind the one before it
            at = before[hop]
            if at < 0:
                enters, earlier = 1.0 if tick == 0 else 0.0, 0.0
            else:
                enters, earlier = mass[0, at] + entering[at] * starts[0, at], upto[at]
            entering[hop] = enters
            mass[2, hop] += enters * starts[2, hop]  # the sender is up as an event begins to wait
            mass[4, hop] += enters * starts[4, hop]
            mass[6, hop] += enters * starts[6, hop]
            waiting = 0.0
            for state in range(1, STATES):
                waiting += mass[state, hop]
            upto[hop] = waiting + earlier
        for at in range(len(ends)):
            running[tick, at] = upto[ends[at]]
        _step(mass, fail, mend)
    return running


@nb.njit(cache=True)
def _step(mass, fail, mend):
    """One tick of every hop; bit 0 of a state is the sender, 1 the link, 2 the receiver."""
    for hop in range(mass.shape[1]):
        f0, f1, f2 = fail[0, hop], fail[1, hop], fail[2, hop]
        m0, m1, m2 = mend[0, hop], mend[1, hop], mend[2, hop]
        s1, s2, s3, s4 = mass[1, hop], mass[2, hop], mass[3, hop], mass[4, hop]
        s5, s6, s7 = mass[5, hop], mass[6, hop], mass[7, hop]
        mass[0, hop] = s1 * m0 + s2 * m1 + s4 * m2
        mass[1, hop] = s1 * max(0.0, 1 - m0 - f1 - f2) + s3 * m1 + s5 * m2
        mass[2, hop] = s2 * max(0.0, 1 - f0 - m1 - f2) + s3 * m0 + s6 * m2
        mass[3, hop] = s3 * max(0.0, 1 - m0 - m1 - f2) + s1 * f1 + s2 * f0 + s7 * m2
        mass[4, hop] = s4 * max(0.0, 1 - f0 - f1 - m2) + s5 * m0 + s6 * m1
        mass[5, hop] = s5 * max(0.0, 1 - m0 - f1 - m2) + s1 * f2 + s4 * f0 + s7 * m1
        mass[6, hop] = s6 * max(0.0, 1 - f0 - m1 - m2) + s2 * f2 + s4 * f1 + s7 * m0
        mass[7, hop] = s7 * max(0.0, 1 - m0 - m1 - m2) + s3 * f2 + s5 * f1 + s6 * f0


@nb.njit(cache=True)
def mixed(running, rows, means, reaches, log_factorials):
    """For each row of `running` and mean number of ticks: P(still running), over how many ticks there were.

    Rows with equal means one after the other share the weights of the ticks.
    """
    found, weights, known, reach = np.zeros(len(rows)), np.empty(running.shape[1]), -1.0, 0
    for at in range(len(rows)):
        mean, row = means[at], rows[at]
        if mean == 0.0:
            found[at] = running[row, 0]
            continue
        if mean != known:
            known, reach, log_mean = mean, min(reaches[at] + 1, running.shape[1]), np.log(mean)
            for tick in range(reach):
                weights[tick] = np.exp(tick * log_mean - mean - log_factorials[tick])
        total = 0.0
        for tick in range(reach):
            total += weights[tick] * running[row, tick]
        found[at] = total
    return found

"""The worlds of `connected_worlds.py`: who is up, and who hangs together with whom."""

import numba as nb
import numpy as np


@nb.njit(cache=True)
def draw(worlds, seed, shares, near, near_first, brokers):
    """For each world, which part of the network each broker belongs to (-1 when it is down), and which links are up."""
    np.random.seed(seed)
    links = len(shares) - brokers
    part = np.empty((worlds, brokers), np.int32)
    link_up = np.empty((worlds, links), np.bool_)
    waiting = np.empty(brokers, np.int64)
    for world in range(worlds):
        here, lines = part[world], link_up[world]
        for broker in range(brokers):
            here[broker] = brokers if shares[broker] >= 1.0 or np.random.random() < shares[broker] else -1
        for link in range(links):
            share = shares[brokers + link]
            lines[link] = share >= 1.0 or np.random.random() < share
        found = 0
        for first in range(brokers):
            if here[first] != brokers:  # down, or counted already
                continue
            here[first] = found
            waiting[0] = first
            head, tail = 0, 1
            while head < tail:
                broker = waiting[head]
                head += 1
                for at in range(near_first[broker], near_first[broker + 1], 2):
                    if lines[near[at + 1]] and here[near[at]] == brokers:
                        here[near[at]] = found
                        waiting[tail] = near[at]
                        tail += 1
            found += 1
    return part, link_up


@nb.njit(cache=True)
def count_reached(target, sources, part, link_up, near, near_first, counts):
    """Add, for each source, the worlds in which it is connected with the target: as they are, and if both were up."""
    brokers = part.shape[1]
    marked = np.full(brokers, -1)  # parts that the target hangs together with, by the world that they are marked in
    for world in range(len(part)):
        here, lines = part[world], link_up[world]
        target_up = here[target] >= 0
        if target_up:
            marked[here[target]] = world
        else:
            for at in range(near_first[target], near_first[target + 1], 2):
                if lines[near[at + 1]] and here[near[at]] >= 0:
                    marked[here[near[at]]] = world
        for row in range(len(sources)):
            source = sources[row]
            if here[source] >= 0:
                if marked[here[source]] == world:
                    counts[row, 1] += 1
                    if target_up:
                        counts[row, 0] += 1
                continue
            for at in range(near_first[source], near_first[source + 1], 2):
                other = near[at]
                if lines[near[at + 1]] and (other == target or (here[other] >= 0 and marked[here[other]] == world)):
                    counts[row, 1] += 1
                    break

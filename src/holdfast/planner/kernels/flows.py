"""One more disjoint path at least cost (see `disjoint_paths.py`): Dijkstra's search on the graph that is left."""

import numba as nb
import numpy as np


@nb.njit(cache=True)
def augment(
    source, target, near, near_first, broker_cost, link_cost, usable, passed, through, potential, far, came, by, heap
):
    """Turn earlier paths where that helps; False when there is no further one.

    Node 2b is where events enter broker b, 2b + 1 where they leave it. `passed` has for each link the broker that a
    path leaves by it, or -1; `through` the brokers in between that a path uses. The last five arrays are scratch.
    """
    start, end = 2 * source + 1, 2 * target
    far[:] = np.inf
    far[start] = 0.0
    done = np.zeros(len(far), np.bool_)
    heap[0, 0], heap[0, 1] = 0.0, start
    size = 1
    while size:
        at, node = heap[0, 0], np.int64(heap[0, 1])
        size = _pop(heap, size)
        if done[node]:
            continue
        done[node] = True
        if node == end:
            break
        broker, leaving = node >> 1, node & 1
        other, cost, allowed = 2 * broker, -broker_cost[broker], through[broker]
        if not leaving:
            other, cost, allowed = other + 1, -cost, not through[broker] and broker != target
        if allowed:
            size = _relax(node, other, -1, cost, at, far, potential, came, by, heap, size)
        for place in range(near_first[broker], near_first[broker + 1], 2):
            other, link = near[place], near[place + 1]
            if leaving:
                if usable[link] and usable[len(link_cost) + other] and passed[link] < 0 and other != source:
                    size = _relax(node, 2 * other, link, link_cost[link], at, far, potential, came, by, heap, size)
            elif passed[link] == other:
                size = _relax(node, 2 * other + 1, link, -link_cost[link], at, far, potential, came, by, heap, size)
    if not done[end]:
        return False
    for node in range(len(far)):
        potential[node] += min(far[node] if done[node] else far[end], far[end])
    node = end
    while node != start:
        link = by[node]
        if link < 0:
            through[node >> 1] = not through[node >> 1]
        elif passed[link] >= 0:
            passed[link] = -1
        else:
            passed[link] = came[node] >> 1
        node = came[node]
    return True


@nb.njit(cache=True)
def _relax(node, other, link, cost, at, far, potential, came, by, heap, size):
    total = at + max(0.0, cost + potential[node] - potential[other])
    if total < far[other] and size < len(heap):
        far[other] = total
        came[other], by[other] = node, link
        here = size
        while here and heap[(here - 1) >> 1, 0] > total:
            heap[here, 0], heap[here, 1] = heap[(here - 1) >> 1, 0], heap[(here - 1) >> 1, 1]
            here = (here - 1) >> 1
        heap[here, 0], heap[here, 1] = total, other
        size += 1
    return size


@nb.njit(cache=True)
def _pop(heap, size):
    size -= 1
    at, node = heap[size, 0], heap[size, 1]
    here = 0
    while 2 * here + 1 < size:
        child = 2 * here + 1
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= at:
            break
        heap[here, 0], heap[here, 1] = heap[child, 0], heap[child, 1]
        here = child
    heap[here, 0], heap[here, 1] = at, node
    return size

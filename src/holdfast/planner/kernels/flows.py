"""One more disjoint path at least cost (see `disjoint_paths.py`): Dijkstra's search on the graph that is left.

For all pairs of a large network the search is led: what remains to the target, known from one search backwards, is
the first potential, so that the first path is walked straight and later ones look only a little around it."""

import numba as nb
import numpy as np


@nb.njit(cache=True)
def scratch(brokers, links):
    """What `augment` needs to work with: distances, where from, what is done, a heap, what was touched."""
    nodes = 2 * brokers
    far, came, by = np.full(nodes, np.inf), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    heap = np.zeros((nodes + 4 * links + 1, 2))  # every arc is taken up once at most
    return far, came, by, np.zeros(nodes, np.bool_), heap, np.zeros(nodes + 1, np.int64)


@nb.njit(cache=True)
def augment(source, target, graph, usable, passed, through, potential, work):
    """Turn earlier paths where that helps; False when there is no further one.

    Node 2b is where events enter broker b, 2b + 1 where they leave it. `passed` has for each link the broker that a
    path leaves by it, or -1; `through` the brokers in between that a path uses.
    """
    near, near_first, broker_cost, link_cost = graph
    far, came, by, done, heap, touched = work
    start, end = 2 * source + 1, 2 * target
    far[start], heap[0, 0], heap[0, 1] = 0.0, 0.0, start
    touched[0], touched[-1] = start, 1
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
            size = _relax(node, other, -1, cost, at, potential, work, size)
        for place in range(near_first[broker], near_first[broker + 1], 2):
            other, link = near[place], near[place + 1]
            if leaving:
                if usable[link] and usable[len(link_cost) + other] and passed[link] < 0 and other != source:
                    size = _relax(node, 2 * other, link, link_cost[link], at, potential, work, size)
            elif passed[link] == other:
                size = _relax(node, 2 * other + 1, link, -link_cost[link], at, potential, work, size)
    found = done[end]
    if found:
        _turn(start, end, far, came, by, done, touched, passed, through, potential)
    for place in range(touched[-1]):
        far[touched[place]], done[touched[place]] = np.inf, False
    return found


@nb.njit(cache=True)
def _turn(start, end, far, came, by, done, touched, passed, through, potential):
    """Take the path that was found; nodes beyond its end keep their potential, the others fall behind it."""
    for place in range(touched[-1]):
        node = touched[place]
        if done[node]:
            potential[node] += far[node] - far[end]
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


@nb.njit(cache=True)
def _relax(node, other, link, cost, at, potential, work, size):
    far, came, by, _, heap, touched = work
    total = at + max(0.0, cost + potential[node] - potential[other])
    if total < far[other] and size < len(heap):
        if far[other] == np.inf:
            touched[touched[-1]] = other
            touched[-1] += 1
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


@nb.njit(cache=True)
def bounds_to(target, steps, first, links, graph, broker_share, link_share):
    """For each path to the target: P(one of the best disjoint paths is up), and the same without those that meet it.

    `steps` has the brokers of the paths one after the other, `first` where each begins, `links` the links between.
    """
    near, near_first, broker_cost, link_cost = graph
    brokers, paths = len(broker_cost), len(first) - 1
    led = _costs_to(target, graph)
    usable = np.ones(len(link_cost) + brokers, np.bool_)
    passed, through, potential = np.empty(len(link_cost), np.int64), np.empty(brokers, np.bool_), np.empty(2 * brokers)
    work = scratch(brokers, len(link_cost))
    on_broker, on_link = np.full(brokers, -1), np.full(len(link_cost), -1)
    best, apart = np.zeros(paths), np.zeros(paths)
    for path in range(paths):
        source = steps[first[path]]
        for at in range(first[path] + 1, first[path + 1] - 1):
            on_broker[steps[at]] = path
        for at in range(first[path], first[path + 1] - 1):
            on_link[links[at - path]] = path
        passed[:], through[:], potential[:] = -1, False, led
        rounds = min(near_first[source + 1] - near_first[source], near_first[target + 1] - near_first[target]) // 2
        for _ in range(rounds):
            if not augment(source, target, graph, usable, passed, through, potential, work):
                break
            share, other = _one_is_up(
                source, target, path, near, near_first, passed, broker_share, link_share, on_broker, on_link
            )
            if share > best[path]:
                best[path], apart[path] = share, other
    return best, apart


@nb.njit(cache=True)
def _one_is_up(source, target, path, near, near_first, passed, broker_share, link_share, on_broker, on_link):
    """Of the paths in `passed`, and of those among them that share nothing with the default path of this number."""
    up, none, other_up, other_none = 0.0, 1.0, 0.0, 1.0
    for start in range(near_first[source], near_first[source + 1], 2):
        if passed[near[start + 1]] != source:
            continue
        broker, link, share, meets = near[start], near[start + 1], 1.0, False
        while True:
            share *= link_share[link]
            meets = meets or on_link[link] == path
            if broker == target:
                break
            share *= broker_share[broker]
            meets = meets or on_broker[broker] == path
            for at in range(near_first[broker], near_first[broker + 1], 2):
                if passed[near[at + 1]] == broker:
                    broker, link = near[at], near[at + 1]
                    break
        up += none * share
        none *= 1 - share
        if not meets:
            other_up += other_none * share
            other_none *= 1 - share
    return up, other_up


@nb.njit(cache=True)
def _costs_to(target, graph):
    """Minus what it costs to go on to the target, from entering and from leaving each broker: a potential."""
    near, near_first, broker_cost, link_cost = graph
    brokers = len(broker_cost)
    nothing, work = np.zeros(brokers), scratch(brokers, len(link_cost))
    far, _, _, done, heap, _ = work
    far[target], heap[0, 0], heap[0, 1] = 0.0, 0.0, target
    size = 1
    while size:
        at, broker = heap[0, 0], np.int64(heap[0, 1])
        size = _pop(heap, size)
        if done[broker]:
            continue
        done[broker] = True
        for place in range(near_first[broker], near_first[broker + 1], 2):
            other, link = near[place], near[place + 1]
            size = _relax(broker, other, link, link_cost[link] + broker_cost[other], at, nothing, work, size)
    led = np.zeros(2 * brokers)  # who cannot reach the target is never asked
    for broker in range(brokers):
        if done[broker] and broker != target:
            led[2 * broker], led[2 * broker + 1] = -far[broker], broker_cost[broker] - far[broker]
    return led

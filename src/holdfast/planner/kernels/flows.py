"""One more disjoint path at least cost (see `disjoint_paths.py`): Dijkstra's search on the graph that is left.

For all pairs of a large network the search is led: what remains to the target, known from one search backwards, is
the first potential: the first path goes straight by it, and searches for later ones look only a little around. What is
known of a node stands together, and so does the heap, because their places are what a search waits for."""

import numba as nb
import numpy as np

# Handing arrays to a function that stays a function costs atomic reference counting: too much in a loop.
_inlined = nb.njit(inline="always")

# Of a node: its distance in this search, its potential, the node before it, and the link to it or -1.
_NODE = np.dtype([("far", np.float64), ("potential", np.float64), ("came", np.int32), ("by", np.int32)])
_ENTRY = np.dtype([("far", np.float64), ("node", np.int64)])


def scratch(brokers: int, links: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `augment` needs to work with: nodes, a heap, and what was touched with how much that is behind it."""
    nodes = np.zeros(2 * brokers, _NODE)
    nodes["far"] = np.inf
    return nodes, np.zeros(2 * brokers + 4 * links + 1, _ENTRY), np.zeros(2 * brokers + 1, np.int64)


@nb.njit(cache=True)
def augment(source, target, graph, passed, through, work):
    """Turn earlier paths where that helps; False when there is no further one.

    Node 2b is where events enter broker b, 2b + 1 where they leave it. `passed` has for each link the broker that a
    path leaves by it, or -1; `through` the brokers in between that a path uses. What costs infinity is not used.
    """
    near, near_first, broker_cost, link_cost = graph
    nodes, heap, touched = work
    start, end = 2 * source + 1, 2 * target
    touched[-1] = 0
    size = _push(start, start, -1, 0.0, nodes, heap, touched, 0)
    while size:
        at, node = heap[0].far, heap[0].node
        if node == end:
            break
        size = _pop(heap, size)
        if at > nodes[node].far:
            continue  # it was nearer already
        broker, here = node >> 1, at + nodes[node].potential
        leaving = node & 1
        if leaving and through[broker]:
            step = here - broker_cost[broker] - nodes[node - 1].potential
            size = _enter(node - 1, node, -1, max(at, step), target, through, broker_cost, work, size)
        for place in range(near_first[broker], near_first[broker + 1], 2):
            other, link = near[place], near[place + 1]
            if leaving:
                if passed[link] < 0 and other != source:
                    step = here + link_cost[link] - nodes[2 * other].potential
                    size = _enter(2 * other, node, link, max(at, step), target, through, broker_cost, work, size)
            elif passed[link] == other:
                step = here - link_cost[link] - nodes[2 * other + 1].potential
                size = _push(2 * other + 1, node, link, max(at, step), nodes, heap, touched, size)
    found = size > 0
    if found:
        _turn(start, end, work, passed, through)
    for place in range(touched[-1]):
        nodes[touched[place]].far = np.inf
    return found


@_inlined
def _enter(node, before, link, far, target, through, broker_cost, work, size):
    """Reach a node where a broker is entered. Where no path goes through it, there is only one way on: it is taken at
    once, and does not wait in the heap."""
    nodes, heap, touched = work
    broker = node >> 1
    if broker == target or through[broker]:
        return _push(node, before, link, far, nodes, heap, touched, size)
    if far < nodes[node].far and far < nodes[2 * target].far:
        if nodes[node].far == np.inf:
            touched[touched[-1]] = node
            touched[-1] += 1
        nodes[node].far, nodes[node].came, nodes[node].by = far, before, link
        step = far + broker_cost[broker] + nodes[node].potential - nodes[node + 1].potential
        if max(far, step) < nodes[2 * target].far:
            return _push(node + 1, node, -1, max(far, step), nodes, heap, touched, size)
    return size


@_inlined
def _push(node, before, link, far, nodes, heap, touched, size):
    if far < nodes[node].far and size < len(heap):
        if nodes[node].far == np.inf:
            touched[touched[-1]] = node
            touched[-1] += 1
        nodes[node].far, nodes[node].came, nodes[node].by = far, before, link
        here = size
        while here and heap[(here - 1) >> 1].far > far:
            heap[here].far, heap[here].node = heap[(here - 1) >> 1].far, heap[(here - 1) >> 1].node
            here = (here - 1) >> 1
        heap[here].far, heap[here].node = far, node
        return size + 1
    return size


@_inlined
def _pop(heap, size):
    size -= 1
    at, node = heap[size].far, heap[size].node
    here = 0
    while 2 * here + 1 < size:
        child = 2 * here + 1
        if child + 1 < size and heap[child + 1].far < heap[child].far:
            child += 1
        if heap[child].far >= at:
            break
        heap[here].far, heap[here].node = heap[child].far, heap[child].node
        here = child
    heap[here].far, heap[here].node = at, node
    return size


@nb.njit(cache=True)
def _turn(start, end, work, passed, through):
    """Take the path that was found; nodes beyond its end keep their potential, the others fall behind it."""
    nodes, _, touched = work
    reach = nodes[end].far
    for place in range(touched[-1]):
        if nodes[touched[place]].far < reach:
            nodes[touched[place]].potential += nodes[touched[place]].far - reach
    node = end
    while node != start:
        link, before = nodes[node].by, nodes[node].came
        if link < 0:
            through[node >> 1] = not through[node >> 1]
        elif passed[link] >= 0:
            passed[link] = -1
        else:
            passed[link] = before >> 1
        node = before


@nb.njit(cache=True)
def bounds_to(target, sources, onward, by, graph, broker_share, link_share, work):
    """For each source: P(one of the best disjoint paths is up), and the same without those that meet its default path.

    The default path goes by `onward` and `by`, which have each broker's next one and the link to it.
    """
    near, near_first, broker_cost, link_cost = graph
    brokers = len(broker_cost)
    nodes, _, touched = work
    led, straight, straight_by = _costs_to(target, graph, work)
    for node in range(2 * brokers):
        nodes[node].potential = led[node]
    passed, through = np.full(len(link_cost), -1), np.zeros(brokers, np.bool_)
    on_broker, on_link = np.full(brokers, -1), np.full(len(link_cost), -1)
    best, apart = np.zeros(len(sources)), np.zeros(len(sources))
    most = np.full(brokers, brokers)  # disjoint paths that a source can have, as far as is known
    moved, is_moved = np.empty(2 * brokers, np.int64), np.zeros(2 * brokers, np.bool_)
    for row in range(len(sources)):
        source = sources[row]
        broker = source
        while broker != target:
            on_broker[broker], on_link[by[broker]] = row, row
            broker = onward[broker]
        moves = 0
        rounds = min(near_first[source + 1] - near_first[source], near_first[target + 1] - near_first[target]) // 2
        for found in range(min(rounds, most[source])):
            if found == 0:  # what a search along the potential would find
                broker = source
                while broker != target:
                    link, following = straight_by[broker], straight[broker]
                    passed[link], through[following] = broker, following != target
                    is_moved[2 * broker], moved[moves] = True, 2 * broker
                    moves += 1
                    broker = following
            elif not augment(source, target, graph, passed, through, work):
                # What the search has seen is cut off from the target by as many brokers and links as there are paths;
                # so is every other source there, and need not search all of it again.
                for place in range(touched[-1]):
                    node = touched[place]
                    if node & 1:
                        most[node >> 1] = min(most[node >> 1], found)
                break
            for place in range(touched[-1] if found else 0):
                if not is_moved[touched[place]]:
                    is_moved[touched[place]] = True
                    moved[moves] = touched[place]
                    moves += 1
            share, other = _one_is_up(
                source, target, row, near, near_first, passed, broker_share, link_share, on_broker, on_link
            )
            if share > best[row]:
                best[row], apart[row] = share, other
        for place in range(moves):  # only what was changed is as it was: a network has many more nodes
            node = moved[place]
            nodes[node].potential, is_moved[node] = led[node], False
            if through[node >> 1] or node >> 1 == source:
                through[node >> 1] = False
                for at in range(near_first[node >> 1], near_first[(node >> 1) + 1], 2):
                    passed[near[at + 1]] = -1
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
def _costs_to(target, graph, work):
    """Minus what it costs to go on to the target, from entering and from leaving each broker: a potential. And the
    cheapest way, by each broker's next one and the link to it."""
    near, near_first, broker_cost, link_cost = graph
    brokers = len(broker_cost)
    nodes, heap, touched = work
    straight, straight_by = np.full(brokers, -1), np.full(brokers, -1)
    led = np.zeros(2 * brokers)  # who cannot reach the target is never asked
    touched[-1] = 0
    size = _push(2 * target, 2 * target, -1, 0.0, nodes, heap, touched, 0)
    while size:
        at, broker = heap[0].far, heap[0].node >> 1
        size = _pop(heap, size)
        if at > nodes[2 * broker].far:
            continue
        if broker != target:
            led[2 * broker], led[2 * broker + 1] = -at, broker_cost[broker] - at
            straight[broker], straight_by[broker] = nodes[2 * broker].came >> 1, nodes[2 * broker].by
        for place in range(near_first[broker], near_first[broker + 1], 2):
            other, link = near[place], near[place + 1]
            far = at + link_cost[link] + broker_cost[other]
            size = _push(2 * other, 2 * broker, link, far, nodes, heap, touched, size)
    for place in range(touched[-1]):
        nodes[touched[place]].far = np.inf
    return led, straight, straight_by

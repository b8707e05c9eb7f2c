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
def packed(part, link_up, near, near_first):
    """Worlds as bits, because in nearly all of them nearly all that is up is one part, the main one.

    Rows of bits by broker, a bit for each world: `inside` the main part, and `beside` it, which is inside, or down and
    linked to it. What that leaves out are circles: another part together with the down brokers that are linked to it,
    or two down brokers and the link between them. Of each circle, one after the other: its world, where its brokers
    begin, and the brokers with whether they are up; and of each broker, where its circles begin, and the circles.
    """
    worlds, brokers = part.shape
    inside = np.zeros((brokers, (worlds + 63) // 64), np.uint64)
    beside = np.zeros((brokers, (worlds + 63) // 64), np.uint64)
    world_of, begins, members, are_up = [0], [0], [0], [False]
    world_of.clear(), begins.clear(), members.clear(), are_up.clear()
    for world in range(worlds):
        here, lines = part[world], link_up[world]
        word, bit = world >> 6, np.uint64(1) << np.uint64(world & 63)
        main = _main_part(here)
        for broker in range(brokers):
            if here[broker] == main:
                inside[broker, word] |= bit
                beside[broker, word] |= bit
            elif here[broker] < 0:
                for at in range(near_first[broker], near_first[broker + 1], 2):
                    if lines[near[at + 1]] and here[near[at]] == main:
                        beside[broker, word] |= bit
                        break
        known = len(begins)
        _add_circles(here, lines, main, beside[:, word] & bit, near, near_first, begins, members, are_up)
        for _ in range(len(begins) - known):
            world_of.append(world)
    begins.append(len(members))
    first, of = _by_member(begins, members, brokers)
    circles = (
        np.array(world_of, np.int32),
        np.array(begins, np.int64),
        np.array(members, np.int32),
        np.array(are_up, np.bool_),
    )
    return inside, beside, circles, first, of


@nb.njit(cache=True)
def _main_part(here):
    sizes = np.zeros(len(here) + 1, np.int64)
    for number in here:
        sizes[number] += 1  # those that are down are counted at the end, which no part has
    return np.argmax(sizes[:-1])


@nb.njit(cache=True)
def _add_circles(here, lines, main, is_beside, near, near_first, begins, members, are_up):
    """Those of one world."""
    brokers = len(here)
    waiting, seen = np.empty(brokers, np.int64), np.full(brokers, -1)
    for broker in range(brokers):
        if here[broker] < 0:
            for at in range(near_first[broker], near_first[broker + 1], 2):
                other = near[at]
                if other > broker and here[other] < 0 and lines[near[at + 1]]:
                    if not (is_beside[broker] and is_beside[other]):
                        begins.append(len(members))
                        members.append(broker)
                        members.append(other)
                        are_up.append(False)
                        are_up.append(False)
            continue
        if here[broker] == main or seen[broker] >= 0:
            continue
        begins.append(len(members))
        number = here[broker]
        waiting[0], seen[broker] = broker, number
        head, tail = 0, 1
        while head < tail:
            member = waiting[head]
            head += 1
            members.append(member)
            are_up.append(here[member] >= 0)
            if here[member] < 0:
                continue  # who is down may be in several circles
            for at in range(near_first[member], near_first[member + 1], 2):
                if lines[near[at + 1]] and seen[near[at]] != number:
                    seen[near[at]] = number
                    waiting[tail] = near[at]
                    tail += 1


@nb.njit(cache=True)
def _by_member(begins, members, brokers):
    """Where each broker's circles begin, and the circles."""
    first = np.zeros(brokers + 1, np.int64)
    for broker in members:
        first[broker + 1] += 1
    first = np.cumsum(first)
    of, place = np.empty(len(members), np.int32), first[:-1].copy()
    for circle in range(len(begins) - 1):
        for at in range(begins[circle], begins[circle + 1]):
            of[place[members[at]]] = circle
            place[members[at]] += 1
    return first, of


@nb.njit(cache=True)
def count_reached(target, sources, row_of, block, counts):
    """Add, for each source, the worlds in which it is connected with the target: as they are, and if both were up.

    `row_of` has each broker's place among the sources, or -1.
    """
    inside, beside, (world_of, begins, members, are_up), first, of = block
    own_inside, own_beside = inside[target], beside[target]
    for row in range(len(sources)):
        there, joined = 0, 0
        other_inside, other_beside = inside[sources[row]], beside[sources[row]]
        for word in range(len(own_inside)):
            there += _ones(own_inside[word] & other_inside[word])
            joined += _ones(own_beside[word] & other_beside[word])
        counts[row, 0] += there
        counts[row, 1] += joined
    known = np.full(len(row_of), -1)  # the last world in which a broker was counted by a circle
    for place in range(first[target], first[target + 1]):
        circle = of[place]
        world = world_of[circle]
        word, bit = world >> 6, np.uint64(1) << np.uint64(world & 63)
        is_up = False
        for at in range(begins[circle], begins[circle + 1]):
            if members[at] == target:
                is_up = are_up[at]
        is_beside = own_beside[word] & bit != 0
        for at in range(begins[circle], begins[circle + 1]):
            broker = members[at]
            row = row_of[broker]
            if row < 0 or broker == target:
                continue
            if is_up and are_up[at]:
                counts[row, 0] += 1
            if known[broker] != world and not (is_beside and beside[broker, word] & bit != 0):
                known[broker] = world
                counts[row, 1] += 1


@nb.njit(cache=True)
def _ones(word):
    """How many bits are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))

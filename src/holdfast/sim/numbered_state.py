"""What links that repair their own losses remember, as arrays: where each number stands, for compiled code.

`protocol/hops` has the machines with the same numbers and names; sim/numbered_links.py has the steps.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEVER_US = 2**62
NONE = -1

# What is to happen: a heap of rows, ordered by the first two columns.
TIME_US, ORDER, KIND, LINK, A, B, C = range(7)
NUMBERED, NACK, HIGHEST_SENT, TIMER = range(4)  # kinds; a timer has the number of a broker in the place of a link
VIA_BIT, AGAIN_BIT, HOPS_SHIFT = (
    1,
    2,
    2,
)  # of C, for an event: how it came, whether it is sent once more, brokers passed
FIRST_BIT, LAST_BIT = 1, 2  # of C, for a request: it has a row for each number that it asks for

# One number each for all.
STATE = range(10)
COUNT, ORDERS, ENTRY, ARRIVED, GIVEN_UP, FLYING, BUSY, HOLES, FREE_HOLE, DICE_LOW = STATE
NOW_US, UNKEPT = 10, 11
STATE_SIZE = 12

# A row for each direction of each link between brokers, of its sender:
STREAM, SEQ, SENT_US, ANNOUNCEMENTS, SENDER_DUE_US, SENDER_BUSY = range(6)
# of its receiver:
BEGUN, HIGHEST, RECEIVER_DUE_US, PATIENCE_US, LOST, FIRST_HOLE, LAST_HOLE, HOLE_COUNT = range(6, 14)
# and of itself: the edge of the picture, the direction back, the brokers at its ends.
EDGE, BACK, SENDER, RECEIVER = range(14, 18)
LINK_SIZE = 18
ANSWER_US, VARIES_US = 0, 1  # what a receiver has learned about answers; the first is negative before it has

# A ring of what was sent, for each link. The event is NONE once nobody waits for this copy of it.
RING_KEY, RING_EVENT, RING_SIZE, RING_FLAGS = range(4)

HOLE_SEQ, NOTICED_US, HOLE_DUE_US, ASKED_US, TRIES, NEXT_HOLE = range(6)
HOLE_SIZE = 6

DUE_US, WAKE_US = 0, 1  # of a broker: when one of its links is due, and the timer that counts

# What a run is about, in one array.
(RING, IDLE_US, BEATS, TRIES_MAX, WAIT_MAX_US, FIRST_WAIT_US, SLACK_US, HOPS_MAX, LOSSY_CONTROL) = range(9)
(NUMBERED_BYTES, VIA_BYTES, NACK_BYTES, HIGHEST_BYTES, DELIVER_BYTES_LESS) = range(9, 14)
SETTINGS_SIZE = 14

RESENT, NACKS, HIGHESTS = 0, 1, 2  # rows of counts beside those of flights
SENT, SENT_BYTES, LOST_COUNT, RECEIVED = range(4)

DICE_BLOCK, DICE_MARGIN = 256, 64  # random numbers at hand for each link; one thing that happens takes fewer than these


class KnownEvents(NamedTuple):
    """Events by their numbers, which are used again."""

    key: NDArray[np.uint64]
    bytes: NDArray[np.int64]  # of the message that carries it between brokers, without a number
    starts: NDArray[np.int64]  # where the conditions that it meets start,
    lengths: NDArray[np.int64]  # and how many there are
    conditions: NDArray[np.int32]


class Arrays(NamedTuple):
    """All that compiled code works on: what is remembered from one call to the next, and the network as it is."""

    settings: NDArray[np.int64]
    state: NDArray[np.int64]
    heap: NDArray[np.int64]
    links: NDArray[np.int64]
    answers: NDArray[np.float64]
    ring: NDArray[np.int64]
    holes: NDArray[np.int64]
    brokers: NDArray[np.int64]
    dice: NDArray[np.float64]
    drawn: NDArray[np.int64]
    outstanding: NDArray[np.int64]  # by event: copies of it that somebody waits for
    counts: NDArray[np.int64]
    more: NDArray[np.int64]
    arrived: NDArray[np.int64]  # when, on which edge, which event, and flags: how it came, and brokers passed
    given_up: NDArray[np.int64]  # when, on which edge, how many
    link_of: NDArray[np.int32]  # edge -> link, NONE where it leads to a client or from one
    starts: NDArray[np.int64]  # broker -> where its links start
    outwards: NDArray[np.int32]  # links, by the broker that sends
    # The picture of the network:
    is_client: NDArray[np.bool_]
    receivers: NDArray[np.int32]  # of edges
    keys: NDArray[np.uint64]
    odds: NDArray[np.float64]
    wanted: NDArray[np.uint64]  # as in flights.Tables
    place_edges: NDArray[np.int32]

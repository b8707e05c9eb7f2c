"""What brokers that gossip remember, as arrays: where each number stands, for compiled code.

`protocol/gossip` has the machines with the same numbers and names; sim/gossip_memory.py and what builds on it have the
steps. Brokers, classes (conditions) and events go by their numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# What is to happen: kinds in the heap of sim/numbered_links.py. In the place of a link, what goes past links has the
# broker that gets it, and a round the broker whose it is.
EVENT_ON_LINK, DIGEST, PULL, REQUEST, RECOVERED_EVENT, VECTOR, COMPLETE, ROUND = range(8)
ANYBODY = -1  # of a pull, in the place of the class whose subscribers it goes to; below that, the origin it goes to

# One number each for all; the first ones as in sim/numbered_state.py.
PLACES, NUMBERS, LOSTS = 6, 7, 8  # so many are in use
(FREE_LOST, BODIES, LINKED, FREE_LINKED, TOKEN, RESTLESS, LONGEST, MET_MAX, CAME_AGAIN) = range(11, 20)
GOSSIP_STATE_SIZE = 20

# A row for each broker:
(DUE_US, WAKE_US, INNER_DUE_US, PHASE_US, STRETCH, ASKED, ACTIVE_US, APPEARED, TAKEN, LOCALS) = range(10)
(RING_FIRST, KEPT, PLACES_KEPT, LOST, FIRST_LOST, LAST_LOST, TAGS, ORIGINS, NOTICED, UNSURE_BEGUN) = range(10, 20)
(UNREPORTED, ROUNDS, SILENT, RECOVERED, TWICE, NOT_OURS, OPEN, FIRST_EDGE) = range(20, 28)
BROKER_SIZE = 28

# For each broker and class: when it began to number; which of the classes of its clients it is, since when; the events
# that it has numbered, in a part of a pool; and the events that it keeps, as a list.
BEGAN_US, LOCAL, WANTED_US, NUMBERS_AT, NUMBERS_MAX, LAST_NUMBER, FIRST_LINKED, LAST_LINKED = range(8)
CLASS_SIZE = 8

# A stream: for each broker, origin and class of its clients, the number to come next and the numbers that are lost.
# Streams of which something is lost are in lists by class and by origin.
NEXT, UNSURE, FIRST, LAST, COUNT_LOST, NEXT_OF_TAG, BEFORE_OF_TAG, NEXT_OF_ORIGIN, BEFORE_OF_ORIGIN = range(9)
STREAM_SIZE = 9

# For each broker and origin: its list of streams, whether the way back is known, and what `reconcile` remembers.
(FIRST_STREAM, LAST_STREAM, ROUTE, GIVEN_UP_OF, PARTNER, PARTNER_DUE_US, HEARD_US, WAIT_US) = range(8)
(MISSING, UNSURE_TIMES, TRIES_OF, SILENCES, IS_OPEN) = range(8, 13)
ORIGIN_SIZE = 13

STREAM, NUMBER, NOTICED_US, BEFORE_LOST, AFTER_LOST, BEFORE_AGE, AFTER_AGE = range(7)  # of a lost number
LOST_SIZE = 7

# Of an event; its places are its numbers in classes.
KEY, SIZE, CONDITIONS_AT, CONDITIONS, ORIGIN, SOURCE, SEQ_OF, PUBLISHED_US = range(8)
PLACES_AT, PLACE_COUNT, STAMP_BYTES, MARK = range(8, 12)
EVENT_SIZE = 12
PLACE_CLASS, PLACE_NUMBER, PLACE_BEGAN_MS = range(3)

IS_SEEN, IS_KEPT = 1, 2  # flags of an event at a broker; at a client, whether it has got it

# What a message tells, in a pool: how long that is, who began it, its bytes, how many entries.
BODY_SIZE, BEGUN_BY, BODY_BYTES, ENTRIES, BODY_HEAD = range(5)

# Columns of the ways between brokers: the link towards an origin, bytes of the names from there to here, links between.
TOWARDS, NAMES_BYTES, DISTANCE = range(3)

# What a run is about, in one array.
(STYLE, INTERVAL_US, BUFFER, LOST_US, ADAPTIVE, TRANSFER_US, KEPT_US, LOST_MAX, PLACES_MAX) = range(9)
(DIGEST_MAX, STRETCH_MAX, HOPS_LIMIT, AT_ONCE, SETTLE_US, RETRY_US, RETRY_MAX_US, TRIES_ORIGIN) = range(9, 17)
(SYNC_US, SYNC_TRIES, SYNC_MAX_US, SETTLED_US, SEARCHED_US, DELIVER_LESS, VIA_MORE) = range(17, 24)
(DIGEST_BYTES, PULL_BYTES, REQUEST_BYTES, EVENT_BYTES, VECTOR_BYTES, COMPLETE_BYTES) = range(24, 30)
GOSSIP_SETTINGS_SIZE = 30
FORWARD, TO_SOURCE = 0, 1  # chances

PUSH, SUBSCRIBERS, PUBLISHER, COMBINED, RANDOM, RECONCILE = range(6)  # styles
# Rows of counts beside those of flights:
DIGESTS, PULLS, REQUESTS, EVENTS, VECTORS, COMPLETES = range(6)
OF_EVENTS, OF_RECOVERY = 0, 1  # bytes on a link


class Gossiping(NamedTuple):
    """All that compiled code works on: what is remembered from one call to the next, and the network as it is."""

    settings: NDArray[np.int64]
    chances: NDArray[np.float64]
    state: NDArray[np.int64]
    heap: NDArray[np.int64]
    links: NDArray[np.int64]  # as in numbered_state
    lines: NDArray[np.int64]  # of links, as in sim/links.py: what waits for them, and what they can do
    brokers: NDArray[np.int64]
    classes: NDArray[np.int64]  # broker * classes + class
    order: NDArray[np.int64]  # broker: classes as they appeared
    own: NDArray[np.int64]  # broker: classes of its clients
    streams: NDArray[np.int64]  # (broker * brokers + origin) * own classes + own class
    tags: NDArray[np.int64]  # broker, own class: the first and last stream of which something is lost
    tag_order: NDArray[np.int64]  # broker: own classes of which something is lost, as that was noticed
    origins: NDArray[np.int64]  # broker * brokers + origin
    origin_order: NDArray[np.int64]
    lost: NDArray[np.int64]
    ring: NDArray[np.int64]  # broker: events kept, and since when
    linked: NDArray[np.int64]  # lists of events by class: the event, the next
    numbers: NDArray[np.int64]  # pool: events by number
    events: NDArray[np.int64]
    conditions: NDArray[np.int32]  # pool: what events meet
    places: NDArray[np.int64]
    flags: NDArray[np.uint8]  # node, event
    bodies: NDArray[np.int64]
    scratch: NDArray[np.int64]
    dice: NDArray[np.float64]  # of links, then of brokers
    drawn: NDArray[np.int64]
    counts: NDArray[np.int64]
    more: NDArray[np.int64]
    link_bytes: NDArray[np.int64]
    arrived: NDArray[np.int64]  # when, on which edge, which event, whether recovered
    again: NDArray[np.int64]  # the same of what clients had already
    given_up: NDArray[np.int64]  # when, broker, origin, how many
    ways: NDArray[np.int64]  # origin, broker
    name_bytes: NDArray[np.int64]  # node
    tag_bytes: NDArray[np.int64]  # class
    ranks: NDArray[np.int64]  # broker, by name
    starts: NDArray[np.int64]  # broker -> where its links start
    outwards: NDArray[np.int32]  # links, by the broker that sends
    link_of: NDArray[np.int32]  # edge -> link
    # The picture of the network:
    is_client: NDArray[np.bool_]
    receivers: NDArray[np.int32]  # of edges
    keys: NDArray[np.uint64]
    odds: NDArray[np.float64]
    wanted: NDArray[np.uint64]
    place_edges: NDArray[np.int32]

"""What a node counts for the figures of the paper."""

Counts = dict[str, int]

DETECTED = "losses detected"  # from records
OVERHEARD = "losses overheard"  # from another's request
CAME_LATE = "only late"  # the event itself came before anybody asked for it
ASKED = "requests sent"
ASKED_FIRST = "first requests sent"  # in the first round
ASKED_TWICE = "duplicate requests sent"  # of those: another had asked already, but we could not know
HEARD_TWICE = "duplicate requests heard"  # in the first round, after we had asked
WANTED = "publications asked for"  # by us
ANSWERED = "publications answered"  # of those: came as a repair; the ratio is the hit ratio of the network
ABANDONED = "losses abandoned"
REFUSED = "losses refused"  # because too many are being looked for
REPAIRED = "repairs sent"
REPAIRED_TWICE = "duplicate repairs sent"  # another had sent it already, but we could not know
NOT_REPAIRED = "repairs refused"  # because too many are about to be sent, or it does not fit
HITS = "cache hits"  # requests for what we keep
MISSES = "cache misses"  # requests for what we had and keep no longer; the ratio is the hit ratio of the node
SOFT_STATE = "records sent alone"

# Gauges: how much is kept, and how much caches may hold (K), of all publishers that are followed.
KEPT = "publications kept"
FOLLOWED = "publishers followed"
LENGTHS = "lengths of caches"  # in all
LONGEST = "longest cache"
SHORTEST = "shortest cache"

# What a recovery consists of, for the one whose own request was answered.
DETECTION = "detection"  # from the departure of the publication
REQUEST = "request"  # from there to our request
REPAIR = "repair"  # from our request to the sending of the repair, as the paper counts
ANSWER = "answer"  # from our request to the arrival of the repair
PHASES = (DETECTION, REQUEST, REPAIR, ANSWER)

_ALL = (
    DETECTED,
    OVERHEARD,
    CAME_LATE,
    ASKED,
    ASKED_FIRST,
    ASKED_TWICE,
    HEARD_TWICE,
    WANTED,
    ANSWERED,
    ABANDONED,
    REFUSED,
    REPAIRED,
    REPAIRED_TWICE,
    NOT_REPAIRED,
    HITS,
    MISSES,
    SOFT_STATE,
)


def new_counts() -> Counts:
    return dict.fromkeys(_ALL, 0)

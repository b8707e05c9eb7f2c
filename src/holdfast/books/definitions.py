"""Numbers and lists that are part of what a promise means (docs/promises.md).

Both judges take them from here: they work independently, but they judge the same promise.
"""

from holdfast.model.incidents import KINDS

# P3
LEARNT = 20  # events of a source from which a subscriber learns how long to wait: they may come in any order,
LEARNT_US = 2_000_000  # as may those before the source has been told that somebody keeps its order
STANDARD_ERRORS = 3  # by which a share may be above its target: one honest run in a thousand

# P4 and P5: what may cost an event, and how much
CARRIERS = ("Publish", "Deliver")  # kinds of message that carry events for the first time
LAST_HOP = ("Deliver", "DeliverControl")  # from a broker to a client: an event, or what recovering clients say
TABLES = ("Delta", "Snapshot", "LinkState")  # kinds of message that carry conditions,
TABLE_CHECKS = (*TABLES, "Heartbeat")  # and the one that finds out that they got lost
TAKEN_DOWN, BROUGHT_UP = "link_down", "link_up"  # any link: one may come up in place of another
OUTAGES = {"crash": "restart", "link_failed": "link_recovered"}  # of one node, or of one link
REPLACED = "replica_ready"  # it ends the outage of the broker that it names
NAMING_FOR_ALL = frozenset({"expired"})  # the incident names the event, which no subscriber gets then
NAMING = frozenset({"unrecoverable", "out_of_order"})  # it names the event that the reporting subscriber does not get
ERASING = frozenset({"retention_expired", "stored_events_dropped", "backlog_dropped"})  # stored events, as counted
HANDED_ON = frozenset({"group_handed_on"})  # of a group, as counted, to a second member: the first may have it, too
COSTING_ONE = ERASING | {  # each of `count` costs one event
    *("queue_full", "dropped", "unsent", "oversized", "events_dropped", "no_route", "too_many_hops", "bad_frames"),
    *("link_repair_failed", "published_while_detached", "unacknowledged_limit", "forged_source", "forged_number"),
    *("group_events_dropped", "group_yielded"),
    *("replica_not_ready", "replica_backlog_overflow", "replica_cache_overflow", "replica_backlog_dropped"),
}
HARMLESS = frozenset(
    {
        *("duplicate", "not_subscribed", "acknowledged", "neighbour_restarted", "connected", "replica_wanted"),
        *("reloaded", "reload_refused", "refused", "tls_refused", "bad_record", "store_full", "routing_circle"),
    }
)
DISTURBING = (
    KINDS.keys() - NAMING_FOR_ALL - NAMING - COSTING_ONE - HARMLESS - HANDED_ON
)  # for a while after it, and just before
DROPPING = frozenset({"duplicate", "not_subscribed", "expired", "out_of_order"})  # why what came is not handed over
HELD_BACK = "messages held back"  # the sample of a subscriber that keeps order: what came and is not handed over yet
FOLLOWED = "publishers followed"  # the sample of a subscriber that recovers: at its limit, others are not followed
LEASES = 2  # after a disturbance, until all tables are right again
HEARTBEATS = 2  # after a disturbance, until stored events move again
_UNLUCKY = 1e-6  # the share of honest runs in which conditions take longer than allowed

# P6
LATELY_US = 2_000_000  # before a failure: as long as events took then, one may have been on its way when it happened


def heartbeats_waited(lost_share: float, hops: int) -> int:
    """How often a condition waits for the next heartbeat on its way over so many hops, at most.

    A hop needs a message and, when that is lost, a heartbeat and a message again: both have to get through.
    """
    if not lost_share:
        return 0
    works = (1 - min(lost_share, 0.9)) ** 2  # beyond that a lease expires first, which is an incident
    likelihood = works**hops  # of no wait; then of one more each time (the negative binomial distribution)
    left, waits = 1 - likelihood, 0
    while left > _UNLUCKY:
        waits += 1
        likelihood *= (1 - works) * (hops + waits - 1) / waits
        left -= likelihood
    return waits

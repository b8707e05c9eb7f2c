"""Every kind of incident that a node can report: an identifier for machines, a sentence for people.

The list is closed. Logs, metrics and the table `incidents` of a trace use these kinds and no others, so that whoever
reads them needs to parse no prose. What else there is to say of an incident stands in typed fields beside its kind.
docs/incidents.md shows the same sentences, and adds what to do.
"""

from typing import Final

from holdfast.model.replication_messages import ReplicaUse

CONNECTIONS: Final = {
    "connected": "A neighbour has connected.",
    "disconnected": "A neighbour has disconnected; the log says why.",
    "cannot_connect": "A peer cannot be reached; the broker dials it again, with growing pauses.",
    "name_taken": "A peer refuses this broker because another one has its name; this broker refuses clients meanwhile.",
    "refused": "This broker refused a connection: a name in use, another version, no greeting.",
    "mqtt_client": "A client of MQTT broke a rule or asked for something that it cannot have; the log says what.",
    "tls_refused": "A connection failed the TLS handshake: no certificate, an untrusted one, or no TLS at all.",
    "accept_paused": "The process has no file descriptor left; the broker accepts nobody for a second and tries again.",
    "half_open_closed": "Too many connections had not said who they are; the one that was there longest was closed.",
    "over_budget": "A client sends more than its budget and is slowed; over UDP the rest is dropped.",
    "http_refused": "A host asks for /metrics or /health more often than its budget allows; it gets 429.",
    "session_lost": "A client's broker has not kept its session; events may be missing.",
    "events_dropped": "A client's broker has dropped events for it, because it read too slowly.",
    "backpressure_ended": "A neighbour read nothing for so long that the broker no longer waits for it.",
    "lease_expired": "Nothing was heard from a neighbour for `lease_s`; it is forgotten until it speaks again.",
    "neighbour_restarted": "A neighbour has restarted; both sides exchange snapshots of their tables.",
    "neighbour_down": "A neighbour is silent; events take another route.",
    "neighbour_up": "A neighbour answers again; events go through it again.",
    "unknown_neighbour": "A message came from a node that has not connected, or was forgotten.",
    "history": "A broker's history could not be written, or lacks events that the broker dropped; the log says which.",
    "reloaded": "The broker has read its peers again.",
    "reload_refused": "The file of `--peers` is wrong; the peers stay as they were.",
    "peer_added": "The file of `--peers` has a new peer.",
    "peer_removed": "The file of `--peers` no longer has a peer.",
}

EVENTS: Final = {
    "expired": "An event's lifetime was over before it arrived.",
    "duplicate": "An event came a second time and was not delivered again.",
    "not_subscribed": "A client got an event that none of its subscriptions matches.",
    "no_route": "No route leads to a broker with subscribers.",
    "too_many_hops": "An event has passed more brokers than allowed.",
    "routing_circle": "An event came again over another link: brokers are linked in a circle, or its publisher moved.",
    "forged_source": "A client published under the name of another one.",
    "forged_number": "A client published with a sequence number far ahead of the time; its clock is wrong, or it lies.",
    "unverified": "An event's signature is missing or wrong; a client refused it, and looks for it if it recovers.",
    "publication_refused": "A client has no right to publish these events; the log says which constraint stopped them.",
    "published_while_detached": "A simulated client published without a broker.",
    "link_repair_failed": "All requests for an event over one link went without answer.",
    "gossip_gave_up": "A broker gave up events that it had lost; its clients do not get them.",
    "unrecoverable": "A client gave up an event that it missed, or may have missed.",
    "out_of_order": "An event came after later ones had been delivered in strict order.",
    "bad_record": "A publisher's record of earlier events cannot be read; the event itself was delivered.",
    "bad_recovery_message": "A control message of recovery cannot be read.",
    "group_handed_on": "Events of a group are handed out again: their member is gone, or the home was restored.",
    "group_events_dropped": "No member of a group had room; the oldest events that waited for one were dropped.",
    "group_yielded": "A group had two homes, as after a partition; the younger one ended, with so many events left.",
    "group_full": "A broker has as many groups as it may have, or a group as many members; one more was not let in.",
    "bad_group_message": "A message to or from a group's home cannot be read, or was not its sender's to send.",
    "queue_full": "A simulated broker dropped a message because its queue was full.",
}

COUNTERS: Final = {
    "dropped": "A node dropped events because a neighbour read too slowly.",
    "unsent": "Messages were still waiting when a connection ended.",
    "oversized": "A message was larger than a frame may be and was not sent.",
    "bad_frames": "Bytes came that are no message of the protocol; the connection was closed.",
}

TABLES: Final = {
    "bad_condition": "A neighbour sent a condition that cannot be parsed; the change is ignored.",
    "untested_condition": "A neighbour sent a condition whose test needs a package that is missing here; it is passed.",
    "too_many_conditions": "A neighbour sent conditions of more filters than `filters_max` or more bytes than "
    "`condition_bytes_max`; the change is refused.",
    "conditions_refused": "A neighbour refused conditions; it sends no events for them.",
    "subscription_narrowed": "A client has no right to a subscription, and got as much of it as it may have.",
    "subscription_refused": "A client has no right to a subscription.",
    "too_many_brokers": "There are more brokers than link states are kept for.",
    "unexpected_message": "A message came that this kind of node does not expect.",
}

STORES: Final = {
    "store": "The store cannot be written, or can be written again.",
    "store_incomplete": "The last transaction of the store's log cannot be read and is left out.",
    "store_full": "The store is full; the sender keeps the event and tries again.",
    "clock_went_back": "A node's sequence numbers begin before those of its last session; its events are refused.",
    "clock_was_set": "The clock was set while the broker was down; the ages of stored events do not follow it.",
    "retention_expired": "An event without lifetime was stored for `keep_s` and nobody fetched it.",
    "stored_events_dropped": "The oldest events stored for a client that is away were erased.",
    "client_forgotten": "A durable client stayed away for too long; its session is erased.",
    "backlog_dropped": "What was stored for a client or a neighbour that left for good is erased.",
    "acknowledged": "A broker has stored these events of a publisher.",
    "unacknowledged_limit": "A client published more than its broker has acknowledged; live clients wait instead.",
}

REPLICATION: Final = {
    "suspected": "A neighbour takes a broker for failed and keeps events for its replica.",
    "suspect_returned": "A suspected broker answers again and gets the backlog.",
    "overloaded": "So many events wait for a broker, or so long, that one more replica is to share its load.",
    "replica_wanted": "Somebody is to start a replica.",
    "replica_started": "A replica has started.",
    "replica_not_needed": "No replica was started, because the broker answers.",
    "failover_requested": "A replica asks a neighbour for tables, to take over from a broker that failed.",
    "scheduling_requested": "A replica asks a neighbour for tables, to share a broker's load.",
    "reordering_requested": "A replica asks a neighbour for tables, to share a broker's load in order.",
    "replica_awaits_advertisements": "A replica waits for the advertisements of its neighbours.",
    "replica_awaits_subscriptions": "A replica waits for the subscriptions of its neighbours.",
    "replica_ready": "A replica has the tables of every neighbour of the broker that it replaces.",
    "replica_incomplete": "A replica goes on without neighbours that did not answer; their events are lost.",
    "neighbour_came_late": "A replica was ready before it knew this neighbour; earlier events for it are lost.",
    "replaced_by": "A neighbour treats the replica as the broker.",
    "replaced": "A broker learned that a replica has taken over from it.",
    "replaced_broker_returned": "A broker that was replaced came back; it is told so and is no neighbour any more.",
    "replica_outdated": "A newer replica has taken over; the older one retires.",
    "replica_lost": "A replica failed before it could take over, or beside the broker that it relieved.",
    "replica_draining": "No neighbour needs a relief replica any more; it asks them to send it nothing more.",
    "replica_relieved": "A neighbour has had the last event of a relief replica, and forgets it.",
    "replica_released": "A relief replica has passed on all that it had, and ends.",
    "replica_ended": "A relief replica that was released has ended.",
    "neighbour_left_out": "A neighbour did not answer the replica, which goes on without it.",
    "replication_failed": "No neighbour answered the replica; it begins anew.",
    "no_replica": "Nobody started a replica in time.",
    "replica_backlog_dropped": "No replica came in time; the events kept for it are dropped.",
    "replica_not_ready": "An event came before the replica knew who wants it, and was dropped.",
    "replica_backlog_overflow": "Too many events waited for a replica; the oldest were dropped.",
    "replica_cache_overflow": "A replica kept too many events while it copied tables; the oldest were dropped.",
    "reorder_buffer_overflow": "Too many events waited to be put in order; the oldest were released.",
    "replica_not_linked": "A neighbour of a live replica was not reached.",
    "replica_address_changed": "A live replica could not have the address of the broker that it replaces.",
}

FAULTS: Final = {
    "crash": "A node was killed.",
    "restart": "A node was started again.",
    "hang": "A node was stopped and does nothing until it is resumed; its connections stay open.",
    "resume": "A node that hung goes on.",
    "link_down": "A link was taken down; both ends learn of it.",
    "link_up": "A link came up; both ends learn of it.",
    "link_failed": "A link began to lose everything; nobody is told.",
    "link_recovered": "A link that lost everything works again.",
    "broker_lost": "A client lost its broker.",
    "task_failed": "The run could not do what its file asks for.",
}

KINDS: Final = {**CONNECTIONS, **EVENTS, **COUNTERS, **TABLES, **STORES, **REPLICATION, **FAULTS}

# What a replica asks for, by what it is for.
REQUESTED: Final[dict[ReplicaUse, str]] = {
    "failover": "failover_requested",
    "scheduling": "scheduling_requested",
    "reordering": "reordering_requested",
}

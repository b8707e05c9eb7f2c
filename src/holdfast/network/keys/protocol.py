"""The keys of reliability, protocol and transport."""

from typing import get_args

from holdfast.model.messages import CopyProtocol
from holdfast.network import limits
from holdfast.network.keys.gossip import GOSSIP_KEYS
from holdfast.network.keys.units import PAUSE, QUEUE, SPAN, seconds
from holdfast.network.shapes import Flag, Number, Text, Word
from holdfast.network.tables import Key, Table
from holdfast.protocol.hops.settings import HandoverSettings, NackSettings, WatchSettings
from holdfast.protocol.order.settings import EstimatorName, LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import ProtocolSettings

_RECOVERY = RecoverySettings()  # the defaults are the machines'; their reasons are told here once more, for users
_LATCH = LatchSettings()
_NACK = NackSettings()
_HANDOVER = HandoverSettings()
_WATCH = WatchSettings()

_RECOVERS = ("recovery", ("end-to-end",))  # what a key goes with
_DIGEST = ("scheme", ("digest",))
_SRM = ("scheme", ("srm",))
_ORDER = ("order", ("fifo", "strict"))
_FIFO = ("order", ("fifo",))
_NACKS = ("hops", ("nack",))
_STORES = ("hops", ("retransmission", "hybrid"))
_WATCHES = ("hops", ("multipath", "hybrid"))


RELIABILITY = Table(
    "reliability",
    "How much reliability to buy.",
    (
        Key(
            "hops",
            Word(("basic", "nack", "retransmission", "multipath", "hybrid")),
            "between neighbouring brokers; basic: sent once; nack: each link notices its own losses and sends again; "
            "retransmission: stored, and sent until the next one has stored it; multipath: round what is down; "
            "hybrid: both",
            "basic",
        ),
        Key(
            "recovery",
            Word(("none", "end-to-end")),
            "of what was lost on the way, by clients; end-to-end: subscribers notice it and ask the publisher",
            "none",
        ),
        *GOSSIP_KEYS,
        Key(
            "order",
            Word(("none", "fifo", "strict")),
            "in which events of one source are delivered; fifo: an event waits while an earlier one is likely to come, "
            "which adds a millisecond or so where links jitter; strict, and fifo with recovery: until it has come or "
            "is given up, which adds a repair's round trip whenever one is lost, and the time up to the next digest "
            "where a subscriber wants few of a fast publisher's events",
            "none",
        ),
        Key(
            "order_target",
            Number(0, 0.5, above=True),
            "fifo: share of the violations that may remain once twenty events of a source have come; 99.5 % are "
            "removed, as in paper 002, and with recovery all",
            _LATCH.target,
            goes_with=_FIFO,
        ),
        Key(
            "order_estimator",
            Word(get_args(EstimatorName)),
            "fifo: how the time to wait is found out; the first one keeps closest to its target",
            _LATCH.estimator,
            goes_with=_FIFO,
        ),
        Key(
            "late",
            Word(("deliver", "drop")),
            "what becomes of an event that comes after a later one was delivered",
            _LATCH.late,
            goes_with=_ORDER,
        ),
        Key(
            "scheme",
            Word(("digest", "srm")),
            "end-to-end: how it is done; digest: publishers tell what there was and repair it; srm: subscribers repair "
            "each other's losses, as paper 000 has it, and publisher_cache, filter_bits and record are for that",
            "digest",
            goes_with=_RECOVERS,
        ),
        Key(
            "publisher_cache",
            Flag(),
            "srm: whether publishers repair as well; paper 000 leaves it to subscribers, so what all lost is lost",
            False,
            goes_with=_SRM,
        ),
        Key(
            "filter_bits",
            Number(64, 2_048, whole=True),
            "srm: bits of the filter that stands for an event in a record: 64, 128, 256 or 2048; paper 000 has 256 for "
            "events of ten attributes",
            256,
            goes_with=_SRM,
        ),
        Key(
            "digest_s",
            SPAN,
            "end-to-end: how often publishers tell what they have published; what a loss takes at most to be noticed",
            seconds(_RECOVERY.digest_us),
            goes_with=_DIGEST,
        ),
        Key(
            "told",
            Number(1, 16, whole=True),
            "end-to-end: digests that tell of each event; who misses them all asks",
            _RECOVERY.told,
            goes_with=_DIGEST,
        ),
        Key(
            "record",
            Number(0, 1_000, whole=True),
            "earlier events that each event tells of by itself; with order at least 10, as in paper 000",
            default_words="0; with srm 10",
        ),
        Key(
            "kept",
            Number(1, 10_000_000, whole=True),
            "end-to-end: events that a publisher keeps for those who missed them; forty seconds at 500 a second",
            _RECOVERY.kept_max,
            goes_with=_RECOVERS,
        ),
        Key(
            "search_s",
            SPAN,
            "end-to-end: how long a lost event is looked for; as long as its publisher keeps it",
            seconds(_RECOVERY.search_us),
            goes_with=_RECOVERS,
        ),
        Key(
            "link_ring",
            Number(1, 1_000_000, whole=True),
            "nack: events that a broker keeps for each link, to send once more; a second at a thousand a second",
            _NACK.ring,
            goes_with=_NACKS,
        ),
        Key(
            "link_idle_ms",
            PAUSE,
            "nack: silence on a link after which its sender says what its last number was: a loss at the end takes so "
            "long to be noticed",
            _NACK.idle_us // 1_000,
            goes_with=_NACKS,
        ),
        Key(
            "link_tries",
            Number(1, 100, whole=True),
            "nack: requests for an event before it is given up",
            _NACK.tries,
            goes_with=_NACKS,
        ),
        Key(
            "store",
            Text("a folder in quotes"),
            "retransmission: where live brokers keep what they store, a file for each",
            default_words="a folder that is gone after the run",
            goes_with=_STORES,
        ),
        Key(
            "stored",
            Number(1, 100_000_000, whole=True),
            "retransmission: events that a broker stores; when there are so many it takes no more",
            _HANDOVER.stored_max,
            goes_with=_STORES,
        ),
        Key(
            "keep_s",
            SPAN,
            "retransmission: how long an event without a lifetime is kept for somebody who is down",
            seconds(_HANDOVER.keep_us),
            goes_with=_STORES,
        ),
        Key(
            "away",
            Number(1, 100_000_000, whole=True),
            "retransmission: events kept for a client that is away, and all of these share a quarter of the store; the "
            "oldest of more are given up, and the client is told",
            _HANDOVER.away_max,
            goes_with=_STORES,
        ),
        Key(
            "window",
            Number(1, 4_096, whole=True),
            "retransmission: messages under way to one neighbour",
            _HANDOVER.window,
            goes_with=_STORES,
        ),
        Key(
            "beat_ms",
            PAUSE,
            "multipath and hybrid: how often brokers tell each other that they are there",
            _WATCH.beat_us // 1_000,
            goes_with=_WATCHES,
        ),
        Key(
            "phi",
            Number(1, 30),
            "multipath, hybrid, replication: a neighbour is down when its silence has a chance of 10 to minus this",
            _WATCH.phi,
        ),
        Key(
            "published",
            Number(1, 100_000_000, whole=True),
            "retransmission: events that a client keeps until its broker has stored them; it then publishes no more",
            _HANDOVER.published_max,
            goes_with=_STORES,
        ),
    ),
)

_REPLICATION = ReplicationSettings()

REPLICATION = Table(
    "replication",
    "Replicas for brokers that fail or cannot keep up; without this table there are none. On a tree only.",
    (
        Key(
            "protocol",
            Word(get_args(CopyProtocol)),
            "how events find the replica while it learns its tables; incremental: soon but out of order; synchronous: "
            "in order when it has everything; ordered: soon and in order; basic: some are lost",
            _REPLICATION.copying,
        ),
        Key("replace", Flag(), "a broker that is silent gets a replica in its place", _REPLICATION.replace),
        Key(
            "relieve_queue",
            QUEUE,
            "so many messages waiting for a broker at two heartbeats in a row get it a replica beside it",
            default_words="never",
        ),
        Key(
            "reorder",
            Flag(),
            "where a broker and its replica share events, put them in order again behind the two",
            _REPLICATION.reorder,
        ),
        Key(
            "suspect_s",
            SPAN,
            "how long a connection may be gone before a replica is asked for; silence is judged by `phi`",
            seconds(_REPLICATION.suspect_us),
        ),
        Key(
            "patience_s",
            SPAN,
            "how long events wait for a replica; after that they are dropped and the broker is forgotten",
            seconds(_REPLICATION.patience_us),
        ),
        Key(
            "pending",
            QUEUE,
            "events that may wait for a replica; the oldest are dropped beyond that",
            _REPLICATION.pending_max,
        ),
        Key(
            "directory",
            Text('an address in quotes, such as "zookeeper://127.0.0.1:2181/holdfast"'),
            "live: who tells brokers the neighbours of their neighbours",
            default_words="the brokers themselves, with their heartbeats",
        ),
        Key(
            "start_s",
            SPAN,
            "how long a replica takes to start, in the simulator; a process on this machine takes about so long",
            seconds(_REPLICATION.provision_us),
        ),
    ),
)

_PROTOCOL = ProtocolSettings()


PROTOCOL = Table(
    "protocol",
    "What brokers and clients agree on.",
    (
        Key(
            "heartbeat_s",
            SPAN,
            "how often neighbours compare what they know: what a lost message costs",
            seconds(_PROTOCOL.heartbeat_us),
        ),
        Key(
            "lease_s",
            SPAN,
            "silence after which a neighbour is forgotten: three heartbeats may be lost",
            seconds(_PROTOCOL.lease_us),
        ),
        Key(
            "session_s",
            SPAN,
            "how long a broker keeps the session of a live client whose connection broke: a reboot, a tunnel, a deploy",
            seconds(_PROTOCOL.session_us),
        ),
        Key(
            "dedup_window",
            Number(64, 2**24, whole=True),
            "latest events of one source among which a duplicate is recognised; takes 12 kB when all of them came",
            _PROTOCOL.dedup_window,
        ),
        Key(
            "dedup_sources",
            Number(1, limits.CLIENTS_MAX, whole=True),
            "sources that a client remembers",
            _PROTOCOL.dedup_sources,
        ),
        Key(
            "conditions_max",
            Number(1, 100_000_000, whole=True),
            "conditions that a broker takes from one neighbour before it refuses more",
            _PROTOCOL.conditions_max,
        ),
        Key(
            "hops_max",
            Number(1, 65_535, whole=True),
            "brokers that an event may pass: twice the largest diameter in use; stops a loop",
            _PROTOCOL.hops_max,
        ),
    ),
)

TRANSPORT = Table(
    "transport",
    "How live brokers and clients talk.",
    (
        Key("kind", Word(("udp", "tcp", "tls")), "udp loses what the network loses, as links in this file do", "udp"),
        Key("host", Text("a host in quotes"), "where live brokers listen; this machine only", "127.0.0.1"),
        Key("port", Number(0, 65_535, whole=True), "of the first broker, the next ones count up; 0: free ones", 0),
        Key(
            "metrics_port",
            Number(1, 65_535, whole=True),
            "the first broker serves /metrics and /health here on `host`, the next ones count up",
            default_words="none are served",
        ),
        Key("certificate", Text("a path in quotes"), "PEM file, for tls"),
        Key("private_key", Text("a path in quotes"), "PEM file, for tls"),
        Key("authority", Text("a path in quotes"), "PEM file: who signed the certificates of the others"),
    ),
)

"""The keys of reliability, protocol and transport."""

from holdfast.network import limits
from holdfast.network.keys.units import SPAN
from holdfast.network.shapes import Number, Text, Word
from holdfast.network.tables import Key, Table
from holdfast.protocol.settings import ProtocolSettings

RELIABILITY = Table(
    "reliability",
    "How much reliability to buy.",
    (
        Key(
            "hops",
            Word(("basic",), later=("nack", "retransmission", "multipath", "hybrid")),
            "between neighbouring brokers; basic: sent once",
            "basic",
        ),
        Key("recovery", Word(("none",), later=("end-to-end", "gossip")), "of what was lost on the way", "none"),
        Key("order", Word(("none",), later=("fifo", "strict")), "in which events of one source are delivered", "none"),
    ),
)

_PROTOCOL = ProtocolSettings()  # the defaults are the machines'; their reasons are told here once more, for users


def _seconds(us: int) -> int | float:
    return us // 1_000_000 if us % 1_000_000 == 0 else us / 1_000_000


PROTOCOL = Table(
    "protocol",
    "What brokers and clients agree on.",
    (
        Key(
            "heartbeat_s",
            SPAN,
            "how often neighbours compare what they know: what a lost message costs",
            _seconds(_PROTOCOL.heartbeat_us),
        ),
        Key(
            "lease_s",
            SPAN,
            "silence after which a neighbour is forgotten: three heartbeats may be lost",
            _seconds(_PROTOCOL.lease_us),
        ),
        Key(
            "dedup_window",
            Number(64, 2**24, whole=True),
            "latest events of one source among which a duplicate is recognised; takes half a kilobyte",
            _PROTOCOL.dedup_window,
        ),
        Key(
            "dedup_sources",
            Number(1, limits.CLIENTS_MAX, whole=True),
            "sources that a client remembers; 5 MB at the window above",
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
        Key("certificate", Text("a path in quotes"), "PEM file, for tls"),
        Key("private_key", Text("a path in quotes"), "PEM file, for tls"),
        Key("authority", Text("a path in quotes"), "PEM file: who signed the certificates of the others"),
    ),
)

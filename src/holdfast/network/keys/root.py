"""The whole file: the keys at its top and its tables."""

from holdfast.network import limits
from holdfast.network.keys.clients import CLIENT, CLIENTS
from holdfast.network.keys.faults import FAULT, RECONFIGURATION
from holdfast.network.keys.graph import BROKER, BROKERS_TABLE, LINK, LINKS, TOPOLOGY
from holdfast.network.keys.protocol import CARRIER, PLAN, PROTOCOL, RELIABILITY, REPLICATION, TRANSPORT
from holdfast.network.keys.units import SEED, SPAN
from holdfast.network.keys.workload import WORKLOAD
from holdfast.network.shapes import Choice, Text
from holdfast.network.tables import Key, Repeated, Table

ROOT = Table(
    "",
    "These stand at the top of the file, before the first table.",
    (
        Key("name", Text(characters_max=200), "what the network is called", default_words="the file's name"),
        Key("seed", SEED, "all dice; same seed, same run", 1),
        Key("duration_s", SPAN, "how long a run lasts; a minute shows most things", 60),
        Key(
            "slices_s",
            SPAN,
            "the outcome also tells what was owed, delivered and done to recover in every so many seconds",
            default_words="only of all together",
        ),
        Key(
            "routing",
            Choice(("subscriptions", "advertisements", "destinations")),
            "how events find their way: the first two need a tree, destinations takes any graph",
            "subscriptions",
        ),
        Key("topology", TOPOLOGY, "", {}),
        Key("brokers", BROKERS_TABLE, "", {}),
        Key("broker", Repeated(BROKER, limits.BROKERS_MAX), ""),
        Key("links", LINKS, "", {}),
        Key("link", Repeated(LINK, limits.LINKS_MAX), ""),
        Key("clients", CLIENTS, ""),
        Key("client", Repeated(CLIENT, limits.LISTED_MAX), ""),
        Key("workload", WORKLOAD, "", {}),
        Key("reliability", RELIABILITY, "", {}),
        Key("plan", PLAN, "", {}),
        Key("replication", REPLICATION, ""),
        Key("protocol", PROTOCOL, "", {}),
        Key("transport", TRANSPORT, "", {}),
        Key("carrier", CARRIER, ""),
        Key("fault", Repeated(FAULT, limits.FAULTS_MAX), ""),
        Key("reconfiguration", RECONFIGURATION, ""),
    ),
)

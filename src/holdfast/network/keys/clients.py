"""The keys of clients, their subscriptions and what they publish by themselves."""

from collections.abc import Mapping

from holdfast.network import limits
from holdfast.network.keys.declared import keys_of
from holdfast.network.keys.units import MOMENT, SPAN
from holdfast.network.shapes import Attributes, Choice, Condition, Either, Flag, Listed, Name, Number
from holdfast.network.tables import Key, Table
from holdfast.network.workload.publication import EventTraits

_EVERYBODY = Choice(("all",))
CLIENTS = Table(
    "clients",
    "Clients in numbers, a few at every broker; they do what the workload says.",
    (
        Key(
            "per_broker",
            Number(0, limits.CLIENTS_MAX, integer=True),
            "clients at each broker; 1 unless `count` is given",
            default_words="1",
        ),
        Key("count", Number(0, limits.CLIENTS_MAX, integer=True), "clients in all, dealt out to the brokers in turn"),
        Key(
            "publishers",
            Either(Number(0, limits.PUBLISHERS_MAX, integer=True), _EVERYBODY, str),
            "how many of them publish, drawn at random; all as in paper 001",
            "all",
        ),
        Key(
            "subscribers",
            Choice(("all", "others", "none")),
            'who subscribes: all, or only those who do not publish ("others", paper 000)',
            "all",
        ),
        Key("prefix", Name(), "they are called by it and a number, from 1", "c"),
    ),
)
SUBSCRIPTION = Table(
    "client.subscriptions",
    "A subscription in a client's list; a text alone is its condition.",
    (
        Key("condition", Condition(), "what the client wants", required=True),
        Key("id", Name(), "its name, for `unsubscribe`", default_words='"s1", "s2", … in the order of the list'),
        Key("group", Name(), "the group that shares it: each event goes to one of its members", default_words="none"),
        Key("from_s", MOMENT, "when it begins", 0),
        Key("until_s", MOMENT, "when it ends", default_words="the end of the run"),
    ),
)
PUBLISH = Table(
    "client.publish",
    "A publication in a client's list, once or every so often.",
    (
        Key("at_s", MOMENT, "when, or when the first time", 0),
        Key("attributes", Attributes(), "the event", required=True),
        Key("every_s", SPAN, "how often", default_words="once"),
        Key("until_s", MOMENT, "when to stop repeating", default_words="the end of the run"),
        *keys_of(EventTraits),
    ),
)
CLIENT = Table(
    "client",
    "One client, or `count` alike, with its own subscriptions and publications, the workload's, or both.",
    (
        Key("id", Name(), "its name; with `count` they are called by it, a hyphen and a number", required=True),
        Key("broker", Name(), "the broker it is attached to", default_words="required, unless there is a `[carrier]`"),
        Key("count", Number(1, limits.CLIENTS_MAX, integer=True), "how many such clients", 1),
        Key(
            "subscriptions",
            Listed(Either(Condition(), SUBSCRIPTION, Mapping), "conditions", patchy=True),
            "what it wants",
            default_words="none",
        ),
        Key(
            "advertisements",
            Listed(Condition(), "conditions", most=1_000),
            "what it says it will publish",
            default_words="what the workload publishes, or everything",
        ),
        Key(
            "publish",
            Listed(PUBLISH, "publications", patchy=True),
            "what it publishes by itself",
            default_words="nothing",
        ),
        Key("publishes", Flag(), "it publishes what the workload draws", False),
        Key("subscribes", Flag(), "it subscribes to what the workload draws", False),
    ),
)

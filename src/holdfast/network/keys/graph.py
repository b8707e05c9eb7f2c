"""The keys of topology, brokers and links."""

from holdfast.network import limits
from holdfast.network.keys.declared import keys_of
from holdfast.network.keys.units import SEED, SHARE, SPAN
from holdfast.network.schema import BrokerSpec, LinkSpec
from holdfast.network.shapes import PAIR, Choice, Drawn, Either, Flag, Listed, Name, Number, SocketAddress
from holdfast.network.tables import Key, Table

BROKERS = Either(
    Number(1, limits.BROKERS_MAX, integer=True),
    Listed(Name(), "their names", most=limits.BROKERS_MAX),
    list,
)

FAILURES = (
    Key("mtbf_s", Drawn(SPAN), "mean time up between random failures; with `mttr_s`"),
    Key("mttr_s", Drawn(SPAN), "mean time down"),
    Key("availability", Drawn(Number(0, 1, above=True)), "share of the time up: another way to say it, with `cycle_s`"),
    Key("cycle_s", Drawn(SPAN), "mean time from one failure to the next; up for `availability` of it"),
)

TOPOLOGY = Table(
    "topology",
    "Who is connected with whom.",
    (
        Key(
            "kind",
            Choice(("listed", "line", "star", "ring", "tree", "random")),
            'how the graph is made; "listed" takes the links that the file names',
            "listed",
        ),
        Key(
            "brokers",
            BROKERS,
            "how many, or their names; in a star the first one is the centre",
            default_words="those of `[[broker]]` when listed, else required",
        ),
        Key("prefix", Name(), "counted brokers are called by it and a number, from 1", "b"),
        Key(
            "seed",
            SEED,
            "dice for the graph, for `[low, high]` of brokers and links and for where publishers sit; give it to keep "
            "them while `seed` changes",
            default_words="`seed`",
        ),
    ),
    {
        "listed": (Key("links", Listed(PAIR, "pairs of brokers"), 'such as [["b1", "b2"], ["b2", "b3"]]'),),
        "line": (),
        "star": (),
        "ring": (),
        "tree": (
            Key(
                "shape",
                Choice(("filled", "attached")),
                'level by level, every broker with as many links as it may have (paper 001), or "attached": each to a '
                "random earlier one",
                "filled",
            ),
            Key("degree", Number(2, 1_000, "links", integer=True), "links of one broker at most; 4 as in paper 001", 4),
        ),
        "random": (
            Key(
                "mean_degree",
                Number(1, limits.BROKERS_MAX),
                "links of one broker on average, with every broker reachable; 4 as in paper 004",
                4,
            ),
        ),
    },
)

_BROKER_KEYS = (*keys_of(BrokerSpec), *FAILURES)
BROKERS_TABLE = Table("brokers", "What holds for every broker.", _BROKER_KEYS)
BROKER = Table(
    "broker",
    "One broker: its name and what differs from `[brokers]`.",
    (
        Key("id", Name(), "the broker", required=True),
        *_BROKER_KEYS,
        Key("listen", SocketAddress(), "where the live broker listens", default_words="see `[transport]`"),
    ),
    on_top_of=BROKERS_TABLE,
)

BURST = Table(
    "links.burst",
    "Losses in bursts (Gilbert and Elliott): with each message the link may turn bad or good again.",
    (
        Key("to_bad", SHARE, "chance to turn bad", required=True),
        Key("to_good", SHARE, "chance to turn good again", required=True),
        Key("loss", SHARE, "share of messages lost while bad; while good it is `links.loss`", required=True),
    ),
)
_LINK_KEYS = (*keys_of(LinkSpec), Key("burst", BURST, "losses in bursts"), *FAILURES)
LINKS = Table(
    "links",
    "What holds for every link between brokers, in each direction by itself.",
    (
        *_LINK_KEYS,
        Key(
            "lossy_control",
            Flag(),
            "whether links lose the brokers' own messages (subscriptions, heartbeats) as they lose events",
            default_words="true, but false over TCP and TLS",
        ),
    ),
)
LINK = Table(
    "link",
    'One link and what differs from `[links]`; in a topology that is "listed" it also makes the link.',
    (Key("between", PAIR, 'the two brokers, such as ["b1", "b2"]', required=True), *_LINK_KEYS),
    on_top_of=LINKS,
)

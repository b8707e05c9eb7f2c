"""The keys of the workload, by its kind."""

from holdfast.network import limits
from holdfast.network.keys.units import EVENT_KEYS, MOMENT, RATE, SHARE, SPAN, START, STOP
from holdfast.network.shapes import Bounds, Number, Text, Word
from holdfast.network.tables import Key, Table
from holdfast.network.workload.stock import SYMBOLS_MAX

_TRAFFIC = (
    Key("start_s", MOMENT, "when publishing begins: subscriptions need a while to spread", default_words=START),
    Key(
        "stop_s",
        MOMENT,
        "when it ends: the last events need a while to arrive",
        default_words=STOP,
    ),
    Key(
        "spacing",
        Word(("exponential", "periodic")),
        "random gaps, or equal ones from a random first publication on; random as independent people are",
        "exponential",
    ),
    *EVENT_KEYS,
)


def _rate(default: int, why: str) -> Key:
    return Key("rate_per_s", RATE, f"publications a second of each publisher; {why}", default)


def _per_client(default: int, why: str) -> Key:
    most = Number(0, 10_000, "subscriptions", whole=True)
    return Key("per_client", most, f"subscriptions of each subscriber; {why}", default)


WORKLOAD = Table(
    "workload",
    "What is published and who wants it. Each publisher draws from dice of its own.",
    (
        Key(
            "kind",
            Word(("none", "patterns", "zipf", "rates", "stock", "files")),
            'what events look like; "none": only what clients publish by themselves',
            "none",
        ),
    ),
    {
        "none": (),
        "patterns": (
            Key("patterns", Number(1, 100_000, whole=True), "how many there are; 70 as in paper 001", 70),
            Key("per_event", Number(1, limits.ATTRIBUTES_MAX, whole=True), "different ones in each event; 3, too", 3),
            _per_client(2, "2 as in paper 001"),
            _rate(50, "50 as in paper 001"),
            *_TRAFFIC,
        ),
        "zipf": (
            Key("values", Number(2, 1_000_000, whole=True), "the attribute's values, from 1; 20 as in paper 003", 20),
            Key("skew", Number(0, 10), "the n-th value comes in proportion to 1/n**skew; 0.5 as in paper 003", 0.5),
            Key("favour", Word(("low", "high")), "which values publications prefer; conditions prefer low ones", "low"),
            _per_client(1, "1 as in paper 003"),
            _rate(10, "10: a second of 100 publishers is the paper's 1,000 pending ones"),
            *_TRAFFIC,
        ),
        "rates": (
            Key("rates_per_s", Bounds(RATE), "between which the rate jumps; as in paper 000", [20, 500]),
            Key("hold_s", Bounds(SPAN), "how long a rate lasts; short against a run, long against a gap", [0.5, 2]),
            Key("spikes", SHARE, "share of these times in which the rate is the highest there is; 0: jumps alone", 0),
            Key("match", Bounds(SHARE), "chance that a subscriber wants an event, drawn for each pair", [0, 0.1]),
            Key("popularity", Number(0, 5), "spread of the log-normal factor on all chances of one event; 0: none", 0),
            Key(
                "attributes",
                Number(1, limits.ATTRIBUTES_MAX, whole=True),
                "of each event at least, filled up with noise; 10 as in paper 000",
                10,
            ),
            *_TRAFFIC,
        ),
        "stock": (
            Key("symbols", Number(1, SYMBOLS_MAX, whole=True), "stocks traded; 2,000: a large exchange", 2_000),
            Key("skew", Number(0, 10), "the n-th symbol is traded in proportion to 1/n**skew; 1: Zipf's law", 1),
            _per_client(1, "1 to begin with"),
            _rate(10, "10 to begin with"),
            *_TRAFFIC,
        ),
        "files": (
            Key("events", Text("a path in quotes"), "a .parquet or .jsonl file, a column an attribute"),
            Key("time", Text(), "the column that says when: seconds of the run in order, or timestamps"),
            Key("client", Text(), "the column that names the publisher", default_words="publishers in turn"),
            Key(
                "subscriptions",
                Text("a path in quotes"),
                "a .parquet or .jsonl file with `condition` and, if wanted, `client`, `id`, `from_s` and `until_s`",
            ),
            Key("rate_per_s", RATE, "of the whole file, where no column says when; 100 to begin with", 100),
            *_TRAFFIC,
        ),
    },
)

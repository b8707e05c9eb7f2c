"""The keys of the workload, by its kind."""

from holdfast.network.keys.declared import keys_of
from holdfast.network.keys.units import MOMENT, RATE, SHARE, SPAN, START, STOP
from holdfast.network.shapes import Bounds, Choice, Text
from holdfast.network.tables import Key, Table
from holdfast.network.workload.content import Content
from holdfast.network.workload.patterns import Patterns
from holdfast.network.workload.rates import Rates
from holdfast.network.workload.stock import Stock
from holdfast.network.workload.traffic import TrafficTraits
from holdfast.network.workload.zipf import Zipf

_TRAFFIC = (
    Key("start_s", MOMENT, "when publishing begins: subscriptions need a while to spread", default_words=START),
    Key(
        "stop_s",
        MOMENT,
        "when it ends: the last events need a while to arrive",
        default_words=STOP,
    ),
    *keys_of(TrafficTraits),
)
_JUMPS = (
    Key("rates_per_s", Bounds(RATE), "between which the rate jumps; as in paper 000", [20, 500]),
    Key("hold_s", Bounds(SPAN), "how long a rate lasts; short against a run, long against a gap", [0.5, 2]),
    Key("spikes", SHARE, "share of these times in which the rate is the highest there is; 0: jumps alone", 0),
    Key("match", Bounds(SHARE), "chance that a subscriber wants an event, drawn for each pair", [0, 0.1]),
)


def _rate(default: int, why: str) -> Key:
    return Key("rate_per_s", RATE, "publications a second of each publisher", default, reason=why)


WORKLOAD = Table(
    "workload",
    "What is published and who wants it. Each publisher draws from dice of its own.",
    (
        Key(
            "kind",
            Choice(("none", "patterns", "zipf", "rates", "content", "stock", "files")),
            'what events look like; "none": only what clients publish by themselves',
            "none",
        ),
    ),
    {
        "none": (),
        "patterns": (*keys_of(Patterns), _rate(50, "as in paper 001"), *_TRAFFIC),
        "zipf": (
            *keys_of(Zipf),
            _rate(10, "a second of 100 publishers is the paper's 1,000 pending ones"),
            *_TRAFFIC,
        ),
        "rates": (*_JUMPS, *keys_of(Rates), *_TRAFFIC),
        "content": (*_JUMPS, *keys_of(Content), *_TRAFFIC),
        "stock": (*keys_of(Stock), _rate(10, "to begin with"), *_TRAFFIC),
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

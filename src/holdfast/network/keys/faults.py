"""The keys of faults and of the reconfiguration."""

from holdfast.network.keys.units import MOMENT, SPAN, START, STOP
from holdfast.network.shapes import PAIR, Choice, Condition, Listed, Name
from holdfast.network.tables import Key, Table

_AT = Key("at_s", MOMENT, "when", required=True)
_BROKER = Key("broker", Name(), "the broker", required=True)
_LINK = Key("link", PAIR, "the two brokers", required=True)
_CLIENT = Key("client", Name(), "the client", required=True)
_FOR = Key("for_s", SPAN, "how long", default_words="until something ends it")
FAULT = Table(
    "fault",
    "Something that happens at a given time.",
    (
        Key(
            "kind",
            Choice(
                (
                    "crash",
                    "restart",
                    "hang",
                    "resume",
                    "link-down",
                    "link-up",
                    "link-replace",
                    "partition",
                    "client-detach",
                    "client-attach",
                    "subscribe",
                    "unsubscribe",
                )
            ),
            "what happens",
            required=True,
        ),
        _AT,
    ),
    {
        "crash": (_BROKER, _FOR),
        "restart": (_BROKER,),
        "hang": (_BROKER, _FOR),
        "resume": (_BROKER,),
        "link-down": (_LINK, _FOR),
        "link-up": (_LINK,),
        "link-replace": (
            _LINK,
            Key("to", PAIR, "the new link", default_words="drawn so that the graph stays connected"),
            Key("after_s", MOMENT, "when the new link appears; 0.1 as in paper 001", 0.1),
        ),
        "partition": (
            Key("brokers", Listed(Name(), "brokers"), "cut off from all others", required=True),
            _FOR,
        ),
        "client-detach": (_CLIENT, _FOR),
        "client-attach": (_CLIENT, Key("broker", Name(), "the broker", default_words="the one in the file")),
        "subscribe": (
            _CLIENT,
            Key("condition", Condition(), "what the client wants", required=True),
            Key("id", Name(), "the subscription's name", default_words='"f" and the position of the fault'),
        ),
        "unsubscribe": (_CLIENT, Key("id", Name(), "the subscription's name", required=True)),
    },
)

RECONFIGURATION = Table(
    "reconfiguration",
    "Every so often a random link breaks and another one appears, so that the graph stays connected (paper 001).",
    (
        Key("every_s", SPAN, "how often", required=True),
        Key("repair_s", MOMENT, "when the new link appears; as in paper 001", 0.1),
        Key("start_s", MOMENT, "when it begins", default_words=START),
        Key("stop_s", MOMENT, "when it ends", default_words=STOP),
    ),
)

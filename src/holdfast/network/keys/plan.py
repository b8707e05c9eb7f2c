"""The keys of the planner."""

from holdfast.network.shapes import Number, Word
from holdfast.network.tables import Key, Table

PLAN = Table(
    "plan",
    "What `holdfast plan` predicts for; nothing that runs looks at it.",
    (
        Key(
            "target",
            Number(0, 1, above=True),
            "share of its events that every subscriber is to get within their lifetime",
            default_words="0.99, and nobody is held to it",
        ),
        Key(
            "endpoints",
            Word(("counted", "assumed-up")),
            "whether the brokers of publisher and subscriber may fail, or are taken as up all the time",
            "counted",
        ),
        Key(
            "samples",
            Number(100, 100_000_000, whole=True),
            "worlds drawn where a network is too large for exact numbers; 20,000: "
            "within 0.0005 at a reliability of 0.999",
            20_000,
        ),
    ),
)

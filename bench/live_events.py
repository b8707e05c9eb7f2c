"""What every contestant of the live bench carries: stock events of ten attributes, and conditions on them.

One condition matches every event, so that what is delivered is what is published. The others, up to 10,000, name
symbols that do occur but prices that never do: a broker has to look at the content to find out that nobody there is
owed anything.
"""

from itertools import cycle, islice
from random import Random
from typing import Any

EVENTS = 2_048  # different ones, repeated in turn
SYMBOLS = 500

MATCHING = "class = 'stock' AND price < 1000"


def events() -> list[dict[str, Any]]:
    rng = Random(7)
    return [
        {
            "class": "stock",
            "symbol": f"S{rng.randrange(SYMBOLS):03}",
            "price": round(rng.uniform(1, 500), 2),
            "volume": rng.randrange(1, 1_000_000),
            "open": round(rng.uniform(1, 500), 2),
            "high": round(rng.uniform(1, 500), 2),
            "low": round(rng.uniform(1, 500), 2),
            "exchange": rng.choice(["NYSE", "XETRA", "LSE"]),
            "currency": rng.choice(["USD", "EUR", "GBP"]),
            "halted": False,
        }
        for _ in range(EVENTS)
    ]


def stream(count: int) -> "islice[dict[str, Any]]":
    return islice(cycle(events()), count)


def others(count: int) -> list[tuple[str, int]]:
    """Symbol and price of conditions that no event meets: `symbol = S AND price > P`."""
    rng = Random(8)
    return [(f"S{rng.randrange(SYMBOLS):03}", rng.randrange(100_000, 200_000)) for _ in range(count)]

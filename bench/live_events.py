"""What every contestant of the live bench carries: stock events of ten attributes, and conditions on them.

One condition matches every event, so that what is delivered is what is published. The others, up to 10,000, name
symbols that do occur but exchanges that never do: a broker has to look at the content to find out that nobody there
is owed anything. They compare strings only, because over STOMP every attribute is one, and ActiveMQ would compare no
number with it.
"""

from itertools import cycle, islice
from random import Random
from typing import Any

EVENTS = 2_048  # different ones, repeated in turn
SYMBOLS = 500

MATCHING = "class = 'stock' AND currency <> 'XXX'"


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


def others(count: int) -> list[tuple[str, str]]:
    """Symbol and exchange of conditions that no event meets."""
    rng = Random(8)
    return [(f"S{rng.randrange(SYMBOLS):03}", f"X{number}") for number in range(count)]


def condition(symbol: str, exchange: str) -> str:
    return f"symbol = '{symbol}' AND exchange = '{exchange}'"

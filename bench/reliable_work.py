"""What `bench reliable` publishes, who wants what of it, and the judge of what came.

Events come from a pool of a few thousand different ones, repeated in turn, each with a number of its own in `seq`. So
DuckDB, which knows nothing of our matcher, works out once which events of the pool a condition describes, and what a
burst of any size owes follows from the numbers. Two workloads: `stock` has comparisons that many events meet; `text`
is the string workload of the matching bench, with LIKE, OR, NOT and NULL, where a condition meets one event in 500.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from bench.conditions import And, Atom, Tree, text
from bench.live_events import SYMBOLS, events
from bench.workloads import strings

Numbers = np.ndarray[Any, np.dtype[np.int64]]

POOL_TEXT = 4_000  # different events of the text workload; the stock events are 2,048
STOCK_EACH = 250  # conditions of one subscriber
TEXT_EACH = 150  # of four, which makes 600


@dataclass(frozen=True)
class Work:
    """A pool of events, and the conditions of each subscriber."""

    name: str
    pool: list[dict[str, Any]]
    conditions: list[list[str]]

    def event(self, number: int) -> dict[str, Any]:
        return {**self.pool[number % len(self.pool)], "seq": number}

    @cached_property
    def places(self) -> list[list[Numbers]]:
        """For each subscriber and condition, the places in the pool of the events that it describes, by DuckDB."""
        import duckdb

        names = sorted({name for event in self.pool for name in event})
        columns = {name: [event.get(name) for event in self.pool] for name in names}
        connection = duckdb.connect(config={"threads": 1})
        connection.register("given", pa.table({**columns, "place": range(len(self.pool))}))
        connection.execute("CREATE TABLE pool AS SELECT * FROM given")

        def found(condition: str) -> Numbers:
            query = f"SELECT place FROM pool WHERE {condition} ORDER BY place"
            return np.asarray(connection.execute(query).fetchnumpy()["place"], np.int64)

        return [[found(condition) for condition in each] for each in self.conditions]

    def owed(self, subscriber: int, first: int, count: int) -> list[Numbers]:
        """For each condition of a subscriber, the numbers of the events that it is owed, in order."""
        size = len(self.pool)
        starts = np.arange(first // size * size, first + count, size, dtype=np.int64)
        found = []
        for places in self.places[subscriber]:
            numbers = (starts[:, None] + places[None, :]).ravel()
            found.append(numbers[(numbers >= first) & (numbers < first + count)])
        return found


@cache
def work(name: str, subscribers: int) -> Work:
    return {"stock": _stock, "text": _text}[name](subscribers)


def _stock(subscribers: int) -> Work:
    rng = Random(9)
    conditions = [[text(_stock_condition(rng)) for _ in range(STOCK_EACH)] for _ in range(subscribers)]
    return Work("stock", events(), conditions)


def _stock_condition(rng: Random) -> Tree:
    """Sorts and shares of the stock workload: 1,000 of these want an event about ten times."""
    kind, price = rng.random(), round(rng.uniform(1, 500), 2)
    symbol = f"S{rng.randrange(SYMBOLS):03}"
    exchange = Atom("exchange", "=", rng.choice(["NYSE", "XETRA", "LSE"]))
    if kind < 0.6:
        return And((Atom("class", "=", "stock"), Atom("symbol", "=", symbol), Atom("price", rng.choice("<>"), price)))
    if kind < 0.8:
        dear, large = round(rng.uniform(250, 450), 2), rng.randrange(700_000, 900_000)
        return And((exchange, Atom("price", ">", dear), Atom("volume", ">", large)))
    if kind < 0.9:
        return And((Atom("symbol", "LIKE", symbol[:3] + "%"), Atom("volume", ">", rng.randrange(1_000_000))))
    span = (round(price * 0.6, 2), round(price * 0.6 + 180, 2))
    return And((exchange, Atom("currency", "=", rng.choice(["USD", "EUR", "GBP"])), Atom("price", "BETWEEN", span)))


def _text(subscribers: int) -> Work:
    drawn = strings(POOL_TEXT, TEXT_EACH * subscribers)
    pool = [{name: value for name, value in row.items() if value is not None} for row in drawn.table.to_pylist()]
    conditions = [drawn.texts[i * TEXT_EACH : (i + 1) * TEXT_EACH] for i in range(subscribers)]
    return Work("text", pool, conditions)


# The judge -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What became of the deliveries that were owed."""

    owed: int = 0
    missing: int = 0
    doubled: int = 0
    swapped: int = 0  # deliveries that came after a later event
    unowed: int = 0  # that nobody had asked for

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def whole(self) -> bool:
        """Everything owed came, once, and nothing else."""
        return not (self.missing or self.doubled or self.unowed)

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def judged(owed: Sequence[Numbers], came: Sequence[Numbers]) -> Verdict:
    """For each condition, the numbers that were owed, in order, beside those that came, as they came."""
    return sum((_judged(*each) for each in zip(owed, came, strict=True)), Verdict())


def _judged(owed: Numbers, came: Numbers) -> Verdict:
    if np.array_equal(owed, came):
        return Verdict(len(owed))
    different, at = np.unique(came, return_index=True)
    once = came[np.sort(at)]  # a second copy is doubled, not swapped as well
    swapped = int((once < np.maximum.accumulate(once)).sum()) if len(once) else 0
    missing = len(np.setdiff1d(owed, different, assume_unique=True))
    unowed = len(np.setdiff1d(different, owed, assume_unique=True))
    return Verdict(len(owed), missing, len(came) - len(different), swapped, unowed)

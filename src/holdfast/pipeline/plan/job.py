"""Predict large networks, and many what-if cases, on Spark: one row a case and subscriber.

The unit of work is a broker with subscribers: all ways to it share their ends, and its subscribers share the pairs. The
graph and who wants what go to each worker once, in a file; what comes back are a few numbers a subscriber. The rows are
made by the same function as on one machine (`planner/plan.py`), and the worlds of a Monte Carlo are named after the
seed alone, so the numbers do not depend on how the work is dealt out.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.pipeline.match.index import IndexFile, share, write_index
from holdfast.planner.advice import Advice, judged
from holdfast.planner.pairs import Predictor, Schemes, needs_worlds
from holdfast.planner.plan import SCHEMES, Case, Endpoints, SubscriberPrediction, by_home, predict_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READINGS = ("counted", "assumed_up")
# Brokers: a second or two at 1,000, ten at 10,000. With many more the cores would not end together.
_HOMES_A_TASK = 32
_VALUES = tuple(f"{reading}_{scheme}" for reading in _READINGS for scheme in Schemes._fields)
_SCHEMA = pa.schema(
    [
        ("case", pa.int64()),
        ("subscriber", pa.string()),
        ("broker", pa.string()),
        *((name, pa.float64()) for name in _VALUES),
        ("multipath_method", pa.string()),
        ("hybrid_method", pa.string()),
        ("error", pa.float64()),
        ("weakest", pa.string()),
    ]
)
_SQL = ", ".join(
    f"{field.name} {'long' if field.type == pa.int64() else 'double' if field.type == pa.float64() else 'string'}"
    for field in _SCHEMA
)


def predictions(spark: "SparkSession", cases: Sequence[Case], samples: int, seed: str) -> "DataFrame":
    """The rows of all cases; their numbers are positions in the list."""
    homes = [(number, home) for number, case in enumerate(cases) for home in by_home(case)]
    if not any(needs_worlds(case.overlay) for case in cases):
        # Cases side by side share the diagrams of a broker's pairs; where worlds are drawn, a case's worlds are shared.
        homes.sort(key=itemgetter(1))
    tasks = -(-len(homes) // _HOMES_A_TASK)
    numbers = spark.range(0, len(homes), 1, tasks)
    file = share(spark, write_index([pickle.dumps((list(cases), homes, samples, seed))]))
    return numbers.mapInArrow(_task(file), _SQL)


def _task(file: IndexFile) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        study = _studied(file)
        for batch in batches:
            for at in batch["id"].to_pylist():
                yield study.rows(at)

    return run


@lru_cache(maxsize=1)
def _studied(file: IndexFile) -> "_Study":
    """A worker that is used again finds the network read, and the worlds drawn."""
    return _Study(*pickle.loads(file.path.read_bytes()))


class _Study:
    """All cases, and what has been worked out for the brokers so far."""

    def __init__(self, cases: list[Case], homes: list[tuple[int, int]], samples: int, seed: str) -> None:
        self._cases, self._homes, self._samples, self._seed = cases, homes, samples, seed
        self._predictors: dict[int, Predictor] = {}
        self._members: dict[int, dict[int, list[int]]] = {}

    def rows(self, at: int) -> pa.RecordBatch:
        """The subscribers of a broker in a case."""
        number, home = self._homes[at]
        case = self._cases[number]
        if number not in self._predictors:
            if needs_worlds(case.overlay):
                self._predictors.clear()  # one case's worlds in memory at a time
            like = next((each for each in self._predictors.values() if each.has_links_of(case.overlay)), None)
            self._predictors[number] = Predictor(case.overlay, self._samples, self._seed, like=like)
            self._members[number] = by_home(case)
        found = predict_home(case, self._predictors[number], home, self._members[number][home])
        return pa.RecordBatch.from_pylist([_row(number, each) for each in found], _SCHEMA)


def _row(case: int, each: SubscriberPrediction) -> dict[str, object]:
    values = dict(zip(_VALUES, (*each.counted, *each.assumed_up), strict=True))
    return {
        "case": case,
        "subscriber": each.subscriber,
        "broker": each.broker,
        **values,
        "multipath_method": each.multipath_method,
        "hybrid_method": each.hybrid_method,
        "error": each.error,
        "weakest": each.weakest,
    }


def advice_of(rows: "DataFrame", target: float, endpoints: Endpoints) -> dict[int, Advice]:
    """For each case, who gets least and what is enough: one small row a case comes back."""
    from pyspark.sql import functions as f  # noqa: PLC0415  # Spark is slow to import

    reading = "counted" if endpoints == "counted" else "assumed_up"
    sums = [f.avg(f"{reading}_{scheme}").alias(f"mean_{scheme}") for scheme in SCHEMES]
    for scheme in SCHEMES:
        # Of several who get equally little the first by name, so that the answer is always the same.
        sums.append(f.min(f.struct(f"{reading}_{scheme}", "subscriber")).alias(f"least_{scheme}"))
    found = {}
    for row in rows.groupBy("case").agg(*sums).collect():  # wide by case: a row each, no skew that matters
        means = {scheme: row[f"mean_{scheme}"] for scheme in SCHEMES}
        least = {scheme: (row[f"least_{scheme}"][1], row[f"least_{scheme}"][0]) for scheme in SCHEMES}
        found[row["case"]] = judged(least, means, target, endpoints)
    return found

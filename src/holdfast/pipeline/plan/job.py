"""Predict large networks, and many what-if cases, on Spark: one row a case and subscriber.

The unit of work is a broker with subscribers: all ways to it share their ends, and its subscribers share the pairs. The
graph and who wants what go to the tasks once; what comes back are a few numbers a subscriber. The rows are made by the
same function as on one machine (`planner/plan.py`), and the worlds of a Monte Carlo are named after the seed alone, so
the numbers do not depend on how the work is dealt out.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.planner.advice import Advice, judged
from holdfast.planner.pairs import Predictor, Schemes, needs_worlds
from holdfast.planner.plan import SCHEMES, Case, Endpoints, SubscriberPrediction, by_home, predict_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READINGS = ("counted", "assumed_up")
# Brokers: some seconds of a large network. Each task draws the worlds of its cases anew, a second at 1,000 brokers;
# with fewer brokers a task would do little else, with more the cores would not end together.
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
    return numbers.mapInArrow(_task(list(cases), homes, samples, seed), _SQL)


def _task(
    cases: list[Case], homes: list[tuple[int, int]], samples: int, seed: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        predictors: dict[int, Predictor] = {}
        members: dict[int, dict[int, list[int]]] = {}
        for number, home in (homes[at] for batch in batches for at in batch["id"].to_pylist()):
            case = cases[number]
            if number not in predictors:
                if needs_worlds(case.overlay):
                    predictors.clear()  # one case's worlds in memory at a time
                like = next((each for each in predictors.values() if each.has_links_of(case.overlay)), None)
                predictors[number] = Predictor(case.overlay, samples, seed, like=like)
                members[number] = by_home(case)
            found = predict_home(case, predictors[number], home, members[number][home])
            yield pa.RecordBatch.from_pylist([_row(number, each) for each in found], _SCHEMA)

    return run


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

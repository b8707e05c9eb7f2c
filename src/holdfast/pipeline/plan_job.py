"""Predict large networks, and many what-if cases, on Spark: one row a case and subscriber.

The unit of work is a broker with subscribers: all ways to it share their ends, and its subscribers share the pairs. The
graph and who wants what go to the tasks once; what comes back are a few numbers a subscriber. The rows are made by the
same function as on one machine (`planner/plan.py`), and the worlds of a Monte Carlo are named after the seed alone, so
the numbers do not depend on how the work is dealt out.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.planner.advice import Advice, judged
from holdfast.planner.pairs import Predictor, Schemes
from holdfast.planner.plan import SCHEMES, Case, Endpoints, Prediction, predict_home

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
    homes = [(number, home) for number, case in enumerate(cases) for home in sorted(_by_home(case))]
    tasks = -(-len(homes) // _HOMES_A_TASK)
    numbers = spark.range(0, len(homes), 1, tasks)
    return numbers.mapInArrow(_task(list(cases), homes, samples, seed), _SQL)


def _by_home(case: Case) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for at, subscriber in enumerate(case.demand.subscribers):
        found[case.overlay.number[subscriber.broker]].append(at)
    return found


def _task(
    cases: list[Case], homes: list[tuple[int, int]], samples: int, seed: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = (homes[at] for batch in batches for at in batch["id"].to_pylist())
        for number, same in groupby(asked, key=itemgetter(0)):  # one case's worlds and diagrams in memory at a time
            case = cases[number]
            predictor, members = Predictor(case.overlay, samples, seed), _by_home(case)
            for _, home in same:
                found = predict_home(case, predictor, home, members[home])
                yield pa.RecordBatch.from_pylist([_row(number, each) for each in found], _SCHEMA)

    return run


def _row(case: int, each: Prediction) -> dict[str, object]:
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

"""A few hundred broad conditions over a wide table, beside DuckDB on one thread.

    python -m bench.broad [--json] [--save | --redraw]

The table has the columns and the size of a well-known one, all flights from New York in a year, and is drawn, because
nothing is downloaded here: nulls where a flight was cancelled, skewed carriers, delays with a long tail. Each of the
conditions matches almost a third of all rows. Both begin with the Arrow table and end with all pairs in memory; they
take turns, and CPU time is counted. Exit code 1: a check failed, or they disagree about the pairs.
"""

import sys
from datetime import UTC, datetime
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.command import options, redraw, told
from bench.conditions import And, Atom, Not, Or, Tree
from bench.contestants import Contestant, HoldfastBatch
from bench.duckdb_peer import SHAPES, DuckDB
from bench.report import aligned, check_rows, markdown
from bench.results import Check, machine
from bench.workloads import Workload

ROWS = 336_776
CONDITIONS = 200
ROUNDS = 3
CARRIERS, ORIGINS, DESTINATIONS, TAILS, FLIGHTS = 16, ("EWR", "JFK", "LGA"), 105, 4_043, 3_800
CANCELLED = 0.025


def flights(rows: int, seed: int = 7) -> pa.Table:
    dice = np.random.default_rng(seed)
    month, day, minute = dice.integers(1, 13, rows), dice.integers(1, 29, rows), dice.integers(0, 60, rows)
    hour = np.clip(dice.normal(13, 4.7, rows), 5, 23).astype(np.int64)
    late = np.where(dice.random(rows) < 0.6, dice.integers(-15, 3, rows), dice.exponential(40, rows)).astype(np.int64)
    distance = dice.gamma(2.0, 520, rows).astype(np.int64) + 80
    flown = distance / 7.5 + dice.normal(18, 8, rows)
    cancelled = dice.random(rows) < CANCELLED
    scheduled = hour * 100 + minute

    def known(values: Any) -> pa.Array:
        return pa.array(np.asarray(values), pa.float64(), mask=cancelled)  # as dataframes keep numbers with gaps

    return pa.table(
        {
            "year": np.full(rows, 2013),
            "month": month,
            "day": day,
            "dep_time": known((scheduled + late) % 2400),
            "sched_dep_time": scheduled,
            "dep_delay": known(late),
            "arr_time": known((scheduled + late + flown) % 2400),
            "sched_arr_time": ((scheduled + flown) % 2400).astype(np.int64),
            "arr_delay": known(late + dice.normal(-6, 18, rows).astype(np.int64)),
            "carrier": _names("C", CARRIERS, rows, dice),
            "flight": dice.integers(1, FLIGHTS, rows),
            "tailnum": _names("N", TAILS, rows, dice),
            "origin": np.array(ORIGINS)[dice.integers(0, 3, rows)],
            "dest": _names("D", DESTINATIONS, rows, dice),
            "air_time": known(flown),
            "distance": distance,
            "hour": hour,
            "minute": minute,
        }
    )


def _names(letter: str, count: int, rows: int, dice: np.random.Generator) -> Any:
    names = np.array([f"{letter}{at:04}" for at in range(count)])
    return names[np.minimum((count * dice.random(rows) ** 2).astype(np.int64), count - 1)]


def conditions(table: pa.Table, count: int, seed: int = 7) -> list[Tree]:
    """Of a few shapes in turn, as a dashboard's or an alert's: most have one wide range and something else."""
    dice = np.random.default_rng(seed)
    numbers = ("dep_delay", "arr_delay", "distance", "air_time", "sched_dep_time", "dep_time", "flight")
    sorted_ = {name: np.sort(table[name].drop_null().to_numpy()) for name in numbers}

    def at_share(name: str, share: float) -> float | int:
        value = sorted_[name][int(share * (len(sorted_[name]) - 1))].item()
        return value if isinstance(value, int) else float(value)

    def one_range() -> Tree:
        name, share = str(dice.choice(numbers)), float(dice.uniform(0.2, 0.6))
        low = float(dice.uniform(0, 1 - share))
        return Atom(name, "BETWEEN", (at_share(name, low), at_share(name, low + share)))

    def one_side() -> Tree:
        name = str(dice.choice(numbers))
        up = bool(dice.integers(2))
        return Atom(
            name, ">" if up else "<", at_share(name, float(dice.uniform(0.5, 0.8) if up else dice.uniform(0.2, 0.5)))
        )

    def some(name: str, prefix: str, known: int, most: int) -> Tree:
        wanted = dice.choice(known, int(dice.integers(2, most)), replace=False)
        return Atom(name, "IN", tuple(f"{prefix}{each:04}" for each in sorted(wanted)))

    shapes = (
        one_side,
        one_range,
        lambda: And((one_side(), Atom("origin", "<>", str(dice.choice(ORIGINS))))),
        lambda: Or((some("carrier", "C", CARRIERS, 6), Atom("dep_delay", ">", int(dice.integers(30, 90))))),
        lambda: And((one_range(), Not(some("carrier", "C", CARRIERS, 4)))),
        lambda: And((Atom("month", "BETWEEN", (1, int(dice.integers(5, 10)))), one_side())),
        lambda: Or((Atom("origin", "=", str(dice.choice(ORIGINS))), Atom("tailnum", "LIKE", "N00%"))),
        lambda: some("dest", "D", DESTINATIONS, 50),
    )
    return [shapes[number % len(shapes)]() for number in range(count)]


def measure() -> dict[str, Any]:
    table = flights(ROWS)
    work = Workload("broad", table, conditions(table, CONDITIONS))
    contestants: list[Contestant] = [HoldfastBatch(1), *(DuckDB(shape, 1) for shape in SHAPES)]
    for each in contestants:
        each.prepare(work)
    best: dict[str, float] = {}
    pairs: dict[str, int] = {}
    for _ in range(ROUNDS):
        for each in contestants:
            name = f"{each.name} {each.shape}".strip()
            began = process_time()
            pairs[name] = each.run().pairs
            best[name] = min(best.get(name, float("inf")), process_time() - began)
    if len(set(pairs.values())) > 1:
        raise SystemExit(f"they do not find the same number of pairs: {pairs}")
    ours, theirs = best["holdfast"], min(seconds for name, seconds in best.items() if name != "holdfast")
    check = Check("one thread: DuckDB", "at least", 1.0, "x", theirs / ours)
    return {
        "benchmark": "broad",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(("numpy", "numba", "pyarrow", "duckdb")),
        "events": ROWS,
        "columns": table.num_columns,
        "subscriptions": CONDITIONS,
        "pairs": pairs["holdfast"],
        "rounds": ROUNDS,
        "cpu_s": best,
        "checks": [check.as_dict()],
    }


def _table(data: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [[name, f"{seconds:.2f}", f"{data['pairs'] / seconds:,.0f}"] for name, seconds in data["cpu_s"].items()]
    return ["contestant", "CPU s", "pairs/s"], rows


def report(data: dict[str, Any]) -> str:
    return "\n\n".join([aligned(*_table(data), right={1, 2}), aligned(*check_rows(data), right={1, 2})])


def section(data: dict[str, Any]) -> str:
    where = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in where["libraries"].items())
    return "\n".join([
        "## Broad conditions over a wide table",
        "",
        f"Measured on {data['date']} with `./run bench broad --save`: {where['processor']}, {where['cores']} cores, "
        f"{where['memory_gib']} GiB, Python {where['python']}, {versions}.",
        "",
        f"{data['subscriptions']} conditions over {data['events']:,} rows of {data['columns']} columns; each row",
        f"matches {data['pairs'] / data['events']:.0f}, {data['pairs']:,} pairs in all. The table is drawn;",
        "it has the columns and the size of all flights from New York in a year. One thread each, the best of",
        f"{data['rounds']} rounds in turn, CPU time from the Arrow table to all pairs in memory. DuckDB is asked in",
        "[two ways](#matching).",
        "",
        markdown(*_table(data), right={1, 2}),
        "",
        markdown(*check_rows(data), right={1, 2}),
    ])  # fmt: skip


def main() -> int:
    words = options("broad", __doc__)
    words.add_argument("--redraw", action="store_true", help="only write the page anew from the saved result")
    given = words.parse_args()
    if given.redraw:
        redraw("broad", section)
        return 0
    data = measure()
    told(given, data, section, report)
    return 0 if all(each["holds"] for each in data["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())

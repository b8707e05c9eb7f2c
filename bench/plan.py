"""The planner's speed on Spark: large networks, and a sweep of what-if cases of a small one.

The largest network has 1,000 brokers and 100,000 subscribers who want something from every broker: a hundred million
pairs, of which the million pairs of brokers are computed. Two smaller ones say how the time grows, and the line through
all three what 10,000 brokers and 1,000,000 subscribers would take. The sweep makes every broker of a network of 20
better in turn, with exact numbers. All count from a warm session to the written table and the advice. Some brokers
are predicted in one process as well, and must get the same numbers.
"""

import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench.command import options, redraw, told
from bench.results import machine
from holdfast.network.load import parse_text
from holdfast.network.settings import PlanSettings
from holdfast.planner.pairs import Predictor, Schemes
from holdfast.planner.plan import Case, by_home, case_of, predict_home
from holdfast.planner.what_if import changed

SAMPLES = PlanSettings().samples
SEED = "7/plan"
TARGET_S = 300  # for the large network: a few minutes on two cores
SIZES = (4, 2)  # the smaller networks: the largest one's brokers divided by these
EXTRAPOLATED_BROKERS = 10_000
EXTRAPOLATED_TARGET_S = 1_800
COMPARED = 8  # brokers whose subscribers are predicted in one process as well


def network(brokers: int, per_broker: int) -> Case:
    """Paper 004's low-end graph, larger."""
    return case_of(
        parse_text(
            {
                "seed": 7,
                "duration_s": 60.0,
                "routing": "destinations",
                "topology": {"kind": "random", "brokers": brokers, "mean_degree": 4},
                "brokers": {"availability": [0.9, 0.95], "cycle_s": 60_000.0},
                "links": {"availability": 0.99, "cycle_s": 60_000.0, "delay_ms": 1},
                "clients": {"per_broker": per_broker},
                "workload": {"kind": "patterns", "rate_per_s": 1.0, "lifetime_s": 3_600.0},
            }
        )
    )


def on_spark(spark: Any, cases: dict[str, Case]) -> dict[str, Any]:
    from holdfast.pipeline.plan.folder import planned

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan"
        found = planned(spark, cases, PlanSettings(), SEED, 0.9, out)
        off = max(_off(case, number, out) for number, case in islice(enumerate(cases.values()), 2))
    first = next(iter(cases.values()))
    return {
        "brokers": len(first.overlay.names),
        "links": len(first.overlay.links),
        "cases": len(cases),
        "rows": found.subscribers,
        "pairs": found.pairs,
        "broker_pairs": sum(len(by_home(case)) * len(case.demand.origins) for case in cases.values()),
        "seconds": found.seconds,
        "rows_per_s": found.subscribers / found.seconds,
        "pairs_per_s": found.pairs / found.seconds,
        "largest_difference": off,
    }


def _off(case: Case, number: int, out: Path) -> float:
    """The largest difference between Spark's table and one process, over the subscribers of some brokers."""
    homes = dict(islice(by_home(case).items(), COMPARED))
    names = [case.overlay.names[home] for home in homes]
    rows = pq.read_table(out, filters=[("case", "=", number), ("broker", "in", names)]).to_pylist()
    there = {row["subscriber"]: row for row in rows}
    predictor = Predictor(case.overlay, SAMPLES, SEED)
    off = 0.0
    for home, members in homes.items():
        for each in predict_home(case, predictor, home, members):
            row = there.pop(each.subscriber)
            for reading, schemes in (("counted", each.counted), ("assumed_up", each.assumed_up)):
                for name in Schemes._fields:
                    off = max(off, abs(row[f"{reading}_{name}"] - getattr(schemes, name)))
    if there:
        raise SystemExit(f"{len(there)} rows of Spark that one process does not have")
    return off


def of_the_aimed() -> dict[str, Any]:
    """The CPU time of some brokers of the network that is too long to run, in one process, worlds drawn before."""
    case = network(EXTRAPOLATED_BROKERS, 1)
    predictor = Predictor(case.overlay, SAMPLES, SEED)
    (first, members), *others = islice(by_home(case).items(), 1 + COMPARED)
    began = time.process_time()
    list(predict_home(case, predictor, first, members))
    drawn_s = time.process_time() - began
    began = time.process_time()
    for home, members in others:
        list(predict_home(case, predictor, home, members))
    pairs = len(others) * len(case.demand.origins)
    return {"pairs": pairs, "drawn_cpu_s": drawn_s, "pair_cpu_s": (time.process_time() - began) / pairs}


def measure(brokers: int, per_broker: int, small: int) -> dict[str, Any]:
    from holdfast.pipeline.session import session

    began = time.perf_counter()
    large = network(brokers, per_broker)
    load_s = time.perf_counter() - began
    spark = session("bench plan", "local[2]")
    on_spark(spark, {"": network(6, 2)})  # warm
    sizes = [on_spark(spark, {"": network(brokers // each, per_broker)}) for each in SIZES]
    whole = on_spark(spark, {"": large})
    sizes.append(whole)
    for each in sizes:
        print(f"{each['brokers']:,} brokers: {each['rows']:,} rows in {each['seconds']:.0f} s", file=sys.stderr)
    case = network(small, 50)
    sweep = on_spark(
        spark, {"": case, **{f"{name}=0.999": changed(case, f"{name}=0.999") for name in case.overlay.names}}
    )
    spark.stop()
    whole_s, off = whole["seconds"], max(whole["largest_difference"], sweep["largest_difference"])
    return {
        "benchmark": "plan",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(("numpy", "numba", "pyarrow", "pyspark")),
        "samples": SAMPLES,
        "load_s": load_s,
        "sizes": sizes,
        "large": whole,
        "sweep": sweep,
        "aimed": of_the_aimed(),
        "target_s": TARGET_S,
        "holds": whole_s <= TARGET_S and extrapolated_s(sizes) <= EXTRAPOLATED_TARGET_S and off == 0,
    }


def extrapolated_s(sizes: list[dict[str, Any]]) -> float:
    """What the line through the sizes' pairs of brokers says of the aimed size: every pair is computed once."""
    pairs, seconds = ([each[name] for each in sizes] for name in ("broker_pairs", "seconds"))
    slope, start = np.polyfit(pairs, seconds, 1)
    return float(start + slope * EXTRAPOLATED_BROKERS**2)


def _law(found: dict[str, Any]) -> str:
    seconds = extrapolated_s(found["sizes"])
    subscribers = EXTRAPOLATED_BROKERS * found["large"]["rows"] // found["large"]["brokers"]
    verdict = "within" if seconds <= EXTRAPOLATED_TARGET_S else "NOT within"
    text = (
        "The time grows with the pairs of brokers. By the line through the three sizes "
        f"{EXTRAPOLATED_BROKERS:,} brokers and {subscribers:,} subscribers take {seconds / 60:,.0f} min, {verdict} "
        f"the {EXTRAPOLATED_TARGET_S // 60} min that are wanted; that was not run."
    )
    if aimed := found.get("aimed"):  # results that were saved earlier lack it
        minutes = aimed["pair_cpu_s"] * EXTRAPOLATED_BROKERS**2 / 2 / 60
        text += (
            f" A pair takes longer in a larger network: in one of {EXTRAPOLATED_BROKERS:,} brokers "
            f"{aimed['pair_cpu_s'] * 1e6:.0f} microseconds of CPU time, by {aimed['pairs']:,} pairs in one process, "
            f"so that its pairs take two cores {minutes:,.0f} min."
        )
    return text


def report(found: dict[str, Any]) -> str:
    lines = [_law(found)]
    for name in ("large", "sweep"):
        each = found[name]
        what = f"{each['brokers']:,} brokers, {each['cases']} cases"
        rate = f"{each['rows_per_s']:,.0f} rows/s, {each['pairs_per_s']:,.0f} pairs/s"
        lines.append(f"{name:<6} {what}: {each['rows']:,} rows in {each['seconds']:.1f} s, {rate}")
        lines.append(f"       largest difference from one process {each['largest_difference']:g}")
    lines.append(
        f"target {found['target_s']} s for the large one, {EXTRAPOLATED_TARGET_S // 60} min for the one that was not "
        f"run, and no difference: {'yes' if found['holds'] else 'NO'}"
    )
    return "\n".join(lines)


def section(found: dict[str, Any]) -> str:
    where, large, sweep = found["machine"], found["large"], found["sweep"]
    rows = "\n".join(
        f"| {name} | {each['rows']:,} | {each['broker_pairs']:,} | {each['seconds']:.1f} | {each['rows_per_s']:,.0f} "
        f"| {each['pairs_per_s']:,.0f} |"
        for name, each in (*((f"{size['brokers']:,} brokers", size) for size in found["sizes"]), ("sweep", sweep))
    )
    return f"""## Plans

Measured on {found["date"]} with `./run bench plan --save`: {where["processor"]}, {where["cores"]} cores,
{where["memory_gib"]} GiB, Python {where["python"]}, Spark's local[2].

`holdfast plan --spark` on random graphs of up to {large["brokers"]:,} brokers and {large["links"]:,} links with
{large["rows"]:,} subscribers; and on a network of {sweep["brokers"]} brokers with {sweep["cases"]} cases, in each of
which one broker is better, with exact numbers. The time is from a warm session to the written table and the advice;
reading the file and working out who wants what took {found["load_s"]:.0f} s more for the largest.

| | rows | pairs of brokers | seconds | rows/s | pairs of publishers' brokers and subscribers/s |
|---|--:|--:|--:|--:|--:|
{rows}

{fill(_law(found), 120)}

Targets: at most {found["target_s"]} s for the largest, {EXTRAPOLATED_TARGET_S // 60} min for the one that was not
run, and the numbers of one process. The largest difference, over the subscribers of {COMPARED} brokers and two cases,
is {max(large["largest_difference"], sweep["largest_difference"]):g} ({"holds" if found["holds"] else "does NOT hold"}).
"""


def main() -> int:
    words = options("plan", __doc__)
    words.add_argument("--redraw", action="store_true", help="only write the page anew from the saved result")
    words.add_argument("--brokers", type=int, default=1_000)
    words.add_argument("--per-broker", type=int, default=100, help="subscribers")
    words.add_argument("--small", type=int, default=20, help="brokers of the sweep's network")
    given = words.parse_args()
    if given.redraw:
        redraw("plan", section)
        return 0
    result = measure(given.brokers, given.per_broker, given.small)
    told(given, result, section, report)
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())

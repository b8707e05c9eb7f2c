"""The results of bench/spark_match.py as checks, as text and as a section of docs/benchmarks.md."""

from statistics import median
from typing import Any

from bench.report import aligned, check_rows, markdown
from bench.results import Check

Data = dict[str, Any]

PER_CORE = {"counted": 70, "written": 50}  # per cent of match_batch on one core
FLAT = 125  # per cent: what the second half of a long run may take of the first
EVEN = 150  # per cent of the median that the slowest task may take


def rate(results: Data, contestant: str) -> float:
    found: float = next(row["events_per_second"] for row in results["rows"] if row["contestant"] == contestant)
    return found


def per_core(results: Data, end: str) -> float:
    """The job's rate on one core, with pairs counted or written, as a share of match_batch's."""
    share: float = rate(results, f"holdfast, {end}") / results["cores"] / results["match_batch"]["events_per_second"]
    return share


def ratios(results: Data) -> dict[str, float]:
    """How many times as fast Holdfast was at the same thing."""
    found = {}
    for row in results["rows"]:
        if not row["contestant"].startswith("holdfast"):
            end = row["contestant"].rsplit(", ", 1)[1]
            found[row["contestant"]] = rate(results, f"holdfast, {end}") / row["events_per_second"]
    return found


def checks(results: Data) -> list[Check]:
    memory, skew, times = results["memory"], results["skew"], ratios(results)
    worker, jvm = (100 * memory[name][1] / memory[name][0] for name in ("worker_mib", "jvm_mib"))
    return [
        Check("counted: Spark SQL join", "at least", 4, "x", times["Spark SQL join, counted"]),
        Check("written: Spark SQL join", "at least", 4, "x", times["Spark SQL join, written"]),
        *(
            Check(f"{end}, per core: match_batch", "at least", target, "%", 100 * per_core(results, end))
            for end, target in PER_CORE.items()
        ),
        Check(f"{memory['events']:,} events: Python worker, later to earlier", "less than", FLAT, "%", worker),
        Check(f"{memory['events']:,} events: JVM, later to earlier", "less than", FLAT, "%", jvm),
        *(
            Check(f"hot symbol, {name}: slowest task to median", "less than", EVEN, "%", _unevenness(skew[name]))
            for name in ("whole", "shards")
        ),
    ]


def _unevenness(found: Data) -> float:
    return float(100 * max(found["task_seconds"]) / median(found["task_seconds"]))


def table(results: Data) -> tuple[list[str], list[list[str]]]:
    head = ["contestant", "events/s", "seconds", "holdfast is", "measured on"]
    rows = []
    for row in results["rows"]:
        part = row["events"] < results["events"]
        ratio = results["ratios"].get(row["contestant"])
        rows.append([
            row["contestant"],
            f"{row['events_per_second']:,.0f}",
            f"{row['seconds']:.1f}",
            "" if ratio is None else f"{ratio:,.1f}x",
            f"{row['events']:,} events" + (", rate taken as that of the whole" if part else ""),
        ])  # fmt: skip
    alone = results["match_batch"]
    rows.append([
        "match_batch, one process", f"{alone['events_per_second']:,.0f}", f"{alone['seconds']:.1f}", "",
        f"{results['events']:,} events",
    ])  # fmt: skip
    return head, rows


def lines(results: Data) -> list[str]:
    memory, skew = results["memory"], results["skew"]
    return [
        f"Prepared beforehand in {results['prepare_seconds']:.1f} s: {results['subscriptions']:,} conditions parsed, "
        f"compiled and shared; Spark itself had taken {results['start_seconds']:.1f} s to start",
        f"Per core, the job has {per_core(results, 'counted'):.0%} of the rate of match_batch with pairs counted, and "
        f"{per_core(results, 'written'):.0%} with pairs written",
        *_at_once(results),
        f"{memory['events']:,} events, {memory['pairs']:,} pairs written in {memory['seconds']:.0f} s "
        f"({memory['events'] / memory['seconds']:,.0f} events/s): the largest Python worker "
        f"{memory['worker_mib'][0]:,.0f} MiB in the first half and {memory['worker_mib'][1]:,.0f} MiB in the second, "
        f"the JVM {memory['jvm_mib'][0]:,.0f} and {memory['jvm_mib'][1]:,.0f} MiB",
        *(
            f"A third of the events about one symbol, all in a row, {_indexes(skew[name])}: tasks took "
            f"{', '.join(f'{seconds:.1f}' for seconds in skew[name]['task_seconds'])} s"
            for name in ("whole", "shards")
        ),
    ]


def _at_once(results: Data) -> list[str]:
    """Two processes have the same machine as the job; results that were saved earlier lack them."""
    if "match_batch_at_once" not in results:
        return []
    most = sum(each["events_per_second"] for each in results["match_batch_at_once"])
    counted, written = (rate(results, f"holdfast, {end}") / most for end in PER_CORE)
    return [f"Of the rate of two processes of match_batch at once it has {counted:.0%} and {written:.0%}"]


def _indexes(found: Data) -> str:
    return "one index" if found["indexes"] == 1 else f"{found['indexes']} shards"


def plain(results: Data) -> str:
    head = f"{results['events']:,} events, {results['subscriptions']:,} subscriptions, {results['pairs']:,} pairs"
    parts = [
        f"{head}, local[{results['cores']}], best of {results['rounds']} rounds",
        aligned(*table(results), right={1, 2, 3}),
        "\n".join(lines(results)),
        aligned(*check_rows(results), right={1, 2}),
    ]
    return "\n\n".join(parts)


def section(results: Data) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    return "\n".join([
        "## Matching on Spark",
        "",
        f"Measured on {results['date']} with `./run bench spark_match --save`: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, "
        f"{versions}; Spark's master was local[{results['cores']}].",
        "",
        f"The stock workload: {results['events']:,} events in one Parquet file, {results['subscriptions']:,} "
        f"subscriptions, {results['pairs']:,} pairs. Contestants took turns, the best of {results['rounds']} rounds "
        "counts (one round where that takes over a minute), and all must find the same pairs.",
        "",
        _EXPLANATION,
        "",
        markdown(*table(results), right={1, 2, 3}),
        "",
        *(f"- {line}." for line in lines(results)),
        "",
        "The targets, and whether they hold:",
        "",
        markdown(*check_rows(results), right={1, 2}),
    ])  # fmt: skip


_EXPLANATION = """\
- "counted" reads the events, finds all pairs and counts them by subscription; "written" writes them as Parquet, the
  event's number and the subscription's id.
- `Spark SQL join` has the operands of all conditions in broadcast tables, one for each form of condition, joins on
  equalities and prefixes, filters by the rest and makes the pairs distinct, which conditions with OR need.
- `kept twice` is the same without that last step. The stock conditions have no OR, so here it is right.
- `Spark SQL cross join` compares each event with each condition.
- `rows handed to the JVM` is `holdfast.spark.match` as a DataFrame, counted by Spark: what handing every pair from
  Python to the JVM costs.
- `match_batch` is the matcher without Spark, in a process of its own, given the events in memory."""

"""The results of bench/audit.py as checks, as text and as a section of docs/benchmarks.md."""

from itertools import pairwise
from typing import Any

from bench.report import aligned, check_rows, markdown
from bench.results import Check

SMALL_S = 2.0  # a quickstart's audit in all
FIXED_MILLIONS, FIXED_S = 0.1, 6.0  # so few are hardly more than what an audit on Spark takes in any case
GROWTH = 1.0  # the time grows with the rows to this power at most
SKEW = 1.5  # the slowest task beside the median one
MEMORY = 1.25  # a worker's memory at the largest size beside that at a tenth of it
FIRST = 1.0  # millions from which growth is judged: below, the start of jobs is most of the time
EXTRAPOLATED = 100.0


def checks(data: dict[str, Any]) -> list[Check]:
    found = []
    if data["small"]:
        found.append(Check("quickstart, embedded engine", "less than", SMALL_S, "s", data["small"]["seconds"]))
    for row in data["rows"]:
        if row["millions"] == FIXED_MILLIONS and not row["hot"]:
            found.append(Check(f"{FIXED_MILLIONS:g} million, Spark", "less than", FIXED_S, "s", row["seconds"]))
    for one, other in pairwise(row for row in data["rows"] if not row["hot"]):
        if one["millions"] >= FIRST:
            ratio = _growth(one, other)
            title = f"time, {other['millions']:g} against {one['millions']:g} million: beside the rows"
            found.append(Check(title, "less than", GROWTH * 1.05, "x", ratio))
            title = f"worker memory, {other['millions']:g} against {one['millions']:g} million"
            found.append(Check(title, "less than", MEMORY, "x", other["worker_mib"] / one["worker_mib"]))
    for row in data["rows"]:
        if row["hot"] and row["skew"]["stages"]:
            title = f"slowest task beside the median, one pair with 90 % of {row['millions']:g} million"
            found.append(Check(title, "less than", SKEW, "x", row["skew"]["ratio"]))
            if "rows_ratio" in row["skew"]:
                title = f"rows of the largest task beside the median, one pair with 90 % of {row['millions']:g} million"
                found.append(Check(title, "less than", SKEW, "x", row["skew"]["rows_ratio"]))
    return found


def _growth(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How much more time a row takes."""
    return float((other["seconds"] / other["owed"]) / (one["seconds"] / one["owed"]))


def table(data: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["owed", "rows", "s", "owed/s", "JVM MiB", "worker MiB", "tasks", "slowest / median task", "by rows"]
    rows = []
    for row in data["rows"]:
        rows.append(
            [
                f"{row['owed']:,}" + (", 90 % of one pair" if row["hot"] else ""),
                f"{row['rows']:,}",
                f"{row['seconds']:.1f}",
                f"{row['owed'] / row['seconds']:,.0f}",
                f"{row['jvm_mib']:,.0f}",
                f"{row['worker_mib']:,.0f}",
                f"{row['tasks']:,}",
                *_skews(row["skew"]),
            ]
        )
    return head, rows


def _skews(skew: dict[str, Any]) -> tuple[str, str]:
    """By time, within a kind of task, and by rows; results that were saved earlier lack the last two."""
    if not skew["stages"]:
        return "", ""
    whole = f"{skew['ratio']:.2f} ({skew['stages']} stages)"
    if "rows_ratio" not in skew:
        return whole, ""
    return f"{whole}; {skew['later_ratio']:.2f} later", f"{skew['rows_ratio']:.2f}"


def extrapolated(data: dict[str, Any]) -> str:
    """What the largest measured sizes say of a hundred million, where that was not run."""
    even = [row for row in data["rows"] if not row["hot"]]
    if len(even) < 2 or even[-1]["millions"] >= EXTRAPOLATED:
        return ""
    one, other = even[-2:]
    slope = (other["seconds"] - one["seconds"]) / (other["owed"] - one["owed"])
    seconds = other["seconds"] + slope * (EXTRAPOLATED * 1e6 - other["owed"])
    return (
        f"{EXTRAPOLATED:g} million owed were not run; the line through the last two sizes says {seconds / 60:.0f} min."
    )


def report(data: dict[str, Any]) -> str:
    parts = [
        aligned(*table(data), right={1, 2, 3, 4, 5, 6, 7, 8}),
        extrapolated(data),
        aligned(*check_rows(data), right={1, 2}),
    ]
    return "\n\n".join(each for each in parts if each)


def section(data: dict[str, Any]) -> str:
    where = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in where["libraries"].items())
    small = data["small"]
    quick = f"The quickstart's run, {small['owed']:,} owed, takes {small['seconds']:.2f} s in all." if small else ""
    return "\n".join([
        "## Audits",
        "",
        f"Measured on {data['date']} with `./run bench audit --save`: {where['processor']}, {where['cores']} cores, "
        f"{where['memory_gib']} GiB, {where['system']}, Python {where['python']}, {versions}; local[2].",
        "",
        "Traces of 20 subscribers and 20 sources, in which every subscriber is owed half of all events; 0.5 % never",
        "came and 2 % were repaired behind later ones. Counted from a warm session to the verdicts. In the last rows",
        "one pair has nine of ten deliveries. The slowest task is set beside the median one of its stage, in stages",
        "with more than two tasks whose median is at least half a second. A stage may have tasks of two kinds: some",
        "read a shuffle, others what was kept. `later` is the same within a kind, without the first task of each",
        "core, which loads and compiles for those behind it; the last column is by the rows of shuffles that move",
        "many. The JVM has 2 GiB of heap at any size.",
        "[The physical plan](../bench/results/audit-plan.txt) of the largest is kept.",
        "",
        markdown(*table(data), right={1, 2, 3, 4, 5, 6, 7, 8}),
        "",
        *([extrapolated(data), ""] if extrapolated(data) else []),
        *([quick, ""] if quick else []),
        "The targets, and whether they hold:",
        "",
        markdown(*check_rows(data), right={1, 2}),
    ])  # fmt: skip

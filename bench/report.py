"""A run's results as plain text tables: for a terminal, a log, and (as Markdown) the documentation.

Everything here is made from the JSON form of the results, so what is printed after a run and what is
written into the documentation later cannot differ in more than the date.
"""

from collections.abc import Iterable, Sequence
from typing import Any

Data = dict[str, Any]


def plain(results: Data) -> str:
    parts = [f"Matching, best of at least {results['rounds']} interleaved rounds", batch_table(results)]
    parts += [
        index_table(results),
        run_table(results),
        live_lines(results),
        parse_table(results),
        memory_lines(results),
    ]
    parts.append(check_table(results))
    if results["left_out"]:
        parts.append("\n".join(f"left out: {each}" for each in results["left_out"]))
    return "\n\n".join(part for part in parts if part)


def batch_rows(results: Data) -> tuple[list[str], list[list[str]]]:
    head = ["workload", "subscriptions", "contestant", "threads", "events/s", "pairs/s"]
    head += ["holdfast is", "rounds", "measured on"]
    rows = []
    for row in results["rows"]:
        ratio = results["ratios"].get(_ratio_name(row))
        rows.append([
            row["workload"],
            f"{row['subscriptions']:,}",
            row["contestant"] + (f" {row['shape']}" if row["shape"] else ""),
            str(row["threads"]),
            f"{row['events_per_second']:,.0f}",
            f"{row['pairs'] / _measured_seconds(row):,.0f}",
            "" if ratio is None else f"{ratio:,.1f}x",
            str(row["rounds"]),
            measured_on(row),
        ])  # fmt: skip
    return head, rows


def _measured_seconds(row: Data) -> float:
    share = row["measured_events"] * row["measured_subscriptions"] / (row["events"] * row["subscriptions"])
    seconds: float = row["seconds"] * share
    return seconds


def _ratio_name(row: Data) -> str:
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    return f"{row['workload']} {row['subscriptions']:,} x {row['events']:,}: {row['contestant']} ({threads})"


def measured_on(row: Data) -> str:
    if row["measured_events"] < row["events"]:
        return f"{row['measured_events']:,} of {row['events']:,} events, scaled"
    if row["measured_subscriptions"] < row["subscriptions"]:
        return f"{row['measured_subscriptions']:,} of {row['subscriptions']:,} subscriptions, scaled"
    return f"{row['events']:,} events"


def batch_table(results: Data) -> str:
    head, rows = batch_rows(results)
    return aligned(head, rows, right={1, 3, 4, 5, 6, 7}) if rows else ""


def index_rows(results: Data) -> tuple[list[str], list[list[str]]]:
    head = ["workload", "subscriptions", "add (s)", "compile (s)"]
    rows = []
    for each in results["index"]:
        seconds = [f"{each[part]:.2f}" for part in ("add_seconds", "compile_seconds")]
        rows.append([each["workload"], f"{each['subscriptions']:,}", *seconds])
    return head, rows


def index_table(results: Data) -> str:
    head, rows = index_rows(results)
    return aligned(head, rows, right={1, 2, 3}) if rows else ""


_RUN_COLUMNS = ("batch_us", "run_us", "single_us", "run_ids_us", "single_ids_us")


def run_rows(results: Data) -> tuple[list[str], list[list[str]]]:
    head = [
        "workload",
        "subscriptions",
        "pairs an event",
        "table (us)",
        "run of 64",
        "single",
        "ids, run",
        "ids, single",
    ]
    rows = []
    for each in results.get("runs", []):
        times = [f"{each[name]:.1f}" for name in _RUN_COLUMNS]
        rows.append([each["workload"], f"{each['subscriptions']:,}", f"{each['pairs_per_event']:,.1f}", *times])
    return head, rows


def run_table(results: Data) -> str:
    head, rows = run_rows(results)
    return aligned(head, rows, right=set(range(1, 8))) if rows else ""


def live_lines(results: Data) -> str:
    lines = []
    live, churn = results["live"], results["churn"]
    if live is not None:
        lines.append(
            f"live, {live['subscriptions']:,} stock subscriptions: "
            f"match {live['match_per_second']:,.0f} events/s,"
            f" scan {live['scan_per_second']:,.0f} events/s (on {live['scan_events']:,} events),"
            f" {live['ratio']:,.0f}x"
        )
    if churn is not None:
        lines.append(
            f"while matching, {churn['changes']:,} new conditions added and removed: "
            f"{churn['pairs_per_second']:,.0f} such pairs/s (add {churn['add_us']:.1f} us, "
            f"remove {churn['remove_us']:.1f} us); match meanwhile {churn['match_us_median']:.1f} us "
            f"in the median, {churn['match_us_p99']:.1f} us at the 99th percentile"
        )
    return "\n".join(lines)


def parse_rows(results: Data) -> tuple[list[str], list[list[str]]]:
    head = ["parse", "holdfast (1/s)", "sqlglot (1/s)", "holdfast is", "texts per round"]
    rows = []
    for each in results["parsing"]:
        known = each["sqlglot_per_second"] is not None
        rows.append([
            each["texts"],
            f"{each['parse_per_second']:,.0f}",
            f"{each['sqlglot_per_second']:,.0f}" if known else "",
            f"{each['ratio']:,.1f}x" if known else "",
            f"{each['count']:,}" + (f", sqlglot {each['sqlglot_count']:,} of them" if known else ""),
        ])  # fmt: skip
    return head, rows


def parse_table(results: Data) -> str:
    head, rows = parse_rows(results)
    return aligned(head, rows, right={1, 2, 3}) if rows else ""


def memory_lines(results: Data) -> str:
    memory = results["memory"]
    if memory is None:
        return ""
    return (
        f"{memory['subscriptions']:,} stock subscriptions in a fresh process, one run: "
        f"{memory['seconds']:.1f} s (add {memory['add_seconds']:.1f}, "
        f"live index {memory['live_index_seconds']:.1f}, batch index {memory['batch_index_seconds']:.1f}); "
        f"peak growth {memory['peak_growth_mib']:,.0f} MiB "
        f"over {memory['imported_mib']:,.0f} MiB after imports "
        f"({memory['after_add_mib']:,.0f} after add, {memory['after_live_mib']:,.0f} with the live index)"
    )


def check_rows(results: Data) -> tuple[list[str], list[list[str]]]:
    head = ["check", "target", "measured", "holds"]
    return head, [
        [
            check["name"],
            f"{check['sense']} {_target(check['target'])}{_unit(check)}",
            f"{check['measured']:,.{_digits(check['measured'])}f}{_unit(check)}",
            "yes" if check["holds"] else "NO",
        ]
        for check in results["checks"]
    ]


def _unit(check: Data) -> str:
    unit: str = check["unit"]
    return unit if unit in ("x", "/s") else f" {unit}"


def _target(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _digits(value: float) -> int:
    return 2 if 0 < value < 1 else 1 if value < 100 else 0


def check_table(results: Data) -> str:
    head, rows = check_rows(results)
    return aligned(head, rows, right={1, 2}) if rows else ""


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]], right: set[int]) -> str:
    rows = list(rows)
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], right: set[int]) -> str:
    rule = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])

"""The saved results as a chart and as a section of the documentation, from the JSON file alone.

The chart is bars of events per second on a logarithmic scale, one group per workload and size, written by
hand as SVG. Its text is a grey that can be read on white and on near-black, and it asks for no font but the
reader's own. A test holds both files against what this module makes, so neither can be edited or forgotten.
"""

from html import escape
from itertools import groupby
from math import floor, log10
from pathlib import Path
from typing import Any

from bench import report
from bench.results import SAVED, load
from bench.workloads import REPOSITORY

CHART = REPOSITORY / "docs" / "benchmarks" / "matching.svg"
PAGE = REPOSITORY / "docs" / "benchmarks.md"

_WIDTH, _LEFT, _RIGHT, _TOP = 800, 170, 72, 56
_BAR, _STEP, _GROUP = 12, 17, 38  # height of a bar, from bar to bar, and the head of a group
_COLOURS = {
    "holdfast": "#d9622b",
    "naive": "#8a6fc0",
    "numpy": "#4b86c4",
    "duckdb": "#3f9b76",
    "polars": "#b08a2e",
    "scan": "#87909a",
}
_STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #6b7480; }
  .title { font-size: 15px; font-weight: 600; }
  .group { font-weight: 600; }
  .tick { font-size: 11px; }
  .grid { stroke: #8a939d; stroke-opacity: 0.35; }
  @media (prefers-color-scheme: dark) { text { fill: #a7b0ba; } }
"""


def svg(results: dict[str, Any]) -> str:
    rows = results["rows"]
    groups = [list(group) for _, group in groupby(rows, lambda row: (row["workload"], row["subscriptions"]))]
    low = floor(log10(min(row["events_per_second"] for row in rows)))
    high = log10(max(row["events_per_second"] for row in rows))
    height = _TOP + sum(_GROUP + _STEP * len(group) for group in groups) + 64

    def across(rate: float) -> float:
        return _LEFT + (log10(rate) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    bottom = height - 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title">',
        '<title id="title">Events matched per second, by workload and contestant</title>',
        f"<style>{_STYLE}</style>",
        '<text class="title" x="12" y="24">Events matched per second (logarithmic; longer is faster)</text>',
    ]
    for power in range(low, floor(high) + 1):
        x = across(10**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{bottom}"/>')
        label = f"{10**power:,}" if power >= 0 else f"{10**power:g}"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    if not all(map(_whole, rows)):
        note = "* measured on a part of the work and scaled to the whole"
        parts.append(f'<text class="tick" x="12" y="{height - 12}">{note}</text>')
    y = _TOP
    for group in groups:
        parts += _group(group, y, across)
        y += _GROUP + _STEP * len(group)
    return "\n".join([*parts, "</svg>", ""])


def _group(group: list[dict[str, Any]], y: int, across: Any) -> list[str]:
    first = group[0]
    title = f"{first['workload']}, {first['subscriptions']:,} subscriptions"
    parts = [f'<text class="group" x="12" y="{y + 18}">{escape(title)}</text>']
    y += _GROUP - 12
    for row in group:
        end = across(row["events_per_second"])
        name = row["contestant"] + (f", {row['threads']} threads" if row["threads"] > 1 else "")
        mark = "" if _whole(row) else " *"
        middle = y + _BAR - 2
        parts += [
            f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y}" width="{max(end - _LEFT, 1):.1f}" height="{_BAR}" rx="2" '
            f'fill="{_COLOURS[row["contestant"]]}"/>',
            f'<text x="{end + 6:.1f}" y="{middle}">{_rate(row["events_per_second"])}{mark}</text>',
        ]
        y += _STEP
    return parts


def _rate(rate: float) -> str:
    """Three significant digits, with thousands and millions by name."""
    for size, name in ((1e6, " M"), (1e3, " k"), (1, "")):
        if rate >= size:
            value = rate / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{name}"
    return f"{rate:.2g}"


def _whole(row: dict[str, Any]) -> bool:
    measured = row["measured_events"], row["measured_subscriptions"]
    return bool(measured == (row["events"], row["subscriptions"]))


def section(results: dict[str, Any]) -> str:
    """The part of the page between its two marks, the marks included."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    picture = CHART.relative_to(PAGE.parent).as_posix()
    return "\n".join([
        _BEGIN,
        "",
        "## Matching",
        "",
        f"Measured on {results['date']}{_later(results)} with `./run bench matching --save`: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}, {versions}. Contestants took turns and each number is the best of "
        f"{results['rounds']} rounds or more. The machine is shared: compare numbers with each other rather "
        "than with those of another day.",
        "",
        f"![Events matched per second, by workload and contestant]({picture})",
        "",
        _EXPLANATION,
        "",
        report.markdown(*report.batch_rows(results), right={1, 3, 4, 5, 6, 7}),
        "",
        "What Holdfast did before that, once: parse and add the conditions, compile the index.",
        "",
        report.markdown(*report.index_rows(results), right={1, 2, 3}),
        "",
        *_runs(results),
        *(f"- {line[0].upper()}{line[1:]}." for line in _lines(results)),
        "",
        report.markdown(*report.parse_rows(results), right={1, 2, 3}),
        "",
        "The targets, and whether they hold:",
        "",
        report.markdown(*report.check_rows(results), right={1, 2}),
        "",
        _END,
    ])  # fmt: skip


def _later(results: dict[str, Any]) -> str:
    """The parts that were measured on other days."""
    later = [f"{part} on {date}" for part, date in results.get("dates", {}).items() if date != results["date"]]
    return f" ({', '.join(later)})" if later else ""


def _lines(results: dict[str, Any]) -> list[str]:
    return [*report.live_lines(results).splitlines(), *report.memory_lines(results).splitlines()]


def _runs(results: dict[str, Any]) -> list[str]:
    head, rows = report.run_rows(results)
    return [_RUNS, "", report.markdown(head, rows, right=set(range(1, 8))), ""] if rows else []


_RUNS = """\
Events as Python maps, beside the same events in a table: CPU time in microseconds an event, in runs of 64 and one by
one. A broker asks which of its neighbours want an event, here twenty; an application asks for the ids, which are one
Python object for each match. `fleet` has LIKE, OR, NOT and missing attributes; `wide` has ten wide ranges a
condition."""
_BEGIN, _END = "<!-- matching: made by bench/chart.py -->", "<!-- matching: end -->"
_EXPLANATION = """\
Everyone starts with the same Arrow table of events and ends with all pairs of event and subscription in
memory; encoding or loading the events counts, preparing the conditions beforehand does not. All must find the
same number of pairs. Where a contestant was measured on a part (marked * in the chart), its time is scaled to
the whole.

- `stock` and `naive` come from two scripts, `stock.py` and `naive_kernel.py`, that are looked for in
  `../shared/workloads` beside the repository or where `--workloads` says; without them their rows are left out.
- `naive` is a numba kernel with one access predicate per condition and no further index, in a process of its
  own.
- `numpy` evaluates each condition over whole columns, text dictionary-encoded first.
- `duckdb` and `polars` are asked in several ways and the fastest is kept. `join` puts the operands of all
  conditions that look alike into a table and joins it with the events; `filters` asks each condition by
  itself; `masks` asks for the row numbers of many conditions in one query.
- `scan` is Holdfast's own oracle, which asks every condition in turn.
- "holdfast is" compares one thread with one thread, and several with several."""
_HEAD = """\
# Benchmarks

Each section is written by the benchmark that it describes; nothing in it is typed by hand.

"""


def page(results: dict[str, Any], before: str | None) -> str:
    """The whole page with this section put in place of the one it had, or at its end."""
    text = _HEAD if before is None else before
    if _BEGIN not in text:
        return text.rstrip("\n") + "\n\n" + section(results) + "\n"
    head, rest = text.split(_BEGIN, 1)
    return head + section(results) + rest.split(_END, 1)[1]


def regenerate(saved: Path = SAVED, drawing: Path = CHART, document: Path = PAGE) -> None:
    results = load(saved)
    if results is None:
        raise SystemExit("there are no saved results; make them with --save")
    drawing.parent.mkdir(parents=True, exist_ok=True)
    drawing.write_text(svg(results))
    document.write_text(page(results, document.read_text() if document.is_file() else None))

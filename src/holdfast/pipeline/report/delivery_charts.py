"""The audit's charts as SVG: what became of each second's events, and how long deliveries took.

Drawn 640 wide, which is one column of the report on a wide screen. On a narrow one the style sheet makes letters
larger, for which margins leave room. Legends are text of the page above a chart, so that they wrap and cover nothing.
Colours are classes of the report's style sheet, light and dark; every mark says its numbers when the pointer rests on
it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any

from holdfast.pipeline import number_format
from holdfast.pipeline.charts.axes import Axis, linear, logarithmic

_WIDTH, _HEIGHT = 640, 346
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 600, 52, 280  # half of 100,000 in large letters fits beside the last tick
_STRIPS = 96  # places along a curve that tell their numbers
_GAP = 1.05  # neighbouring classes of delays are less than this far apart
_NAMED_MAX = 6  # marks named below a chart; the others say their names when pointed at
_DECADES_MAX = 4  # of the delays' axis; what is quicker still stands at its left edge
FATES = ("delivered", "recovered", "replica", "late", "lost")  # from the bottom up; together they are what was owed
_LABELS = {"delivered": "original"}  # the others were delivered, too: this is what came by the original way


@dataclass(frozen=True)
class Curve:
    """How many deliveries took at most how long."""

    name: str
    css: str
    points: tuple[tuple[int, int], ...]  # largest delay of the class, deliveries in it


def fates_over_time(
    slices: Sequence[Mapping[str, Any]],
    slice_s: int,
    marks: Sequence[tuple[int, str, str]],
    times: Sequence[tuple[int, int, str]] = (),
) -> str:
    """Stacked: each column is what was owed of the events published in that slice of time. `times` are shaded."""
    owed = [each["second"] for each in slices if each["owed"]]
    if not owed:
        return _empty("Nothing was owed to anybody in this run.")
    stacks = [(each["second"], _fates(each)) for each in slices if owed[0] <= each["second"] <= owed[-1]]
    totals = {name: sum(fates[name] for _, fates in stacks) for name in FATES}
    time = _time_axis([second for second, _ in stacks], slice_s)
    height = linear([0, *(sum(fates.values()) / slice_s for _, fates in stacks)], 5)
    parts = [*_frame(time, height, "time of publishing, s", "events a second")]
    legend = _legend(
        [(_LABELS.get(name, name), f"fill-{name}", number_format.count(totals[name])) for name in FATES if totals[name]]
    )
    parts += _spans(time, times)
    for second, fates in stacks:
        left, right = _across(time, second), _across(time, second + slice_s)
        below = 0.0
        for name in FATES:
            above = below + fates[name] / slice_s
            if fates[name]:
                parts.append(_box(f"fill-{name}", left, right - 0.6, _down(height, above), _down(height, below)))
            below = above
        texts = ", ".join(
            f"{_LABELS.get(name, name)} {fates[name]:,}" for name in FATES if fates[name] or name == "delivered"
        )
        words = f"{_span(second, slice_s)}: owed {sum(fates.values()):,}, {texts}"
        parts.append(_box("hit", left, right, _TOP, _BOTTOM, words))
    return legend + _svg("Delivery over time", [*parts, *_marks(time, marks)]) + _marks_named(marks)


def _fates(row: Mapping[str, Any]) -> dict[str, int]:
    return {
        "delivered": row["delivered"] - row["recovered"],
        "recovered": row["recovered"] - row["recovered_replica"],
        "replica": row["recovered_replica"],
        "late": row["late"],
        "lost": row["lost"],
    }


def ratios_over_time(runs: Sequence[tuple[str, str, Sequence[Mapping[str, Any]]]], slice_s: int) -> str:
    """The share of what was owed that was delivered: one line per run, given as name, style and slices."""
    lines = [
        (name, css, [(each["second"], each["delivered"] / each["owed"], each) for each in slices if each["owed"]])
        for name, css, slices in runs
    ]
    every = [spot for _, _, spots in lines for spot in spots]
    if not every:
        return _empty("Nothing was owed to anybody in these runs.")
    time = _time_axis([second for second, _, _ in every], slice_s)
    lowest = min(share for _, share, _ in every)
    bottom = 100 * lowest - (100 - 100 * lowest) * 0.08 - 0.01 if lowest < 1 else 0.0  # a line at the top says it all
    height = linear([100 * lowest, 100], 5, (bottom, 100))
    parts = [*_frame(time, height, "time of publishing, s", "delivered of what was owed, %")]
    legend = _legend([(name, css, "") for name, css, _ in lines])
    for _, css, spots in lines:
        places = [(_across(time, second + slice_s / 2), _down(height, 100 * share)) for second, share, _ in spots]
        parts.append(f'<polyline class="{css}" points="{_points(places)}"/>')
        parts += [f'<circle class="{css} dot" cx="{x:.1f}" cy="{y:.1f}" r="1.6"/>' for x, y in places]
    for second in sorted({second for second, _, _ in every}):
        texts = [
            f"{name} {number_format.share(share)} of {row['owed']:,}"
            for name, _, spots in lines
            for at, share, row in spots
            if at == second
        ]
        left, right = _across(time, second), _across(time, second + slice_s)
        parts.append(_box("hit", left, right, _TOP, _BOTTOM, f"{_span(second, slice_s)}: " + "; ".join(texts)))
    return legend + _svg("Delivered of what was owed, over time", parts)


def cumulated_delays(curves: Sequence[Curve]) -> str:
    """The share of deliveries that took at most so long, on a logarithmic axis."""
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return _empty("Nothing was delivered, so there are no delays.")
    time, height = _delay_axis(drawn), Axis(0, 1, tuple((at / 4, f"{25 * at}") for at in range(5)))
    parts = [*_frame(time, height, "delay, ms", "deliveries that took at most so long, %")]
    legend = []
    for curve in drawn:
        total = sum(count for _, count in curve.points)
        legend.append((curve.name, curve.css, number_format.count(total)))
        corners, share, before = [], 0.0, 0.0
        for (delay, _), upto in _upto(curve):
            x = _across(time, max(delay / 1_000, time.low))
            if delay > before * _GAP:  # nothing took a time in between: a step, not a slope
                corners.append((x, _down(height, share)))
            share, before = upto / total, delay
            corners.append((x, _down(height, share)))
        corners.append((_RIGHT, _down(height, 1)))
        parts.append(f'<polyline class="{curve.css}" points="{_points(corners)}"/>')
    return _legend(legend) + _svg("Delays", [*parts, *_delay_strips(drawn, time)])


def _delay_axis(curves: Sequence[Curve]) -> Axis:
    delays = [delay / 1_000 for curve in curves for delay, _ in curve.points]
    least = max(delays) / 10**_DECADES_MAX
    return logarithmic([delay for delay in delays if delay > least] or [0.001])


def _upto(curve: Curve) -> list[tuple[tuple[int, int], int]]:
    return list(zip(curve.points, accumulate(count for _, count in curve.points), strict=True))


def _delay_strips(curves: Sequence[Curve], time: Axis) -> Iterable[str]:
    """Strips along the time axis; each tells the shares up to its right edge."""
    step = (_RIGHT - _LEFT) / _STRIPS
    for number in range(_STRIPS):
        at_us = 1_000 * time.low * (time.high / time.low) ** ((number + 1) / _STRIPS)
        texts = []
        for curve in curves:
            total = sum(count for _, count in curve.points)
            below = sum(count for delay, count in curve.points if delay <= at_us)
            texts.append(f"{curve.name} {number_format.share(below / total)}")
        left = _LEFT + number * step
        yield _box("hit", left, left + step, _TOP, _BOTTOM, f"within {number_format.time(at_us)}: " + "; ".join(texts))


# Parts of a chart --------------------------------------------------------------------------------------------------


def _svg(title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">' + "\n".join(parts) + "</svg>"
    )


def _empty(words: str) -> str:
    return f'<p class="empty">{escape(words)}</p>'


def _time_axis(seconds: Sequence[int], slice_s: int) -> Axis:
    low, high = min(seconds), max(seconds) + slice_s
    return linear([low, high], 8, (low, high))


def _frame(x: Axis, y: Axis, x_label: str, y_label: str) -> Iterable[str]:
    for place, name in y.ticks:
        at = _down(y, place)
        yield f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{_RIGHT}" y2="{at:.1f}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{escape(name)}</text>'
    for place, name in x.ticks:
        at = _across(x, place)
        yield f'<line class="axis" x1="{at:.1f}" y1="{_BOTTOM}" x2="{at:.1f}" y2="{_BOTTOM + 5}"/>'
        yield f'<text class="tick" x="{at:.1f}" y="{_BOTTOM + 23}" text-anchor="middle">{escape(name)}</text>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{_BOTTOM}" x2="{_RIGHT}" y2="{_BOTTOM}"/>'
    yield f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 50}" text-anchor="middle">{escape(x_label)}</text>'
    yield f'<text x="0" y="{_TOP - 30}">{escape(y_label)}</text>'


def _legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """Name, style and number of each: a square of its colour, or a piece of its line."""
    items = (f'<li><i class="{css}"></i>{escape(name)} {escape(number)}</li>' for name, css, number in entries)
    return f'<ul class="legend">{"".join(items)}</ul>'


def _spans(time: Axis, times: Sequence[tuple[int, int, str]]) -> Iterable[str]:
    for from_us, until_us, words in times:
        left, right = (_across(time, min(max(at / 1e6, time.low), time.high)) for at in (from_us, until_us))
        yield _box("span", left - 1, right + 1, _TOP - 14, _BOTTOM)
        anchor, x = ("end", right + 1) if right > (_LEFT + _RIGHT) / 2 else ("start", left - 1)
        yield f'<text class="tick span-name" x="{x:.1f}" y="{_TOP - 3}" text-anchor="{anchor}">{escape(words)}</text>'


def _marks(time: Axis, marks: Sequence[tuple[int, str, str]]) -> Iterable[str]:
    """Crashes and the like, as small triangles on the time axis."""
    for mark in marks:
        second = mark[0] / 1e6
        if not time.low <= second <= time.high:
            continue
        x = _across(time, second)
        shape = f"{x - 4.5:.1f},{_BOTTOM + 9} {x + 4.5:.1f},{_BOTTOM + 9} {x:.1f},{_BOTTOM + 1}"
        yield f'<line class="mark" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_BOTTOM}"/>'
        yield f'<polygon class="mark-tip" points="{shape}"><title>{escape(_mark_words(mark))}</title></polygon>'


def _marks_named(marks: Sequence[tuple[int, str, str]]) -> str:
    if not marks:
        return ""
    named = " · ".join(map(_mark_words, marks[:_NAMED_MAX]))
    more = f" · and {len(marks) - _NAMED_MAX:,} more" if len(marks) > _NAMED_MAX else ""
    return f'<p class="says">▲ {escape(named)}{more}</p>'


def _mark_words(mark: tuple[int, str, str]) -> str:
    time_us, kind, node = mark
    return f"{time_us / 1e6:,.1f} s {kind} {node}"


def _across(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (_RIGHT - _LEFT)


def _down(axis: Axis, value: float) -> float:
    return _BOTTOM - axis.share(value) * (_BOTTOM - _TOP)


def _box(css: str, left: float, right: float, top: float, bottom: float, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    width, height = max(0.3, right - left), max(0.0, bottom - top)
    return f'<rect class="{css}" x="{left:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}">{inside}</rect>'


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _span(second: int, slice_s: int) -> str:
    return f"second {second:,}" if slice_s == 1 else f"seconds {second:,} to {second + slice_s - 1:,}"

"""Line charts as SVG: lines with confidence bands, labels at the lines' ends, and marks from elsewhere.

The file stands alone: no script, no font, no address. It has no background; its colours can be told apart on white and
on near-black, and text follows the reader's choice of light or dark. It draws what it is given and computes nothing but
places: means and intervals come from saved tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import chain

from holdfast.model.errors import MisuseError
from holdfast.pipeline.charts.axes import Axis, at_values, linear, logarithmic

LINES_MAX = 12  # more cannot be told apart, nor labelled beside the chart

_WIDTH, _HEIGHT = 760, 440
_LEFT, _TOP, _BOTTOM = 76, 66, 58
_INSIDE = 10  # from the frame to the first and the last point, so that marks are whole
_RIGHT_MIN, _RIGHT_MAX = 60, 250
_CHARACTER = 7.3  # width of one, on average, in bold at 12 pixels
_LABEL_GAP = 16  # between the labels of two lines
_LABEL_CHARACTERS_MAX = 30
_COLOURS = ("#d1622b", "#3f83c9", "#3b9770", "#9068c8", "#a98524", "#c9527f", "#2b98a3", "#808a94")
_SHAPES = ("circle", "square", "triangle", "diamond")
_STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a; }
  .title { font-size: 15px; font-weight: 600; fill: #32383f; }
  .tick { font-size: 11px; }
  .grid { stroke: #8a939d; stroke-opacity: 0.28; }
  .axis { stroke: #8a939d; stroke-opacity: 0.9; }
  .leader { stroke: #8a939d; stroke-opacity: 0.6; }
  .band { fill-opacity: 0.17; stroke: none; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
  .bar { stroke-width: 1.5; }
  .hollow { fill: none; stroke-width: 1.8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b1bac4; } .title { fill: #e0e6ec; } .band { fill-opacity: 0.26; }
  }
"""


@dataclass(frozen=True)
class Spot:
    x: float
    y: float
    low: float | None = None  # of the confidence interval
    high: float | None = None


@dataclass(frozen=True)
class Line:
    name: str
    spots: tuple[Spot, ...]
    joined: bool = True  # else a cloud of points


@dataclass(frozen=True)
class Marks:
    """Points from elsewhere, such as a paper's figure: hollow, without a line."""

    name: str
    points: tuple[tuple[float, float], ...]
    of: str | None = None  # the line whose colour they take


@dataclass(frozen=True)
class LineChart:
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Marks, ...] = ()
    x_log: bool = False
    y_log: bool = False
    x_names: tuple[str, ...] = ()  # then x is a position among these, and points are not joined
    y_range: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None  # what the measure can be; bands are cut there
    note: str = ""


def svg(chart: LineChart) -> str:
    if not any(line.spots for line in chart.lines):
        raise MisuseError("a chart needs a point")
    if len(chart.lines) > LINES_MAX:
        raise MisuseError(f"{len(chart.lines)} lines; at most {LINES_MAX} can be told apart")
    return "\n".join(_Drawing(chart).parts()) + "\n"


class _Drawing:
    def __init__(self, chart: LineChart) -> None:
        self._chart = chart
        self._names = [line.name for line in chart.lines] + [marks.name for marks in chart.marks]
        self._labelled = len(self._names) > 1
        longest = max((len(_cut(name)) for name in self._names), default=0) if self._labelled else 0
        right = min(_RIGHT_MAX, max(_RIGHT_MIN, 30 + _CHARACTER * longest)) if self._labelled else 28
        self._right, self._bottom = _WIDTH - right, _HEIGHT - _BOTTOM
        self._x, self._y = _x_axis(chart), _y_axis(chart)

    def parts(self) -> list[str]:
        chart = self._chart
        return [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" role="img" aria-labelledby="title">',
            f'<title id="title">{escape(chart.title)}</title>',
            f"<style>{_STYLE}</style>",
            f'<clipPath id="plot"><rect x="{_LEFT}" y="{_TOP - 6}" width="{self._right - _LEFT:.1f}" '
            f'height="{self._bottom - _TOP + 12}"/></clipPath>',
            _text(16, 24, chart.title, css="title"),
            *self._frame(),
            '<g clip-path="url(#plot)">',
            *chain.from_iterable(self._band(at, line) for at, line in enumerate(chart.lines)),
            *chain.from_iterable(self._line(at, line) for at, line in enumerate(chart.lines)),
            *chain.from_iterable(self._marks(at, marks) for at, marks in enumerate(chart.marks)),
            "</g>",
            *(self._labels() if self._labelled else []),
            "</svg>",
        ]

    # Places --------------------------------------------------------------------------------------

    def _across(self, x: float) -> float:
        return _LEFT + _INSIDE + self._x.share(x) * (self._right - _LEFT - 2 * _INSIDE)

    def _down(self, y: float) -> float:
        """Far outside the axis is as good as just outside, and keeps the file's numbers small."""
        if self._y.log:
            y = max(y, self._y.low / 10)
        return self._bottom - min(2.0, max(-1.0, self._y.share(y))) * (self._bottom - _TOP)

    def _colour(self, at: int) -> str:
        return _COLOURS[at % len(_COLOURS)]

    # The frame -----------------------------------------------------------------------------------

    def _frame(self) -> Iterable[str]:
        chart = self._chart
        for place, name in self._y.ticks:
            y = self._down(place)
            yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{self._right:.1f}" y2="{y:.1f}"/>'
            yield _text(_LEFT - 8, y + 4, name, "end", "tick")
        for place, name in self._x.ticks:
            x = self._across(place)
            yield f'<line class="axis" x1="{x:.1f}" y1="{self._bottom}" x2="{x:.1f}" y2="{self._bottom + 5}"/>'
            yield _text(x, self._bottom + 19, name, "middle", "tick")
        yield f'<line class="axis" x1="{_LEFT}" y1="{self._bottom}" x2="{self._right:.1f}" y2="{self._bottom}"/>'
        yield _text((_LEFT + self._right) / 2, self._bottom + 40, chart.x_label, "middle")
        yield _text(16, _TOP - 16, chart.y_label)
        if chart.note:
            yield _text(_WIDTH - 12, _HEIGHT - 8, chart.note, "end", "tick")

    # What is shown -------------------------------------------------------------------------------

    def _band(self, at: int, line: Line) -> Iterable[str]:
        sure = [spot for spot in line.spots if spot.low is not None and spot.high is not None]
        edges = [(self._across(spot.x), *map(self._down, self._cut_to_limits(spot))) for spot in sure]
        colour = self._colour(at)
        if len(edges) > 1 and line.joined and not self._chart.x_names:
            outline = [*((x, high) for x, _, high in edges), *((x, low) for x, low, _ in reversed(edges))]
            yield f'<polygon class="band" fill="{colour}" points="{_points(outline)}"/>'
            return
        for x, low, high in edges:
            x += self._beside(at)
            yield f'<line class="bar" stroke="{colour}" x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}"/>'

    def _cut_to_limits(self, spot: Spot) -> tuple[float, float]:
        assert spot.low is not None and spot.high is not None
        least, most = self._chart.y_limits or (spot.low, spot.high)
        return max(spot.low, least), min(spot.high, most)

    def _beside(self, at: int) -> float:
        """Points of several lines over one name stand side by side."""
        return 9 * (at - (len(self._chart.lines) - 1) / 2) if self._chart.x_names else 0.0

    def _line(self, at: int, line: Line) -> Iterable[str]:
        places = [(self._across(spot.x) + self._beside(at), self._down(spot.y)) for spot in line.spots]
        colour = self._colour(at)
        dash = ' stroke-dasharray="7 4"' if at >= len(_COLOURS) else ""
        if len(places) > 1 and line.joined and not self._chart.x_names:
            yield f'<polyline class="line" stroke="{colour}"{dash} points="{_points(places)}"/>'
        for x, y in places:
            yield _shape(_SHAPES[at % len(_SHAPES)], x, y, 3.6, f'fill="{colour}"')

    def _marks(self, at: int, marks: Marks) -> Iterable[str]:
        line, colour = self._like(at, marks)
        for x, y in marks.points:
            place = self._across(x), self._down(y)
            yield _shape(_SHAPES[line % len(_SHAPES)], *place, 6.0, f'class="hollow" stroke="{colour}"')

    def _like(self, at: int, marks: Marks) -> tuple[int, str]:
        """The shape and colour of the line that marks belong to, or grey ones."""
        for number, line in enumerate(self._chart.lines):
            if line.name == marks.of:
                return number, self._colour(number)
        return len(self._chart.lines) + at, _COLOURS[-1]

    # Labels --------------------------------------------------------------------------------------

    def _labels(self) -> Iterable[str]:
        ends = [(line.spots[-1].x, line.spots[-1].y, at, line.name) for at, line in enumerate(self._chart.lines)]
        wanted = [
            (self._across(x) + self._beside(at), self._down(y), self._colour(at), name) for x, y, at, name in ends
        ]
        for at, marks in enumerate(self._chart.marks):
            x, y = max(marks.points)
            wanted.append((self._across(x), self._down(y), self._like(at, marks)[1], marks.name))
        wanted.sort(key=lambda each: each[1])
        places = _spread([y for _, y, _, _ in wanted], _LABEL_GAP, _TOP, self._bottom)
        left = self._right + 14
        for (x, y, colour, name), place in zip(wanted, places, strict=True):
            if abs(place - y) > 3 or left - x > 30:
                yield f'<line class="leader" x1="{x + 6:.1f}" y1="{y:.1f}" x2="{left - 3:.1f}" y2="{place:.1f}"/>'
            full_name = f"<title>{escape(name)}</title>" if _cut(name) != name else ""
            yield (
                f'<text x="{left:.1f}" y="{place + 4:.1f}" style="fill: {colour}; font-weight: 600">'
                f"{escape(_cut(name))}{full_name}</text>"
            )


def _x_axis(chart: LineChart) -> Axis:
    if chart.x_names:
        return at_values(range(len(chart.x_names)), chart.x_names)
    values = [spot.x for line in chart.lines for spot in line.spots] + [
        x for each in chart.marks for x, _ in each.points
    ]
    if chart.x_log:
        return logarithmic(values)
    axis = linear(values, 7)
    if min(values) == max(values):
        return axis
    # The points fill the width; ticks beyond them would only waste it.
    return linear(values, 7, (0.0 if axis.low == 0 else min(values), max(values)))


def _y_axis(chart: LineChart) -> Axis:
    least, most = chart.y_limits or (float("-inf"), float("inf"))
    spots = [spot for line in chart.lines for spot in line.spots]
    bounds = chain.from_iterable((spot.y, spot.low, spot.high) for spot in spots)
    values = [min(max(value, least), most) for value in bounds if value is not None]
    values += [y for each in chart.marks for _, y in each.points]
    if not chart.y_log:
        return linear(values, 6, chart.y_range)
    positive = [value for value in values if value > 0]  # a band may reach below zero; the line may not
    if any(spot.y <= 0 for spot in spots):
        raise MisuseError("a logarithmic axis has no place for 0 and below")
    return logarithmic(positive, chart.y_range)


def _spread(wanted: list[float], gap: float, top: float, bottom: float) -> list[float]:
    """Places in the same order, at least a gap apart, as near to the wanted ones as that allows, within the chart."""
    groups: list[list[float]] = []  # [centre, number of labels]
    for each in wanted:
        groups.append([each, 1])
        while len(groups) > 1:
            (centre, size), (above, count) = groups[-1], groups[-2]
            if centre - above >= gap * (size + count) / 2:
                break
            groups[-2:] = [[(centre * size + above * count) / (size + count), size + count]]
    places = [centre + gap * (at - (size - 1) / 2) for centre, size in groups for at in range(int(size))]
    for at, place in enumerate(places):
        places[at] = max(place, places[at - 1] + gap if at else top)
    for at in reversed(range(len(places))):
        places[at] = min(places[at], places[at + 1] - gap if at + 1 < len(places) else bottom)
    return places


def _shape(name: str, x: float, y: float, size: float, look: str) -> str:
    match name:
        case "square":
            side = size * 1.7
            return (
                f'<rect {look} x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}"/>'
            )
        case "triangle":
            corners = (x, y - size * 1.2), (x + size * 1.1, y + size * 0.8), (x - size * 1.1, y + size * 0.8)
            return f'<polygon {look} points="{_points(corners)}"/>'
        case "diamond":
            far = size * 1.25
            corners_4 = (x, y - far), (x + far, y), (x, y + far), (x - far, y)
            return f'<polygon {look} points="{_points(corners_4)}"/>'
    return f'<circle {look} cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>'


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _text(x: float, y: float, words: str, anchor: str = "start", css: str = "") -> str:
    named = f' class="{css}"' if css else ""
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}"{side}>{escape(words)}</text>'


def _cut(name: str) -> str:
    return name if len(name) <= _LABEL_CHARACTERS_MAX else f"{name[: _LABEL_CHARACTERS_MAX - 1]}…"

"""Line charts: valid, self-contained SVG that shows the saved table's numbers where they belong."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.model.errors import InputError, MisuseError
from holdfast.pipeline.charts.axes import linear, logarithmic
from holdfast.pipeline.charts.lines import LINES_MAX, Line, LineChart, Marks, Spot, svg
from holdfast.pipeline.sweep.chart import Chart, chart_from_words, draw, line_chart

SVG = "{http://www.w3.org/2000/svg}"
AXES = {"variant": ["tree", "graph"], "links.loss": [0.0, 0.1, 0.2]}


def chart(*lines: Line, **more: Any) -> LineChart:
    return LineChart("A title", "x", "y", lines, **more)


def rising(name: str, by: float = 1.0) -> Line:
    return Line(name, tuple(Spot(x, by * x, by * x - 0.5, by * x + 0.5) for x in (1.0, 2.0, 4.0)))


def elements(picture: str, kind: str, css: str | None = None) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}{kind}")
    return [each for each in found if css is None or each.get("class") == css]


def places(points: str | None) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.-]+),([\d.-]+)", points or "")]


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    rows = [
        {"variant": variant, "links.loss": loss, "metric": metric, "n": 4}
        | {"mean": mean, "low": mean - 0.02, "high": mean + 0.02}
        for at, variant in enumerate(AXES["variant"])
        for loss in (0.0, 0.1, 0.2)
        for metric, mean in (("delivery_ratio", 1 - loss - at / 10), ("delay_us.p50", 5_000.0 + at))
    ]
    (tmp_path / "summary").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "summary" / "part.parquet")
    return tmp_path / "summary"


def test_a_chart_stands_alone() -> None:
    picture = svg(chart(rising("one & <two>"), rising("three", 2)))
    assert elements(picture, "title")[0].text == "A title"
    assert not re.search(r"<script|<image|@import|href|url\((?!#)", picture)
    assert picture.count("http") == 1  # the namespace
    assert "prefers-color-scheme: dark" in picture


def test_points_stand_in_proportion_and_bands_around_them() -> None:
    picture = svg(chart(rising("one"), rising("two", 2)))
    (first, second), bands = elements(picture, "polyline", "line"), elements(picture, "polygon", "band")
    (x1, y1), (x2, y2), (x3, y3) = places(first.get("points"))
    assert (x3 - x2) == pytest.approx(2 * (x2 - x1), abs=0.2)
    assert (y2 - y3) == pytest.approx(2 * (y1 - y2), abs=0.2) and y3 < y2 < y1
    (_, z1), _, (_, z3) = places(second.get("points"))
    assert z1 - z3 == pytest.approx(2 * (y1 - y3), abs=0.3)
    band = [y for _, y in places(bands[0].get("points"))]
    assert len(band) == 6 and band[0] < y1 < band[5]
    assert y1 - band[0] == pytest.approx((y1 - y2) / 2, abs=0.2)  # half a unit, where the line rises by one


def test_a_logarithmic_axis_gives_every_factor_the_same_room() -> None:
    picture = svg(chart(rising("one"), x_log=True, y_log=True))
    (x1, y1), (x2, y2), (x3, y3) = places(elements(picture, "polyline", "line")[0].get("points"))
    assert x3 - x2 == pytest.approx(x2 - x1, abs=0.2) and y2 - y3 == pytest.approx(y1 - y2, abs=0.2)


def test_every_line_has_its_label_and_none_covers_another() -> None:
    alike = [Line(f"line {number}", (Spot(0, 1), Spot(1, 1 + number / 1000))) for number in range(LINES_MAX)]
    labels = [each for each in elements(svg(chart(*alike)), "text") if (each.text or "").startswith("line ")]
    heights = sorted(float(each.get("y") or 0) for each in labels)
    assert len(heights) == LINES_MAX
    assert min(b - a for a, b in pairwise(heights)) >= 15.9
    assert heights[0] > 50 and heights[-1] < 400


def test_labels_that_crowd_an_edge_push_the_next_ones_away() -> None:
    ends = [0.0, 0.0, 0.0, 0.5, 9.99, 10.0, 10.0, 10.0]
    lines = [Line(f"line {at}", (Spot(0, 5), Spot(1, end))) for at, end in enumerate(ends)]
    labels = [each for each in elements(svg(chart(*lines)), "text") if (each.text or "").startswith("line ")]
    heights = sorted(float(each.get("y") or 0) for each in labels)
    assert min(b - a for a, b in pairwise(heights)) >= 15.9
    assert heights[0] > 50 and heights[-1] < 400


def test_marks_from_elsewhere_are_hollow_and_take_their_lines_colour() -> None:
    marks = (Marks("paper", ((1.0, 1.0), (4.0, 4.0)), of="two"), Marks("model", ((2.0, 3.0),)))
    picture = svg(chart(rising("one"), rising("two", 2), marks=marks))
    hollow = elements(picture, "rect", "hollow")
    colour = elements(picture, "polyline", "line")[1].get("stroke")
    assert [each.get("stroke") for each in hollow] == [colour, colour]
    assert {"paper", "model"} <= {each.text for each in elements(picture, "text")}


def test_a_point_alone_gets_a_bar_in_place_of_a_band() -> None:
    picture = svg(chart(Line("one", (Spot(1, 5, 4, 6),))))
    assert len(elements(picture, "line", "bar")) == 1 and not elements(picture, "polyline")


def test_bands_end_where_the_measure_ends() -> None:
    line = Line("one", (Spot(0, 0.99, 0.97, 1.01), Spot(1, 0.9, 0.88, 0.92)))
    picture = svg(chart(line, y_limits=(0.0, 1.0)))
    ticks = [each.text for each in elements(picture, "text", "tick")]
    assert "1.00" in ticks and "1.02" not in ticks


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0, 0.2], ["0", "0.05", "0.10", "0.15", "0.20"]),
        ([0.91, 1.0], ["0.90", "0.92", "0.94", "0.96", "0.98", "1.00"]),
        ([3, 3], ["0", "2", "4", "6"]),
        ([-1, 1], ["-1.0", "-0.5", "0", "0.5", "1.0"]),
        ([0, 9_600_000], ["0", "2 M", "4 M", "6 M", "8 M", "10 M"]),
        ([0, 4_000], ["0", "1,000", "2,000", "3,000", "4,000"]),
    ],
)
def test_ticks_are_round_and_hold_all_values(values: list[float], texts: list[str]) -> None:
    axis = linear(values, 5)
    assert [text for _, text in axis.ticks] == texts
    assert axis.low <= min(values) and max(values) <= axis.high


def test_ticks_of_a_logarithmic_axis() -> None:
    assert [text for _, text in logarithmic([0.01, 0.2]).ticks] == ["0.01", "0.02", "0.05", "0.1", "0.2"]
    assert [text for _, text in logarithmic([1, 1_000_000]).ticks][::3] == ["1", "1,000", "1 M"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(MisuseError, match="needs a point"):
        svg(chart(Line("one", ())))
    with pytest.raises(MisuseError, match="told apart"):
        svg(chart(*(rising(str(number)) for number in range(LINES_MAX + 1))))
    with pytest.raises(MisuseError, match="logarithmic axis"):
        svg(chart(Line("one", (Spot(0, 1), Spot(1, 2))), x_log=True))


def test_a_chart_of_a_sweep_shows_the_saved_means(summary: Path, tmp_path: Path) -> None:
    drawn = line_chart(Chart("delivery_ratio", "links.loss", ("variant",)), summary, AXES)
    assert [line.name for line in drawn.lines] == ["tree", "graph"]  # in the order of the plan
    assert drawn.lines[1].spots[2] == Spot(0.2, pytest.approx(0.7), pytest.approx(0.68), pytest.approx(0.72))
    assert (drawn.x_label, drawn.y_label) == ("links loss", "delivery ratio")
    assert drawn.note == "means of 4 runs; bands: 95 % confidence"
    file = draw(Chart("delivery_ratio", "links.loss"), summary, AXES, tmp_path / "charts")
    assert file.name == "delivery_ratio-by-links.loss.svg" and ElementTree.parse(file)


def test_an_axis_that_is_not_named_becomes_lines_and_where_picks_one(summary: Path) -> None:
    assert len(line_chart(Chart("delivery_ratio", "links.loss"), summary, AXES).lines) == 2
    (line,) = line_chart(Chart("delivery_ratio", "links.loss", where={"variant": "tree"}), summary, AXES).lines
    assert [spot.y for spot in line.spots] == pytest.approx([1, 0.9, 0.8])


def test_names_make_an_axis_too(summary: Path) -> None:
    drawn = line_chart(Chart("delivery_ratio", "variant"), summary, AXES)
    assert drawn.x_names == ("tree", "graph") and [line.name for line in drawn.lines] == [
        "loss 0",
        "loss 0.1",
        "loss 0.2",
    ]
    assert not elements(svg(drawn), "polyline")


def test_delays_are_drawn_in_milliseconds(summary: Path) -> None:
    drawn = line_chart(Chart("delay_us.p50", "links.loss"), summary, AXES)
    assert drawn.y_label == "delay p50 (ms)" and drawn.lines[0].spots[0].y == 5.0


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (Chart("delivery_rato", "links.loss"), 'did you mean "delivery_ratio"'),
        (Chart("delay_us.p5", "links.loss"), 'did you mean "delay_us.p50"'),
        (Chart("delivery_ratio", "links.los"), 'did you mean "links.loss"'),
        (Chart("delivery_ratio", "links.loss", ("varian",)), 'did you mean "variant"'),
        (Chart("delivery_ratio", "links.loss", where={"variant": "ring"}), "there are no runs with variant = ring"),
        (Chart("delivery_ratio", "links.loss", log="x"), "links.loss has values that a logarithmic axis cannot show"),
    ],
)
def test_a_chart_that_asks_for_what_is_not_there_is_told(asked: Chart, complaint: str, summary: Path) -> None:
    with pytest.raises(InputError, match=complaint):
        line_chart(asked, summary, AXES)


def test_charts_can_be_asked_for_on_the_command_line() -> None:
    asked = chart_from_words("y=delivery_ratio, x=links.loss, by=variant+routing, log=y, file=loss")
    assert asked == Chart("delivery_ratio", "links.loss", ("variant", "routing"), log="y", file="loss")
    for words, complaint in [
        ("y=delivery_ratio", "x is missing"),
        ("x=a,y=b,colour=red", "found 'colour=red'"),
        ("x=a,y=b,log=z", "expected x, y or xy"),
        ("nonsense", "expected key=value"),
    ]:
        with pytest.raises(InputError, match=complaint):
            chart_from_words(words)

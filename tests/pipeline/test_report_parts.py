"""Charts and tables of the report, without a run: legends cover nothing, and narrow screens show all of a table."""

import re
from pathlib import Path

import pytest

from holdfast.pipeline.report.delivery_charts import Curve, cumulated_delays, ratios_over_time
from holdfast.pipeline.report.html_parts import bar, card, page, table
from holdfast.pipeline.report.style import STYLE
from tests.pipeline.browser import browser, laid_out_width

LONG = "a run with quite a long name"


def test_the_legend_of_a_chart_is_text_of_the_page_and_not_of_the_picture() -> None:
    names = [LONG, f"{LONG} recovered", "b & c", "two recovered"]
    made = cumulated_delays([Curve(name, "line-one", ((1_000, 5), (2_000, 7))) for name in names])
    legend, picture = made.split("<svg")
    assert re.findall(r"</i>(.*?) 12</li>", legend) == [LONG, f"{LONG} recovered", "b &amp; c", "two recovered"]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert not any(LONG in text for text in texts) and "deliveries that took at most so long, %" in texts


def test_the_legend_shows_each_line_as_it_is_drawn() -> None:
    styles = ["line-one", "line-one-recovered", "line-two", "line-two-recovered"]
    legend, picture = cumulated_delays([Curve(css, css, ((1_000, 5),)) for css in styles]).split("<svg")
    assert re.findall(r'<i class="([^"]*)">', legend) == styles
    assert re.findall(r'<polyline class="([^"]*)"', picture) == styles
    assert all(f".legend .{css}" in STYLE for css in styles)


def test_the_last_number_of_an_axis_is_whole_on_a_telephone() -> None:
    picture = cumulated_delays([Curve("one", "line-one", ((20_000, 5), (100_000_000, 7)))])
    width = int(re.findall(r'viewBox="0 0 (\d+)', picture)[0])
    x, name = re.findall(r'<text class="tick" x="([\d.]+)" y="\d+" text-anchor="middle">([^<]*)', picture)[-1]
    assert name == "100,000"
    assert float(x) + len(name) / 2 * 12 < width  # of letters of 22 pixels


def test_where_everything_was_delivered_the_axis_has_no_thousandths_of_a_percent() -> None:
    picture = ratios_over_time([("one", "line-one", [{"second": at, "owed": 5, "delivered": 5} for at in range(9)])], 1)
    assert re.findall(r'text-anchor="end">([^<]*)', picture) == ["0", "20", "40", "60", "80", "100"]


def test_each_cell_of_a_wide_table_knows_its_column_for_when_rows_are_stacked() -> None:
    made = table(["", "one", "two", "difference"], [["published", "1", "2", "+1"]])
    assert 'class="stacks"' in made
    assert re.findall(r'data-label="([^"]*)">([^<]*)', made) == [("one", "1"), ("two", "2"), ("difference", "+1")]
    assert "stacks" not in table(["", "predicted", "measured"], [["a", "1", "2"]])


@pytest.mark.slow
def test_both_runs_of_a_comparison_fit_on_a_telephone(tmp_path: Path) -> None:
    program = browser()
    if program is None:
        pytest.skip("install it with: apt-get install chromium")
    rows = [[LONG, "1,234,567", "2,345,678", "88.8 KiB", "1,234,567", "2,345,678", bar("fill-one", 1, 2)]] * 3
    wide = table(["kind", f"sent {LONG}", "lost", "bytes", "sent two", "lost two", ""], rows)
    chart = cumulated_delays([Curve(LONG, "line-one", ((1_000, 5), (2_000, 7)))])
    file = tmp_path / "report.html"
    file.write_text(page("both", "", card("What it cost", "", wide), card("Delay", "", chart)))
    for width in (1400, 500):  # chromium has no narrower window; from 560 down rows are stacked
        assert laid_out_width(program, file, tmp_path, width) <= width

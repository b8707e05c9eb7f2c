"""The documentation shows the saved results and nothing else; a later run notices what fell."""

import json
from pathlib import Path

import pytest

from bench import chart
from bench.results import SAVED, Check, Results, load, regressions, with_part
from bench.rounds import Row

saved_only = pytest.mark.skipif(not SAVED.is_file(), reason="no results have been saved yet")


@saved_only
def test_the_page_is_what_the_saved_results_make() -> None:
    results = load()
    assert results is not None
    text = chart.PAGE.read_text()
    assert chart.page(results, text) == text
    assert chart.section(results) in text


@saved_only
def test_the_chart_is_what_the_saved_results_make() -> None:
    results = load()
    assert results is not None
    assert chart.CHART.read_text() == chart.svg(results)


@saved_only
def test_the_saved_results_are_those_of_a_whole_run() -> None:
    results = load()
    assert results is not None
    assert not results["quick"]
    assert results["left_out"] == []


def row(contestant: str, seconds: float, threads: int = 1) -> Row:
    whole = 50_000, 1_000
    return Row("stock", *whole, contestant, threads, "", *whole, 3, 400_000, seconds, 50_000 / seconds)


def fake(**seconds: float) -> Results:
    results = Results(quick=False, rounds=3)
    results.rows = [row("holdfast", 0.1), row("holdfast", 0.05, threads=2)]
    results.rows += [row(name, each) for name, each in seconds.items()]
    return results


def test_one_thread_is_compared_with_one_thread_and_two_with_two() -> None:
    results = fake(naive=0.5)
    results.rows.append(row("duckdb", 0.2, threads=2))
    assert results.ratios() == {
        "stock 1,000 x 50,000: naive (1 thread)": pytest.approx(5),
        "stock 1,000 x 50,000: duckdb (2 threads)": pytest.approx(4),
    }


def test_a_check_holds_when_its_target_is_reached() -> None:
    (good,) = fake(naive=0.5).checks()
    (bad,) = fake(naive=0.3).checks()
    assert (good.name, good.target, good.holds) == ("batch, stock 1,000: naive", 4, True)
    assert not bad.holds
    assert not Check("memory", "less than", 1024, "MiB", 1024).holds


def test_a_ratio_that_fell_by_more_than_three_tenths_is_pointed_out() -> None:
    saved = fake(naive=1.0, numpy=1.0).ratios()
    now = fake(naive=0.69, numpy=0.71).ratios()
    name = "stock 1,000 x 50,000: naive (1 thread)"
    assert regressions(now, saved) == [f"regression? {name}: 6.9x, saved 10.0x"]


def test_ratios_of_other_sizes_are_not_compared() -> None:
    saved = {"stock 1,000 x 50,000: naive (1 thread)": 9.0}
    assert regressions({"stock 10 x 10: naive (1 thread)": 1.0}, saved) == []


def test_a_section_replaces_the_one_before_it_and_leaves_the_rest_of_the_page(tmp_path: Path) -> None:
    saved, drawing, page = (tmp_path / name for name in ("saved.json", "drawing.svg", "page.md"))
    saved.write_text(json.dumps(fake(naive=0.5).as_dict()))
    chart.regenerate(saved, drawing, page)
    page.write_text("before\n\n" + page.read_text() + "\nafter\n")
    saved.write_text(json.dumps(fake(naive=0.7).as_dict()))
    chart.regenerate(saved, drawing, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "7.0x" in text and "5.0x" not in text
    assert text.count("## Matching") == 1


def test_results_name_no_host_and_no_path() -> None:
    text = json.dumps(fake(naive=0.5).as_dict())
    assert str(Path.home()) not in text
    assert str(SAVED.parents[2]) not in text


def test_a_part_that_is_measured_again_replaces_its_own_rows_and_checks_alone() -> None:
    saved, again = fake(naive=0.5).as_dict(), fake(naive=0.2).as_dict()
    saved["date"] = "2026-01-01"
    saved["rows"].append({**saved["rows"][0], "workload": "ranges"})
    joined = with_part(saved, again, "stock")
    assert [each["workload"] for each in joined["rows"]] == ["ranges", "stock", "stock", "stock"]
    assert joined["ratios"]["stock 1,000 x 50,000: naive (1 thread)"] == pytest.approx(2)
    assert [each["measured"] for each in joined["checks"]] == [pytest.approx(2)]
    assert (joined["date"], joined["dates"]) == ("2026-01-01", {"stock": again["date"]})
    assert f"2026-01-01 (stock on {again['date']})" in chart.section({**joined, "parsing": []})

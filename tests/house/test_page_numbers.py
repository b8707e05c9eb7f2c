"""Figures in the pages are those of the files that they name."""

import re
from pathlib import Path

import pytest

from tests.house.page_numbers import figures, renewed
from tests.house.tree import files, shown

PAGES = [path for path in files() if path.suffix == ".md" and "<!--= " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_every_figure_is_as_it_was_measured(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == renewed(page), "run: ./run python -m tests.house.page_numbers"
    assert figures(page) == page.count("<!--= "), f"{shown(path)}: a figure is not written as page_numbers.py wants it"


def test_the_pages_that_compare_have_figures() -> None:
    assert {"docs/reliability.md", "docs/comparison.md"} <= {shown(path) for path in PAGES}


@pytest.mark.parametrize(
    ("mark", "pattern"),
    [
        ("bench durable rows[system=rabbitmq].events_per_second ,", r"[\d,]+"),
        ("bench durable checks[name=holdfast to the best that syncs].target .2", "5"),
        ("claims end-to-end ours-bytes-12 ours %2", r"\d+(\.\d)? %"),
        ("claims gossip 001-a-0.01 note~exact mean over the tree: ([\\d.]+) .3", r"0\.945"),
        ("claims end-to-end no-such-row ours %", LookupError),
        ("bench durable rows[system=nobody].events_per_second ,", LookupError),
    ],
)
def test_a_figure_is_looked_up(mark: str, pattern: str | type[Exception]) -> None:
    page = f"before <!--= {mark} -->old<!--/--> after"
    if isinstance(pattern, str):
        assert re.search(f" -->{pattern}<!--/--> after", renewed(page)), renewed(page)
    else:
        with pytest.raises(pattern):
            renewed(page)

"""Figures in the pages are those of the files that they name."""

import re
from pathlib import Path

import pytest

from tests.house.page_numbers import labels, renewed
from tests.house.tree import files, shown

PAGES = [path for path in files() if path.suffix == ".md" and any(labels(path.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_every_figure_is_as_it_was_measured(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == renewed(page), "run: ./run python -m tests.house.page_numbers"


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_every_figure_is_defined_once_and_used(path: Path) -> None:
    defined, used = labels(path.read_text(encoding="utf-8"))
    assert len(defined) == len(set(defined)), "a label is defined twice"
    assert set(defined) == set(used), f"defined or used only: {sorted(set(defined) ^ set(used))}; see page_numbers.py"


def test_the_pages_that_compare_have_figures() -> None:
    assert {"docs/reliability.md", "docs/comparison.md"} <= {shown(path) for path in PAGES}


RABBITMQ = '../bench/results/durable.json "rows[system=rabbitmq].events_per_second ,"'
TARGET = '../bench/results/durable.json "checks[name=holdfast to the best that syncs].target .2"'
NOTE = 'reproduction/gossip/claims.md "001-a-0.01 note~exact mean over the tree.*?: ([\\d.]+) .3"'


@pytest.mark.parametrize(
    ("definition", "pattern"),
    [
        (RABBITMQ, r"[\d,]+"),
        (TARGET, "5"),
        ('reproduction/end-to-end/claims.md "ours-bytes-12 ours %2"', r"\d+(\.\d)? %"),
        (NOTE, r"0\.945"),
        ('reproduction/end-to-end/claims.md "no-such-row ours %"', LookupError),
        (RABBITMQ.replace("rabbitmq", "nobody"), LookupError),
    ],
)
def test_a_figure_is_looked_up(definition: str, pattern: str | type[Exception]) -> None:
    page = f"before [old][it] after\n\n[it]: {definition}\n"
    if isinstance(pattern, str):
        assert re.search(rf"before \[{pattern}\]\[it\] after", renewed(page)), renewed(page)
    else:
        with pytest.raises(pattern):
            renewed(page)

"""Our pages are easy to navigate and to compare: no section occurs twice, and prose is wrapped in one way."""

from collections import Counter
from pathlib import Path

import pytest

from tests.house.tree import shown
from tests.house.wrap import blocks, pages, wrapped


def sections_twice(page: str) -> list[str]:
    """Headings that occur twice below the same one: each version of a changelog may have its own `### Fixed`."""
    above: list[str] = []
    found: Counter[tuple[str, ...]] = Counter()
    for kind, lines in blocks(page):
        if kind == "other" and lines[0].startswith("#"):
            depth = len(lines[0]) - len(lines[0].lstrip("#"))
            above = [*(each for each in above if len(each) - len(each.lstrip("#")) < depth), lines[0]]
            found[tuple(above)] += 1
    return [headings[-1] for headings, times in found.items() if times > 1]


@pytest.mark.parametrize("path", pages(), ids=shown)
def test_no_page_has_a_section_twice(path: Path) -> None:
    assert not sections_twice(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", pages(), ids=shown)
def test_prose_is_wrapped(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == wrapped(page), "run: ./run python -m tests.house.wrap"


def test_a_section_that_occurs_twice_is_seen() -> None:
    assert sections_twice("# A\n```\n## B\n```\n## B\n\n## C\ntext\n\n## B\n") == ["## B"]
    assert sections_twice("# A\n## B\n### D\n## C\n### D\n") == []


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("one\ntwo\n\nthree\n", "one two\n\nthree\n"),
        ("- " + "word " * 24 + "`a b`\n- two\n", "- " + ("word " * 23).strip() + "\n  word `a b`\n- two\n"),
        ("x " * 58 + "[1 %][a]\n", ("x " * 58).strip() + "\n[1 %][a]\n"),
        ("x " * 60 + "- y\n", ("x " * 59).strip() + "\nx - y\n"),
        ("| a " * 50 + "|\n", "| a " * 50 + "|\n"),
        ("```\n" + "x " * 90 + "y\n```\n", "```\n" + "x " * 90 + "y\n```\n"),
    ],
)
def test_a_page_is_wrapped(page: str, expected: str) -> None:
    assert wrapped(page) == expected
    assert wrapped(expected) == expected

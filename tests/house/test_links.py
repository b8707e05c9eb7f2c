"""Links between our pages lead somewhere, and the index has every page."""

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT, files, shown

PAGES = [path for path in files() if path.suffix == ".md"]
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)


def links(path: Path) -> list[str]:
    text = re.sub(r"^( *)(```+)[^\n]*\n.*?^ *\2", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [one or other for one, other in _LINK.findall(text)]


def anchors(path: Path) -> set[str]:
    """As the usual viewers make them of headings: lower case, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_every_link_leads_somewhere(path: Path) -> None:
    wrong = []
    for link in links(path):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        there = (path.parent / target).resolve() if target else path
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            wrong.append(link)
    assert not wrong, f"{shown(path)} links to what is not there: {wrong}"


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link).resolve() for link in links(index)}
    missing = [shown(path) for path in PAGES if path.parent == index.parent and path not in {*listed, index}]
    assert not missing, f"docs/README.md does not list {missing}"


def test_a_wrong_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One heading: here\n[a](page.md#one-heading-here) [b](no.md)\n```\n[c](no.md)\n```\n[d]: x.md\n")
    assert links(page) == ["page.md#one-heading-here", "no.md", "x.md"]
    assert anchors(page) == {"one-heading-here"}

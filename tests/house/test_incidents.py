"""Every kind of incident that a node can report is on the closed list, and on the page about them."""

import ast
import re
from collections.abc import Iterator

import pytest

from holdfast.model.incidents import COUNTERS, KINDS
from holdfast.net.counters import WORTH_TELLING
from tests.house.tree import ROOT, parsed, python_files

PAGE = ROOT / "docs" / "incidents.md"
ROOMS = tuple(f"src/holdfast/{room}/" for room in ("protocol", "books", "net", "sim", "cli", "gateway"))
LIST = "src/holdfast/model/incidents.py"


def kinds_in(source: str) -> Iterator[str]:
    """First words of `Incident(...)`, `Note(...)` and `counters.note(...)`."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("Incident", "Note", "note"):
                yield from _texts(node.args[:1])


def _texts(arguments: list[ast.expr]) -> Iterator[str]:
    for each in arguments:
        match each:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr():
                yield ast.unparse(each)
            case ast.IfExp(body=one, orelse=other):
                yield from _texts([one, other])


def on_the_page() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    return {kind: (sentence, advice) for kind, sentence, advice in rows}


def test_every_kind_is_on_the_list() -> None:
    told = {kind for path in python_files(*ROOMS) for kind in kinds_in(path.read_text())}
    unknown = told - KINDS.keys() - {"run"}
    assert not unknown, f"put them into {LIST}: {', '.join(sorted(unknown))}"
    assert set(WORTH_TELLING) == set(COUNTERS)


def test_the_list_has_no_kind_that_nobody_reports() -> None:
    sources = "\n".join(path.read_text() for path in python_files(*ROOMS, LIST)).replace(" ", "")
    gone = [kind for kind in KINDS if sources.count(f'"{kind}"') < 2]  # once on the list itself
    assert not gone, f"nobody reports these any more: {', '.join(gone)}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_an_identifier_with_one_sentence(kind: str) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind)
    assert re.fullmatch(r"[A-Z][^.|]*\.", KINDS[kind])


def test_the_page_has_every_kind_with_its_sentence_and_what_to_do() -> None:
    page = on_the_page()
    assert list(page) == list(KINDS)
    assert {kind: sentence for kind, (sentence, _) in page.items()} == KINDS
    assert all(advice.strip() for _, advice in page.values())


def test_the_search_finds_kinds() -> None:
    source = 'Incident("a", x)\nself.note(name, Incident("b" if up else "c", 1))\nNote(f"d{x}", y)\nother("e")\n'
    assert sorted(kinds_in(source)) == ["a", "b", "c", "f'd{x}'"]

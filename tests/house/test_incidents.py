"""Every kind of incident that a node can tell stands on the page about them, and nothing else does."""

import ast
import re
from collections.abc import Iterator

from holdfast.net.counters import WORTH_TELLING
from tests.house.tree import ROOT, python_files

PAGE = ROOT / "docs" / "incidents.md"
COUNTED = {name for name in WORTH_TELLING}  # as logs and traces have them
ROOMS = ("src/holdfast/protocol/", "src/holdfast/net/", "src/holdfast/sim/", "src/holdfast/cli/")


def kinds_in(source: str) -> Iterator[str]:
    """First words of `Incident(...)` and `Note(...)`, and the kind among the words of `….note(node, kind, …)`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("Incident", "Note"):
                yield from _texts(node.args[:1])
            elif name == "note":
                yield from _texts(node.args[:2])


def _texts(arguments: list[ast.expr]) -> Iterator[str]:
    for each in arguments:
        match each:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
                yield f"{text}…"
            case ast.IfExp(body=one, orelse=other):
                yield from _texts([one, other])


def on_the_page() -> set[str]:
    listed = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(), re.MULTILINE)
    faults = PAGE.read_text().split("## Faults of the network file")[1]
    return {kind for cell in [*listed, faults] for kind in re.findall(r"`([^`]+)`", cell)}


def test_the_page_has_every_kind() -> None:
    told = {kind for path in python_files(*ROOMS) for kind in kinds_in(path.read_text())} - {"run"} | COUNTED
    missing = told - on_the_page()
    assert not missing, f"put them into docs/incidents.md: {', '.join(sorted(missing))}"


def test_the_page_has_no_kind_that_nobody_tells() -> None:
    sources = "\n".join(path.read_text() for path in python_files(*ROOMS))
    gone = {kind for kind in on_the_page() - COUNTED if f'"{kind.removesuffix("…")}' not in sources}
    assert not gone, f"nobody tells these any more: {', '.join(sorted(gone))}"


def test_the_search_finds_kinds() -> None:
    source = 'Incident("a", x)\nself.note(name, "b" if up else "c", 1)\nNote(f"d: {x}", y)\nother("e")\n'
    assert sorted(kinds_in(source)) == ["a", "b", "c", "d: …"]

"""Files and functions stay short, and a file's name says what is in it."""

import ast
from pathlib import Path

import pytest

from tests.house.tree import ROOT, parsed, python_files, shown, statements

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SCRIPT_LINES_MAX = 150
TELLS_NOTHING = set(
    "base common handler handlers helper helpers lib manager managers misc processor service shared stuff "
    "tools util utils".split()
)
TOPS = ("src/", "bench/", "tests/")


def long_functions(source: str) -> list[str]:
    return [
        f"{node.lineno}: {node.name} has {length} lines"
        for node in statements(parsed(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def says_nothing(path: Path) -> bool:
    """`utils.py`, `helpers/x.py` and `text_utils.py` alike."""
    return any(part in TELLS_NOTHING or part.split("_")[-1] in TELLS_NOTHING for part in path.with_suffix("").parts)


def test_no_python_file_is_too_long() -> None:
    lengths = {shown(path): len(path.read_text().splitlines()) for path in python_files(*TOPS)}
    long = [f"{name} has {lines} lines" for name, lines in lengths.items() if lines > FILE_LINES_MAX]
    assert not long, f"split these along an idea, at most {FILE_LINES_MAX} lines a file:\n" + "\n".join(long)


def test_no_function_is_too_long() -> None:
    long = [f"{shown(path)}:{each}" for path in python_files(*TOPS) for each in long_functions(path.read_text())]
    assert not long, f"at most {FUNCTION_LINES_MAX} lines a function:\n" + "\n".join(long)


@pytest.mark.parametrize("name", ["run", ".ci/run", "requirements/update"])
def test_scripts_stay_small(name: str) -> None:
    lines = len((ROOT / name).read_text().splitlines())
    assert lines <= SCRIPT_LINES_MAX, f"{name} has {lines} lines; move logic into Python, where it can be tested"


def test_file_names_say_what_is_inside() -> None:
    empty = [shown(path) for path in python_files(*TOPS) if says_nothing(path.relative_to(ROOT))]
    assert not empty, "name these after the idea they hold:\n" + "\n".join(empty)


def test_the_checks_can_fail() -> None:
    assert long_functions("def f():\n" + "    pass\n" * 69) == []
    assert long_functions("def f():\n" + "    pass\n" * 70) == ["1: f has 71 lines"]
    assert says_nothing(Path("src/holdfast/utils.py"))
    assert says_nothing(Path("src/holdfast/helpers/text.py"))
    assert says_nothing(Path("src/holdfast/text_utils.py"))
    assert not says_nothing(Path("src/holdfast/model/event.py"))

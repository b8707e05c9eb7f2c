"""A class name occurs once in the product and its studies: whoever searches for it finds one thing."""

import ast
from collections import defaultdict

from tests.house.tree import parsed, python_files, shown, statements

# Names that occur twice, and why both stay.
TWICE = {
    "Patterns": "numba's caches of earlier versions find the one of the kernels by name; `check` prints the workload's",
    "Subscription": "docs/api.md documents both: the condition that `parse` returns, and the iterator of a client",
}


def class_names(source: str) -> list[str]:
    return [node.name for node in statements(parsed(source)) if isinstance(node, ast.ClassDef)]


def test_a_class_name_occurs_once() -> None:
    files: dict[str, list[str]] = defaultdict(list)
    for path in python_files("src/"):
        for name in class_names(path.read_text()):
            files[name].append(shown(path))
    twice = {name: where for name, where in files.items() if len(where) > 1}
    wrong = [f"{name}: {', '.join(where)}" for name, where in sorted(twice.items()) if name not in TWICE]
    assert not wrong, "give each of these classes a name of its own:\n" + "\n".join(wrong)
    assert set(TWICE) <= set(twice), "a name that occurs once needs no reason in TWICE"


def test_the_check_sees_nested_classes() -> None:
    assert class_names("class A:\n    class B: pass\ndef f():\n    class C: pass") == ["A", "B", "C"]

"""What the house rules look at: the files git tracks or would track, as they are on disk."""

import ast
import gc
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def files() -> tuple[Path, ...]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    names = sorted(set(listing.stdout.split("\0")) - {""})
    return tuple(ROOT / name for name in names if (ROOT / name).is_file())


def python_files(*tops: str) -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and shown(path).startswith(tops)]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """`src/holdfast/model/event.py` is holdfast.model.event, and a package is named by its `__init__`."""
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def complaints(rule: Callable[[str, str], Iterable[str]], top: str) -> str:
    """What a rule has to say about the source and the module name of each file below `top`."""
    return "\n".join(message for path in python_files(top) for message in rule(path.read_text(), module_name(path)))


def parsed(source: str) -> ast.Module:
    """Without the collector: a finalizer that formats a traceback parses, too, and CPython's parser then gives up."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement, however deep; there are far fewer of them than of nodes."""
    found = [tree]
    for node in found:
        yield node
        for inside in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, inside, ())


def imports(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported anywhere in a module, also inside functions."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            continue  # as most are
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, each.name) for each in names)
            case ast.ImportFrom(module=origin, names=names, level=level):
                package = module.split(".")[:-level] if level else []
                start = ".".join([*package, *([origin] if origin else [])])
                yield from ((node.lineno, f"{start}.{each.name}") for each in names)
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called),
                args=[ast.Constant(value=str(name)), *_],
            ):
                if called in ("import_module", "__import__"):
                    yield node.lineno, name

"""What a protocol machine must not do: touch the world, or depend on what differs between two runs."""

import ast
from collections.abc import Iterator

from tests.house.sets import set_iterations
from tests.house.tree import imports, parsed

_MODULES = {
    "does I/O": "asyncio http io os pathlib pyspark select selectors shutil signal socket sqlite3 ssl "
    "subprocess sys tempfile urllib",
    "reads the clock": "datetime sched time",
    "starts threads": "_thread concurrent multiprocessing queue threading",
    "logs": "logging warnings",
    "is random without a seed": "secrets uuid",
}
_WHY = {module: why for why, modules in _MODULES.items() for module in modules.split()}
_CALLS = {
    "hash": "differs from process to process",
    "input": "does I/O",
    "open": "does I/O",
    "print": "does I/O",
}
_GLOBAL_DICE = "is the global dice; take a Random from the caller"


def impurities(source: str, module: str) -> Iterator[str]:
    tree = parsed(source)
    for line, name in imports(tree, module):
        top = name.partition(".")[0]
        if top in _WHY:
            yield f"{module}:{line}: {top} {_WHY[top]}"
        elif (top == "random" and name != "random.Random") or name.startswith("numpy.random"):
            yield f"{module}:{line}: {name} {_GLOBAL_DICE}"
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in _CALLS:
                yield f"{module}:{node.lineno}: {called}() {_CALLS[called]}"
            case ast.Call(func=ast.Name(id="Random"), args=[]):
                yield f"{module}:{node.lineno}: Random() without a seed differs from run to run"
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
                yield f"{module}:{node.lineno}: numpy.random {_GLOBAL_DICE}"
    for line, text in set_iterations(tree):
        yield f"{module}:{line}: iterates over the set {text}; sort it, or keep a dict"

"""The reference part of docs/network-file.md, printed from the tables of keys so that it cannot go stale.

    python -m holdfast.network.reference docs/network-file.md

writes it anew between the page's two marks; a test wants the page to be what this would write.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.network.keys.root import ROOT
from holdfast.network.shapes import Either, Listed, Shape
from holdfast.network.tables import Key, Repeated, Table
from holdfast.network.writing import value_text

START, END = "<!-- keys: begin -->\n", "<!-- keys: end -->\n"


def renewed(page: str) -> str:
    """The page with its reference part written anew."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{reference()}\n{END}{after}"


def reference() -> str:
    sections = {header: list(_section(table, header)) for header, table in _tables(ROOT, "")}  # each table once
    return "\n".join(line for lines in sections.values() for line in lines).strip() + "\n"


def _tables(table: Table, header: str) -> Iterator[tuple[str, Table]]:
    yield header, table
    for key in table.all_keys.values():
        match _inner(key.shape):
            case Repeated(table=below):
                yield from _tables(below, f"[[{below.name}]]")
            case Table() as below:
                yield from _tables(below, f"[{below.name}]" if below is key.shape else below.name)


def _inner(shape: Shape) -> Shape:
    """What the items of a list are; of two shapes the second, which is the table."""
    shape = shape.of if isinstance(shape, Listed) else shape
    return shape.other if isinstance(shape, Either) else shape


def _section(table: Table, header: str) -> Iterator[str]:
    yield f"### {f'`{header}`' if header else 'At the top'}\n"
    yield table.about + "\n"
    common = _common(table)
    inherited = table.on_top_of.all_keys if table.on_top_of else {}
    yield from _rows(("", key) for key in table.keys if key.name not in inherited)
    if table.on_top_of:
        left_out = [f"`{name}`" for name in inherited if name not in table.all_keys]
        but = f" but {', '.join(left_out)}" if left_out else ""
        yield f"All keys of `[{table.on_top_of.name}]`{but} may stand here as well.\n"
    of_kinds = [(kind, key) for kind, keys in table.kinds.items() for key in keys if key not in common]
    if of_kinds:
        yield from _rows(((f'"{kind}"', key) for kind, key in of_kinds), with_kind=True)
    if common:
        yield "With every kind that has keys:\n"
        yield from _rows(("", key) for key in common)


def _common(table: Table) -> list[Key]:
    first, *others = [keys for keys in table.kinds.values() if keys] or [()]
    return [key for key in first if others and all(key in each for each in others)]


def _rows(keys: Iterable[tuple[str, Key]], with_kind: bool = False) -> Iterator[str]:
    header = ["kind", "key", "value", "default", "meaning"]
    rows = [[kind, f"`{key.name}`", key.shape.words(), _default(key), key.meaning] for kind, key in keys if _plain(key)]
    for cells in [header, ["---"] * len(header), *rows]:
        if not with_kind:
            cells = cells[1:]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _plain(key: Key) -> bool:
    return not isinstance(key.shape, Table | Repeated)  # these have sections of their own


def _default(key: Key) -> str:
    if key.required:
        return "required"
    default = f"`{value_text(key.default)}`" if key.default is not None else key.default_words or "none"
    return f"{default} ({key.reason})" if key.reason else default


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")

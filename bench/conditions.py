"""Conditions as small trees, so that every contestant gets the same condition in the form that suits it.

Matchers and databases get the SQL text, the NumPy scan walks the tree, and joins (see bench.templates) take
it split into filters. The trees belong to the benchmark and owe nothing to Holdfast's parser, so the
databases stay independent judges.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

Operand = str | int | float | tuple[str | int | float, ...] | None


@dataclass(frozen=True, slots=True)
class Atom:
    attribute: str
    op: str  # a key of NEGATED; LIKE takes a pattern with % at its start, its end or both
    operand: Operand = None  # IN takes a tuple, BETWEEN a pair, IS NULL nothing


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: "Tree"


Tree = Atom | And | Or | Not

NEGATED = {
    "=": "<>",
    "<": ">=",
    ">": "<=",
    "IN": "NOT IN",
    "LIKE": "NOT LIKE",
    "IS NULL": "IS NOT NULL",
    "BETWEEN": "NOT BETWEEN",
}
NEGATED |= {negated: op for op, negated in NEGATED.items()}


def literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def atom_text(atom: Atom) -> str:
    if atom.operand is None:
        return f"{atom.attribute} {atom.op}"
    if isinstance(atom.operand, tuple):
        values = [literal(each) for each in atom.operand]
        joined = " AND ".join(values) if atom.op.endswith("BETWEEN") else "(" + ", ".join(values) + ")"
        return f"{atom.attribute} {atom.op} {joined}"
    return f"{atom.attribute} {atom.op} {literal(atom.operand)}"


def text(tree: Tree, leaf: Callable[[Atom], str] = atom_text) -> str:
    """The condition as SQL, with `leaf` saying how a single atom is written."""
    if isinstance(tree, Atom):
        return leaf(tree)
    if isinstance(tree, Not):
        return f"NOT ({text(tree.part, leaf)})"
    if isinstance(tree, Or):
        return " OR ".join(text(part, leaf) for part in tree.parts)
    written = [(part, text(part, leaf)) for part in tree.parts]
    return " AND ".join(f"({each})" if isinstance(part, Or) else each for part, each in written)


def atoms(tree: Tree) -> Iterator[Atom]:
    if isinstance(tree, Atom):
        yield tree
    elif isinstance(tree, Not):
        yield from atoms(tree.part)
    else:
        for part in tree.parts:
            yield from atoms(part)


def without_not(tree: Tree, negate: bool = False) -> Tree:
    """NOT pushed down to the atoms: one on NULL is unknown either way, so no third value is needed then."""
    if isinstance(tree, Atom):
        return Atom(tree.attribute, NEGATED[tree.op], tree.operand) if negate else tree
    if isinstance(tree, Not):
        return without_not(tree.part, not negate)
    parts = tuple(without_not(part, negate) for part in tree.parts)
    return Or(parts) if isinstance(tree, And) == negate else And(parts)


def filters(tree: Tree) -> list[tuple[Atom, ...]]:
    """The condition as alternatives, each a conjunction of atoms: OR is split, NOT is in the atoms."""
    return _alternatives(without_not(tree))


def _alternatives(tree: Tree) -> list[tuple[Atom, ...]]:
    if isinstance(tree, Atom):
        return [(tree,)]
    assert not isinstance(tree, Not)
    split = [_alternatives(part) for part in tree.parts]
    if isinstance(tree, Or):
        return [filter_ for part in split for filter_ in part]
    return [tuple(atom for filter_ in chosen for atom in filter_) for chosen in product(*split)]


def wildcard(pattern: str) -> tuple[str, str]:
    """What a LIKE pattern asks of its literal text: starts_with, ends_with or contains."""
    literal_text = pattern.strip("%")
    assert literal_text and "%" not in literal_text and "_" not in literal_text, pattern
    if not pattern.startswith("%"):
        return "starts_with", literal_text
    return ("contains" if pattern.endswith("%") else "ends_with"), literal_text

"""Conditions as joins: what a database does best with thousands of conditions at once.

Conditions that differ only in their operands form a template; the operands become the columns of a
parameter table with one row per condition, and "which of these thousand conditions hold" becomes one join
of that table with the events. Equalities are keys that can be hashed, and so are prefixes and suffixes, as
`left(name, n) = …`. A condition with OR gives one row per alternative, so that each has its own key, and
its pairs are made distinct afterwards. A condition of ranges alone becomes a box with a low and a high
bound per attribute, so that ranges need few templates.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nextafter

from bench.conditions import Atom, Tree, filters, literal, wildcard

Like = Callable[[str, str, str], str]
"""(starts_with | ends_with | contains, attribute, operand) -> that test in the dialect at hand."""

_RANGES = ("<", "<=", ">", ">=", "BETWEEN")


@dataclass
class Template:
    keys: list[tuple[str, str]]  # an expression over the event, and the parameter column that it must equal
    rest: list[str]  # what remains: SQL over the event and the parameter columns p0, p1, …
    distinct: bool  # alternatives of one condition: an event may satisfy several of them
    bounds: list[tuple[str, str, str]]  # of a box: attribute, and its parameter columns for low and high
    subscriptions: list[int]
    columns: dict[str, list[object]]


@dataclass
class _Group:
    atoms: tuple[Atom, ...]
    subscriptions: list[int] = field(default_factory=list)
    operands: list[tuple[object, ...]] = field(default_factory=list)


def templates(trees: list[Tree], like: Like) -> list[Template]:
    groups: dict[tuple[object, ...], _Group] = {}
    for number, tree in enumerate(trees):
        alternatives = [each for filter_ in filters(tree) for each in _keyed(filter_)]
        for atoms in alternatives:
            shape = (len(alternatives) > 1, *((a.attribute, a.op, _arity(a)) for a in atoms))
            group = groups.setdefault(shape, _Group(atoms))
            group.subscriptions.append(number)
            group.operands.append(tuple(value for atom in atoms for value in _values(atom)))
    return [_template(bool(shape[0]), group, like) for shape, group in groups.items()]


def _keyed(filter_: tuple[Atom, ...]) -> list[tuple[Atom, ...]]:
    """The filter itself, boxed if it is ranges alone; without a key, one alternative per value of an IN."""
    if any(_is_key(atom) for atom in filter_):
        return [filter_]
    if all(atom.op in _RANGES for atom in filter_):
        return [_boxed(filter_)]
    for at, atom in enumerate(filter_):
        if atom.op == "IN" and isinstance(atom.operand, tuple):
            head, tail = filter_[:at], filter_[at + 1 :]
            return [(*head, Atom(atom.attribute, "=", value), *tail) for value in atom.operand]
    return [filter_]


def _boxed(filter_: tuple[Atom, ...]) -> tuple[Atom, ...]:
    bounds: dict[str, tuple[float, float]] = {}
    for atom in filter_:
        low, high = bounds.get(atom.attribute, (-inf, inf))
        least, most = _bounds(atom)
        bounds[atom.attribute] = max(low, least), min(high, most)
    return tuple(Atom(name, "BETWEEN", pair) for name, pair in sorted(bounds.items()))


def _bounds(atom: Atom) -> tuple[float, float]:
    """The least and the greatest number that passes: a strict bound is moved to the next number inside."""
    if isinstance(atom.operand, tuple):
        return float(atom.operand[0]), float(atom.operand[1])
    assert isinstance(atom.operand, int | float)
    bound = float(atom.operand)
    return {
        ">=": (bound, inf),
        ">": (nextafter(bound, inf), inf),
        "<=": (-inf, bound),
        "<": (-inf, nextafter(bound, -inf)),
    }[atom.op]


def joinable(tree: Tree) -> bool:
    """Whether every alternative has something to join on: a key, or ranges."""
    return all(
        any(_is_key(atom) for atom in atoms) or all(atom.op in _RANGES for atom in atoms)
        for filter_ in filters(tree)
        for atoms in _keyed(filter_)
    )


def _is_key(atom: Atom) -> bool:
    return _key(atom) is not None


def _key(atom: Atom) -> str | None:
    """The expression over an event that must equal the operand, if the atom can be put that way."""
    if atom.op == "=":
        return atom.attribute
    if atom.op != "LIKE" or not isinstance(atom.operand, str):
        return None
    kind, wanted = wildcard(atom.operand)
    side = {"starts_with": "left", "ends_with": "right"}.get(kind)
    return side and f"{side}({atom.attribute}, {len(wanted)})"


def _arity(atom: Atom) -> object:
    """What must agree, beside attribute and operator, for two atoms to share a template."""
    if atom.op.endswith("LIKE") and isinstance(atom.operand, str):
        return wildcard(atom.operand)[0], _key(atom)
    return len(_values(atom))


def _values(atom: Atom) -> tuple[object, ...]:
    if atom.operand is None:
        return ()
    if atom.op.endswith("LIKE") and isinstance(atom.operand, str):
        return (wildcard(atom.operand)[1],)
    return atom.operand if isinstance(atom.operand, tuple) else (atom.operand,)


def _template(distinct: bool, group: _Group, like: Like) -> Template:
    columns = {f"p{i}": list(values) for i, values in enumerate(zip(*group.operands, strict=True))}
    made = Template([], [], distinct, [], group.subscriptions, columns)
    box = all(atom.op == "BETWEEN" for atom in group.atoms)
    names = list(columns)
    for atom in group.atoms:
        taken, names = names[: len(_values(atom))], names[len(_values(atom)) :]
        key = _key(atom)
        if box:
            made.bounds.append((atom.attribute, taken[0], taken[1]))
        if key is not None:
            made.keys.append((key, taken[0]))
        else:
            made.rest.append(_residual(atom, [_operand(name, columns) for name in taken], like))
    return made


def _operand(name: str, columns: dict[str, list[object]]) -> str:
    """The parameter column, or the value itself where all conditions of the template agree on it."""
    values = columns[name]
    same = isinstance(values[0], str) and all(value == values[0] for value in values)
    return literal(values[0]) if same else name


def _residual(atom: Atom, operands: list[str], like: Like) -> str:
    if not operands:
        return f"{atom.attribute} {atom.op}"
    if atom.op == "BETWEEN":
        return f"{atom.attribute} >= {operands[0]} AND {atom.attribute} <= {operands[1]}"
    if atom.op.endswith("IN"):
        return f"{atom.attribute} {atom.op} ({', '.join(operands)})"
    if atom.op.endswith("LIKE"):
        assert isinstance(atom.operand, str)
        test = like(wildcard(atom.operand)[0], atom.attribute, operands[0])
        return test if atom.op == "LIKE" else f"NOT {test}"
    return f"{atom.attribute} {atom.op} {operands[0]}"

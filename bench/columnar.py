"""The columnar scan: what one writes in an afternoon with NumPy, and strong while conditions are few.

Every condition is evaluated over whole columns, one after the other, and gives its row numbers. Text
columns are dictionary-encoded first (inside the measured time, as for everyone), so that an equality
compares integers and any other test on text is made once per distinct value. There is no index and no short
cut between conditions.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.conditions import And, Atom, Not, Tree, wildcard, without_not
from bench.workloads import Workload

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class _Numbers:
    def __init__(self, column: pa.ChunkedArray) -> None:
        assert column.null_count == 0
        self._values = column.to_numpy()

    def mask(self, atom: Atom) -> Mask:
        values, operand = self._values, atom.operand
        found: Any
        if isinstance(operand, tuple):
            found = (values >= operand[0]) & (values <= operand[1])
        else:
            found = _COMPARE[atom.op](values, operand)
        return found  # type: ignore[no-any-return]


_COMPARE: dict[str, Any] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class _Texts:
    """Codes into the distinct values; NULL is the code past the last of them."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        encoded = pc.dictionary_encode(column.combine_chunks())
        values = encoded.dictionary.to_pylist()
        self._code = {value: code for code, value in enumerate(values)}
        self._values = np.array(values)  # of fixed width, in which NumPy searches fastest
        self._codes = encoded.indices.fill_null(len(values)).to_numpy()

    def mask(self, atom: Atom) -> Mask:
        null = len(self._code)
        if atom.op == "=":
            return self._codes == self._code.get(atom.operand, -1)  # type: ignore[no-any-return]
        if atom.op.startswith("IS"):
            return (self._codes == null) == (atom.op == "IS NULL")  # type: ignore[no-any-return]
        wanted = np.zeros(null + 1, np.bool_)
        if atom.op.endswith("LIKE"):
            kind, literal = wildcard(str(atom.operand))
            wanted[:null] = _LIKE[kind](self._values, literal)
        else:
            operand = atom.operand if isinstance(atom.operand, tuple) else (atom.operand,)
            wanted[[self._code[value] for value in operand if value in self._code]] = True
        if atom.op in ("NOT LIKE", "NOT IN", "<>"):
            wanted[:null] ^= True
        return wanted[self._codes]  # type: ignore[no-any-return]


_LIKE: dict[str, Any] = {
    "starts_with": np.strings.startswith,
    "ends_with": np.strings.endswith,
    "contains": lambda values, literal: np.strings.find(values, literal) >= 0,
}


class Columns:
    def __init__(self, table: pa.Table) -> None:
        self._columns = {
            name: (_Texts if pa.types.is_string(table[name].type) else _Numbers)(table[name])
            for name in table.column_names
        }

    def mask(self, tree: Tree) -> Mask:
        if isinstance(tree, Atom):
            return self._columns[tree.attribute].mask(tree)
        assert not isinstance(tree, Not), "NOT is pushed down to the atoms first"
        combine = np.logical_and if isinstance(tree, And) else np.logical_or
        found = self.mask(tree.parts[0])
        for part in tree.parts[1:]:
            combine(found, self.mask(part), out=found)
        return found


def pairs(table: pa.Table, trees: list[Tree]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Row numbers and condition numbers of all matches; the trees must be without NOT."""
    columns = Columns(table)
    rows = [np.flatnonzero(columns.mask(tree)).astype(np.int32) for tree in trees]
    numbers = np.repeat(np.arange(len(rows), dtype=np.int32), [len(each) for each in rows])
    return np.concatenate(rows), numbers


def prepared(work: Workload) -> list[Tree]:
    return [without_not(tree) for tree in work.trees]

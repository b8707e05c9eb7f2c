"""The columns of an events table that a job needs, flattened: a struct `home` with a field `team` gives `home.team`.

Only columns that a condition mentions or that the caller wants back are taken, because handing rows from the JVM to a
Python worker costs per column. A mentioned column must hold strings, numbers, booleans, timestamps, dates or arrays of
one of them; a column that nobody mentions may hold anything. A mentioned column that is not there is as good as null.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from holdfast.model.errors import InputError
from holdfast.model.values import Kind
from holdfast.pipeline.match.result_columns import refuse_unfit

_KINDS: dict[type[T.DataType], Kind | None] = {
    T.StringType: Kind.STRING,
    T.CharType: Kind.STRING,
    T.VarcharType: Kind.STRING,
    T.BooleanType: Kind.BOOLEAN,
    T.ByteType: Kind.NUMBER,
    T.ShortType: Kind.NUMBER,
    T.IntegerType: Kind.NUMBER,
    T.LongType: Kind.NUMBER,
    T.FloatType: Kind.NUMBER,
    T.DoubleType: Kind.NUMBER,
    T.TimestampType: Kind.TIMESTAMP,
    T.TimestampNTZType: Kind.TIMESTAMP,
    T.DateType: Kind.TIMESTAMP,
    T.NullType: None,  # holds only nulls, which are of no kind
}


class Leaf(NamedTuple):
    """One flat column: its type, and how to get it from the table whose columns are called c0, c1 and so on."""

    type: T.DataType
    column: Column


def leaves(events: DataFrame) -> dict[str, Leaf]:
    """All columns by their flat names, in order."""
    found: dict[str, Leaf] = {}
    for name, leaf in _walk(events.schema):
        if name in found:
            raise InputError(f"events: column {name} is given twice; rename one of the two")
        found[name] = leaf
    return found


def _walk(schema: T.StructType) -> Iterator[tuple[str, Leaf]]:
    pending = [(each.name, Leaf(each.dataType, F.col(f"c{at}"))) for at, each in enumerate(schema)][::-1]
    while pending:
        name, leaf = pending.pop()
        if isinstance(leaf.type, T.StructType):
            fields = [(f"{name}.{each.name}", Leaf(each.dataType, leaf.column[each.name])) for each in leaf.type]
            pending += fields[::-1]
        else:
            yield name, leaf


def kinds_of(found: dict[str, Leaf], mentioned: Collection[str]) -> dict[str, Kind | None]:
    """What the mentioned columns hold; columns that cannot be matched are refused, all of them at once."""
    here = {name: leaf.type for name, leaf in found.items() if name in mentioned}
    refuse_unfit([(name, kind.simpleString()) for name, kind in here.items() if type(_element(kind)) not in _KINDS])
    return {name: _KINDS[type(kind)] if kind is _element(kind) else Kind.LIST for name, kind in here.items()}


def _element(kind: T.DataType) -> T.DataType:
    """What an array holds; any other type itself."""
    return kind.elementType if isinstance(kind, T.ArrayType) else kind


def selected(events: DataFrame, found: dict[str, Leaf], names: Collection[str]) -> DataFrame:
    """The named columns as c0, c1 and so on: Spark takes a dot in a name for a field and ignores upper case."""
    plain = events.toDF(*(f"c{at}" for at in range(len(events.columns))))
    return plain.select(*(found[name].column.alias(f"c{at}") for at, name in enumerate(names)))

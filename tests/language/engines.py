"""The rows and conditions on which DuckDB and Spark SQL judge us, and where they differ from us by design.

The generated data leave out what an engine reads otherwise on purpose (rule L22): NaN, which they order above
all numbers; a value compared with a constant of another kind, which they cast; BIGINT columns compared with
doubles beyond 2**53, which they round; backslashes; dotted, quoted and differently cased names.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

import pyarrow as pa

from holdfast import parse
from tests.language.generators import SQL_ATTRIBUTES, Event, condition, row

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("size", pa.int64()),
        ("serial", pa.int64()),
        ("symbol", pa.string()),
        ("team", pa.string()),
        ("live", pa.bool_()),
        ("sent", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("sizes", pa.list_(pa.int64())),
    ]
)


def typed_rows(count: int) -> list[Event]:
    dice = Random("rows for an engine")
    return [{"id": number, **row(dice)} for number in range(count)]


def table_of(rows: Sequence[Event]) -> pa.Table:
    naive = [{**each, "sent": _naive(each["sent"])} for each in rows]
    return pa.Table.from_pylist(naive, schema=SCHEMA)


def _naive(moment: object) -> object:
    return moment.replace(tzinfo=None) if isinstance(moment, datetime) else moment


def sql_conditions(count: int, seed: str) -> list[str]:
    dice = Random(seed)
    return [condition(dice, SQL_ATTRIBUTES, sql=True) for _ in range(count)]


_SIMPLE = r"'(?:[^']|'')*'|[\w.+-]+"  # what tests look for in lists: a name or a constant
_CONTAINS = re.compile(rf"CONTAINS\((\w+), ({_SIMPLE})\)", re.IGNORECASE)
_EACH = re.compile(rf"({_SIMPLE}) (=|<>|!=|<|<=|>|>=) (ANY|ALL)\((\w+)\)", re.IGNORECASE)


def for_duckdb(text: str) -> str:
    """DuckDB's name for whole units between two times is date_sub, and its unit is a string.

    For a list that is NULL its ANY is FALSE, as for an empty one; for one that holds only NULL it is unknown.
    """
    text = re.sub(r"TIMESTAMPDIFF\((\w+), ", r"date_sub('\1', ", text)
    text = re.sub(r"CARDINALITY\(", "len(", re.sub(r"REGEXP_LIKE\(", "regexp_matches(", text))
    text = _CONTAINS.sub(r"\2 = ANY(\1)", text)
    return re.sub(r"\b(ANY|ALL)\((\w+)\)", r"\1(COALESCE(\2, [NULL]))", text, flags=re.IGNORECASE)


def for_spark(text: str) -> str:
    """Spark looks into arrays with functions, which have three values as well."""

    def looked_into(found: re.Match[str]) -> str:
        wanted, sign, each, name = found.groups()
        return f"{'exists' if each.upper() == 'ANY' else 'forall'}({name}, element -> {wanted} {sign} element)"

    return _EACH.sub(looked_into, _CONTAINS.sub(r"\2 = ANY(\1)", text))


def ids_that_match(text: str, rows: Sequence[Event]) -> list[object]:
    subscription = parse(text)
    return [each["id"] for each in rows if subscription.matches(each)]


@dataclass(frozen=True)
class Difference:
    """One value, one condition on it, and each side's verdict, or the error it raises instead."""

    text: str
    kind: str  # the column's type in DuckDB
    value: object
    ours: bool | str
    duckdb: bool | str
    spark: bool | str


NAN = float("nan")
DIFFERENCES = (
    Difference("x > 1e300", "DOUBLE", NAN, False, True, True),
    Difference("x <> 5", "DOUBLE", NAN, False, True, True),
    Difference("NOT x < 5", "DOUBLE", NAN, False, True, True),
    Difference("x = 5", "VARCHAR", "5", False, True, True),
    Difference("x = 5", "VARCHAR", "05", False, True, True),
    Difference("x = 5", "VARCHAR", "abc", False, "Conversion Error", "CAST_INVALID_INPUT"),
    Difference("x = '5'", "BIGINT", 5, False, True, True),
    Difference("x = 'abc'", "BIGINT", 5, False, "Conversion Error", "CAST_INVALID_INPUT"),
    Difference("x = 1", "BOOLEAN", True, False, True, "DATATYPE_MISMATCH"),
    Difference("x = 'true'", "BOOLEAN", True, False, True, True),
    Difference("x = 9007199254740992e0", "BIGINT", 2**53 + 1, False, True, True),
    Difference("x = 9007199254740993", "DOUBLE", float(2**53), False, True, True),
    Difference(
        "x = TIMESTAMP '2026-01-31 09:30:00+02:00'", "TIMESTAMP", datetime(2026, 1, 31, 9, 30), False, True, False
    ),
    Difference("x = '2026-01-31 09:30:00'", "TIMESTAMP", datetime(2026, 1, 31, 9, 30), False, True, True),
    Difference("X = 5", "BIGINT", 5, False, True, True),
    Difference(r"x LIKE 'a\%b'", "VARCHAR", "a%b", False, False, True),
    Difference(r"x = 'a\nb'", "VARCHAR", "a\nb", False, False, True),
    Difference(r"x = 'a\nb'", "VARCHAR", r"a\nb", True, True, False),
    Difference('"x" = 5', "BIGINT", 5, True, True, "CAST_INVALID_INPUT"),
    Difference("missing IS NULL", "BIGINT", 5, True, "Binder Error", "UNRESOLVED_COLUMN"),
    Difference("x.y = 5", "BIGINT", 5, False, "Binder Error", "INVALID_EXTRACT"),
    Difference("x LIKE 'a!x' ESCAPE '!'", "VARCHAR", "ax", "must stand before", True, "ESC_IN_THE_MIDDLE"),
    Difference("x > FALSE", "BOOLEAN", True, "have no order", True, True),
    Difference("x = 1e400", "DOUBLE", float("inf"), "too large", True, "NUMERIC"),
    Difference("x / 0 > 5", "BIGINT", 5, False, True, "DIVIDE_BY_ZERO"),
    Difference("x % 0 IS NULL", "BIGINT", 5, True, "Division by zero", "_BY_ZERO"),
    Difference("x + x > 0", "BIGINT", 2**63 - 1, True, "Out of Range", "OVERFLOW"),
    Difference("x + 0.1 + 0.2 = 0.3", "BIGINT", 0, False, True, True),
    Difference("UPPER(x) = 'STRASSE'", "VARCHAR", "straße", True, False, True),
    Difference("EXISTS(x)", "BIGINT", 5, True, "Parser Error", "WRONG_NUM_ARGS"),
    Difference("TIMESTAMPDIFF(SECOND, x, x) = 0", "TIMESTAMP", datetime(2026, 1, 31), True, "Catalog Error", True),
)

"""Events become columns without losing a bit, and rows become events; what cannot be is named. No session is needed."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.types import StructType

from holdfast.model.errors import InputError
from holdfast.pipeline.live.columns import DEFAULT_SCHEMA, ColumnEvents, EventColumns
from holdfast.pipeline.live.options import stream_options
from holdfast.store.logged import Logged

NOON = datetime(2024, 2, 29, 12, 0, 0, 1, UTC)
HERE = {"gateway": "tcp://127.0.0.1:7100"}


def schema(**kinds: Any) -> StructType:
    """A schema from names and types as Spark writes them in JSON: a parser of Spark's own would need a session."""
    fields = [{"name": name, "type": _kind(kind), "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return StructType.fromJson({"type": "struct", "fields": fields})


def _kind(kind: Any) -> Any:
    return schema(**kind).jsonValue() if isinstance(kind, dict) and "type" not in kind else kind


INTS = {"type": "array", "elementType": "integer", "containsNull": True}
NESTED = {"type": "array", "elementType": INTS, "containsNull": True}
COUNTS = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}


def logged(*events: dict[str, Any]) -> list[Logged]:
    return [Logged("desk", seq, 1_000, 2_000, "original", event, b"pay") for seq, event in enumerate(events, 7)]


def columns(kinds: dict[str, Any], *events: dict[str, Any], permissive: bool = False) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = EventColumns(schema(**kinds), permissive).batch(40, logged(*events)).to_pydict()
    return found


def test_each_column_is_the_attribute_of_its_name() -> None:
    found = columns(
        {
            "s": "string",
            "i": "long",
            "d": "double",
            "b": "boolean",
            "t": "timestamp",
            "u": "decimal(20,0)",
            "x.y": "integer",
        },
        {"s": "☃", "i": -(2**63), "d": 0.1, "b": True, "t": NOON, "u": 2**64 - 1, "x.y": 3},
        {"i": 2**63 - 1, "unasked": 1},
    )
    assert found == {
        "s": ["☃", None],
        "i": [-(2**63), 2**63 - 1],
        "d": [0.1, None],
        "b": [True, None],
        "t": [NOON, None],
        "u": [Decimal(2**64 - 1), None],
        "x.y": [3, None],
    }


def test_the_events_own_columns_and_attributes_called_like_them() -> None:
    found = columns(
        {
            "id": {"source": "string", "seq": "long"},
            "time": "timestamp",
            "logged": "timestamp",
            "via": "string",
            "offset": "long",
            "payload": "binary",
            "attr:time": "long",
        },
        {"time": 5},
    )
    assert found["id"] == [{"source": "desk", "seq": 7}]
    assert [found[name][0].timestamp() for name in ("time", "logged")] == [0.001, 0.002]
    assert [found[name][0] for name in ("via", "offset", "payload", "attr:time")] == ["original", 40, b"pay", 5]


def test_numbers_change_their_type_only_where_nothing_is_lost() -> None:
    assert columns({"a": "double"}, {"a": 3}, {"a": 2**53}, {"a": 2**63}) == {"a": [3.0, 2.0**53, 2.0**63]}
    assert columns({"a": "long"}, {"a": 3.0}, {"a": -0.0}) == {"a": [3, 0]}
    assert columns({"a": "byte"}, {"a": 127}) == {"a": [127]}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 1.5),
        ("long", 2**63),
        ("long", True),
        ("long", "1"),
        ("byte", 128),
        ("double", 2**53 + 1),
        ("double", "x"),
        ("double", True),
        ("string", 1),
        ("boolean", 1),
        ("timestamp", 5),
        ("timestamp", "2024-01-01"),
        ("decimal(3,0)", 1_000),
        ("long", float("inf")),
        ("long", float("nan")),
    ],
)
def test_a_value_that_does_not_fit_is_named_or_null(kind: str, value: Any) -> None:
    with pytest.raises(InputError, match=r"event 41 \(desk/8\): attribute a is .* cannot hold") as caught:
        columns({"a": kind}, {}, {"a": value})
    assert len(str(caught.value).splitlines()) == 1
    assert columns({"a": kind}, {}, {"a": value}, permissive=True) == {"a": [None, None]}


def test_the_default_layout_keeps_every_type() -> None:
    event = {"s": "x", "i": 1, "d": 1.0, "b": False, "t": NOON, "u": 2**63, "n": None}
    batch = EventColumns(DEFAULT_SCHEMA).batch(0, logged(event, {}))
    full, empty = batch["attributes"].to_pylist()
    found = {name: value and {kind: part for kind, part in value.items() if part is not None} for name, value in full}
    assert found == {
        "s": {"string": "x"},
        "i": {"long": 1},
        "d": {"double": 1.0},
        "b": {"boolean": False},
        "t": {"timestamp": NOON},
        "u": {"decimal": Decimal(2**63)},
        "n": None,
    }
    assert empty == []


def test_what_was_read_in_the_default_layout_can_be_published_as_it_was() -> None:
    event = {"s": "x", "i": 1, "d": 1.0, "b": False, "t": NOON, "u": 2**63}
    batch = EventColumns(DEFAULT_SCHEMA).batch(0, logged(event)).select(["attributes", "payload"])
    kept = StructType([field for field in DEFAULT_SCHEMA.fields if field.name in ("attributes", "payload")])
    ((found, payload),) = ColumnEvents(kept).events(batch.select(["payload", "attributes"]))
    assert (found, payload) == (event, b"pay")
    assert {name: type(value) for name, value in found.items()} == {k: type(v) for k, v in event.items()}


def test_a_row_is_an_event_without_what_is_null() -> None:
    table = pa.RecordBatch.from_pydict(
        {
            "s": ["x", None],
            "i": pa.array([1, 2], pa.int16()),
            "d": pa.array([Decimal(5), None], pa.decimal128(10, 0)),
            "day": [date(2024, 2, 29), None],
            "t": pa.array([NOON, None], pa.timestamp("us", "UTC")),
            "home": [{"team": "Yankees", "score": None}, None],
            "payload": [b"pay", None],
        }
    )
    kinds = {"s": "string", "i": "short", "d": "decimal(10,0)", "day": "date", "t": "timestamp"}
    events = ColumnEvents(schema(**kinds, home={"team": "string", "score": "integer"}, payload="binary"))
    assert list(events.events(table)) == [
        (
            {"s": "x", "i": 1, "d": 5, "day": datetime(2024, 2, 29, tzinfo=UTC), "t": NOON, "home.team": "Yankees"},
            b"pay",
        ),
        ({"i": 2}, b""),
    ]


def test_a_payload_that_is_too_large_is_told_where_it_is_written() -> None:
    table = pa.RecordBatch.from_pydict({"payload": [b"x" * (2**20 + 1)]})
    with pytest.raises(InputError, match="payload too large: 1048577 bytes"):
        list(ColumnEvents(schema(payload="binary")).events(table))


def test_columns_that_cannot_be_are_all_named() -> None:
    with pytest.raises(InputError) as caught:
        EventColumns(
            schema(a="float", b=NESTED, c={"x": "integer"}, id="long", d="decimal(5,2)", e="date", fine="long")
        )
    for part in (
        "column a: ",
        "use double",
        "column b: ",
        "column c: ",
        "column id is bigint",
        "column d: ",
        "column e: ",
    ):
        assert part in str(caught.value)
    assert "fine" not in str(caught.value)
    with pytest.raises(InputError) as caught:
        ColumnEvents(schema(a="binary", b=NESTED, c={"x": "integer", "y": COUNTS}, d="decimal(5,2)", fine="long"))
    for part in ("column a: binary", "column b: array<array<int>>", "column c.y: map<string,int>", "cast it to double"):
        assert part in str(caught.value)
    with pytest.raises(InputError, match="300 columns; an event has at most 256 attributes"):
        ColumnEvents(schema(**{f"c{n}": "integer" for n in range(300)}))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "option gateway is missing"),
        ({"broker": "tcp://127.0.0.1:7001"}, "option broker alone is not enough"),
        ({**HERE, "conditon": "a = 1"}, "there is no option conditon; did you mean condition?"),
        ({**HERE, "condition": "a ="}, "option condition: line 1, column 4: expected a value"),
        ({**HERE, "maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger is '0'; expected a whole number above 0"),
        ({**HERE, "startingOffset": "first"}, "expected earliest, latest or an offset"),
        ({**HERE, "failOnDataLoss": "maybe", "mode": "x"}, "expected true or false; option mode is 'x'"),
        ({**HERE, "lifetimeSeconds": "-1"}, "option lifetimeSeconds is '-1'; expected a positive number"),
    ],
)
def test_bad_options_are_told_in_one_line(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        stream_options(given)
    (line,) = str(caught.value).splitlines()
    assert complaint in line


def test_options_are_read_without_regard_to_case_and_those_of_spark_are_left_alone() -> None:
    found = stream_options({"GATEWAY": "tcp://h:1", "maxrowspertrigger": "5", "checkpointLocation": "x", "path": "y"})
    assert (found.gateway, found.rows_per_trigger) == ("tcp://h:1", 5)

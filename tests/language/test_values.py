"""Values compare exactly and within their kind, and what comes from outside is taken or refused in words."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from holdfast import parse
from holdfast.model.errors import InputError
from holdfast.model.event import DEPTH_MAX, attributes_of
from holdfast.model.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    Kind,
    Value,
    as_value,
    canonical,
    kind_of,
    literal,
    microseconds,
    utc,
)

INDIA = timezone(timedelta(hours=5, minutes=30))
NASTY_NUMBERS: tuple[int | float, ...] = (
    *(0, -0.0, 5e-324, -5e-324, 0.1, 0.5, 1, 1.5, -1, 1e300, -1e300, math.inf, -math.inf),
    *(2**53 - 1, 2**53, 2**53 + 1, float(2**53), float(2**53 + 2), 2**63 - 1, 2**63, float(2**63)),
    *(2**64 - 1, float(2**64), -(2**63), float(-(2**63)), -(2**53) - 1),
)


@pytest.mark.parametrize("constant", [x for x in NASTY_NUMBERS if not math.isinf(x)], ids=repr)
def test_numbers_compare_as_exact_fractions(constant: float) -> None:
    """The judge is arithmetic on fractions, which rounds nothing."""
    spelt = repr(constant)
    for found in NASTY_NUMBERS:
        if math.isinf(found):
            less, equal = found < 0, False
        else:
            less, equal = Fraction(found) < Fraction(constant), Fraction(found) == Fraction(constant)
        event = {"x": found}
        assert parse(f"x = {spelt}").matches(event) == equal
        assert parse(f"x <> {spelt}").matches(event) == (not equal)
        assert parse(f"x < {spelt}").matches(event) == less
        assert parse(f"x <= {spelt}").matches(event) == (less or equal)
        assert parse(f"x > {spelt}").matches(event) == (not less and not equal)
        assert parse(f"x >= {spelt}").matches(event) == (not less)
        assert parse(f"x IN ({spelt}, 77777)").matches(event) == equal
        assert parse(f"x NOT IN ({spelt}, 77777)").matches(event) == (not equal)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (120.0, "120"),
        (-0.0, "0"),
        (1e19, "10000000000000000000"),
        (float(2**64), "1.8446744073709552e+19"),
        (float(-(2**63)), "-9223372036854775808"),
        (1e-7, "1e-07"),
        (0.1, "0.1"),
        ("O'Hara", "'O''Hara'"),
        (True, "TRUE"),
        (datetime(2026, 1, 31, 9, 30), "TIMESTAMP '2026-01-31 09:30:00'"),
        (datetime(2026, 1, 31, 9, 30, 0, 5, INDIA), "TIMESTAMP '2026-01-31 04:00:00.000005'"),
        (datetime.min, "TIMESTAMP '0001-01-01 00:00:00'"),
        (datetime.max, "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    ],
)
def test_a_value_has_one_spelling_and_it_reads_back(value: Value, spelling: str) -> None:
    assert literal(canonical(value)) == spelling
    assert parse(f"x = {spelling}").matches({"x": value})
    assert str(parse(f"x = {spelling}")) == f"x = {spelling}"


def test_equal_numbers_have_the_same_spelling() -> None:
    by_value: dict[int | float, set[str]] = {}
    for each in (*NASTY_NUMBERS, *map(float, NASTY_NUMBERS)):
        by_value.setdefault(each, set()).add(literal(canonical(each)))
    assert all(len(spellings) == 1 for spellings in by_value.values())


@pytest.mark.parametrize(
    ("one", "other"), [("x = 1", "x = TRUE"), ("x = 0", "NOT x"), ("x IN (0, 1)", "x IN (TRUE, FALSE)")]
)
def test_to_python_one_is_true_but_to_us_it_is_not(one: str, other: str) -> None:
    assert parse(one) != parse(other)
    assert len(parse(f"{one} OR {other}").filters) == 2


def test_kinds_are_told_apart_by_type() -> None:
    samples: list[Value] = [1, 1.0, "1", True, datetime(2026, 1, 31)]
    kinds = [Kind.NUMBER, Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP]
    assert [kind_of(each) for each in samples] == kinds


def test_microseconds_are_exact_far_from_1970() -> None:
    assert microseconds(datetime(1970, 1, 1)) == 0
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999)) == -1
    assert microseconds(datetime(1970, 1, 1, 5, 30, tzinfo=INDIA)) == 0
    assert microseconds(datetime.max) == 253_402_300_799_999_999
    assert microseconds(datetime.max) - microseconds(datetime.max - timedelta(microseconds=1)) == 1


@pytest.mark.parametrize(
    "moment", [datetime(1, 1, 1, tzinfo=INDIA), datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))]
)
def test_a_timestamp_outside_the_calendar_is_refused_in_words(moment: datetime) -> None:
    with pytest.raises(InputError, match="years 1 to 9999 UTC"):
        utc(moment)
    with pytest.raises(InputError, match="years 1 to 9999 UTC"):
        parse("at > TIMESTAMP '2026-01-31'").matches({"at": moment})


class Colour(str, Enum):  # noqa: UP042  # str() of a StrEnum is its value, of this one its name
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Celsius(float):
    pass


class Instant(datetime):
    pass


class NotATime(datetime):
    """What pandas' NaT looks like from outside."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.int64(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array(7), 7),
        (np.datetime64("2026-01-31T09:30:00"), datetime(2026, 1, 31, 9, 30, tzinfo=UTC)),
        (np.datetime64("2026-01-31T09:30:00.123456789"), datetime(2026, 1, 31, 9, 30, 0, 123_456, UTC)),
        (np.datetime64("2026-01-31"), datetime(2026, 1, 31, tzinfo=UTC)),
        (np.datetime64("NaT", "ns"), None),
        (date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC)),
        (Instant(2026, 1, 31, 9, 30, tzinfo=INDIA), datetime(2026, 1, 31, 4, tzinfo=UTC)),
        (NotATime(2026, 1, 31), None),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Celsius(21.5), 21.5),
        (None, None),
    ],
    ids=repr,
)
def test_a_scalar_from_outside_becomes_a_plain_value(found: object, expected: Value | None) -> None:
    taken = as_value(found, "x")
    assert taken == expected
    assert type(taken) is type(expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], []),
        (("a", None), ["a", None]),
        ([1, np.float32(0.5), None], [1, 0.5, None]),
        (np.array([1, 2]), [1, 2]),
        (np.array([]), []),
        ([date(2026, 1, 31)], [datetime(2026, 1, 31, tzinfo=UTC)]),
        ([True, False], [True, False]),
        ([2**64 - 1, 2**63], [2**64 - 1, 2**63]),
        ([-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
        ([2**53, 0.5, math.inf], [2**53, 0.5, math.inf]),
    ],
    ids=repr,
)
def test_a_list_from_outside_becomes_a_list_of_plain_values(found: object, expected: list[object]) -> None:
    taken = as_value(found, "x")
    assert taken == expected
    assert list(map(type, taken)) == list(map(type, expected))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "found",
    [
        *(INTEGER_MAX + 1, INTEGER_MIN - 1, b"bytes", Decimal("1.5"), 1j, {1}, object(), timedelta(1)),
        *(np.timedelta64(1, "ns"), np.complex128(1), np.array([[1]]), np.array([1j])),
        *([[1]], [{"a": 1}], [1, "a"], [1, True], [b"a"], [2**60, 0.5], [2**63, -1], [0] * 257),
    ],
    ids=lambda found: type(found).__name__,
)
@pytest.mark.parametrize("wrap", [lambda x: {"x": x}, lambda x: {"x": x, "y": np.int64(1)}], ids=["flat", "mixed"])
def test_anything_else_is_refused_with_its_name(found: object, wrap: Any) -> None:
    with pytest.raises(InputError, match=r"event attribute x(\[0\])?: "):
        parse("TRUE").matches(wrap(found))


def test_a_flat_event_is_taken_as_it_is() -> None:
    event = {"x": 1, "y": None, "z": "a", "t": datetime(2026, 1, 31), "b": True, "f": math.nan}
    assert attributes_of(event) is event


@pytest.mark.parametrize(
    "nested",
    [
        {"home": {"team": "Yankees", "at": {"bat": 3}}},
        {"home": OrderedDict(team="Yankees", at=MappingProxyType({"bat": 3}))},
        {"home.team": "Yankees", "home": {"at.bat": np.int8(3)}},
    ],
    ids=["dicts", "other maps", "dots"],
)
def test_nested_maps_become_dotted_names(nested: Mapping[str, object]) -> None:
    assert attributes_of(nested) == {"home.team": "Yankees", "home.at.bat": 3}


def nest(depth: int) -> dict[str, object]:
    event: dict[str, object] = {"x": 1}
    for _ in range(depth):
        event = {"d": event}
    return event


def test_nesting_has_a_limit() -> None:
    assert attributes_of(nest(DEPTH_MAX)) == {"d." * DEPTH_MAX + "x": 1}
    with pytest.raises(InputError, match="nested more than 16 deep"):
        attributes_of(nest(DEPTH_MAX + 1))
    circle: dict[str, object] = {}
    circle["again"] = circle
    with pytest.raises(InputError, match="nested more than 16 deep"):
        attributes_of(circle)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"home\.team is given twice"):
        attributes_of({"home": {"team": "a"}, "home.team": "b"})


def test_a_name_that_is_no_string_is_refused() -> None:
    with pytest.raises(InputError, match="expected a name that is a string"):
        attributes_of({"home": {1: "a"}})

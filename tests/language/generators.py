"""Conditions and events that meet: few attributes, few constants, and events that carry those constants,
their next neighbours, or something nasty.

`condition(dice)` makes a condition as text, spelt in as many ways as the language allows; `event(dice)` an
event with missing attributes, NULLs and values of the wrong kind; `row(dice)` a row of a typed table. Dice
are a `Random`. `conditions()` and `events()` are the same as Hypothesis strategies, whose dice shrink.

All take the attributes to use: `ATTRIBUTES`, or `SQL_ATTRIBUTES` with `sql=True` for conditions that DuckDB
and Spark SQL read as we do. A test keeps the share of matching pairs between 10 % and 60 %.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from random import Random

from hypothesis import strategies as st

from holdfast.model.values import Kind, Value, literal
from tests.language.expressions import expression_test

Event = Mapping[str, Value | None]

MICROSECOND = timedelta(microseconds=1)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Attribute:
    name: str
    kind: Kind
    constants: tuple[Value, ...]  # what conditions compare with, and what events carry most often
    nearby: tuple[Value, ...]  # what else events carry: just beside the constants, or nasty
    digits: bool = False  # write integers as integers only: engines read 9007199254740993e0 as a double
    quoted: bool = False  # the name needs its quotes

    def spelt(self, dice: Random, sql: bool) -> str:
        if self.quoted or (not sql and dice.randrange(3) == 0):
            return '"' + self.name.replace('"', '""') + '"'
        return self.name


PRICE = Attribute(
    "price",
    Kind.NUMBER,
    (0, 99.5, 100, 120),
    (-0.0, math.nextafter(99.5, 0), math.nextafter(99.5, 200), 119.99, 1e300, -1e-300, math.inf, -math.inf),
)
SIZE = Attribute("size", Kind.NUMBER, (-1, 0, 1, 10), (9, 11, 999, -1_000))
SERIAL = Attribute(
    "serial",
    Kind.NUMBER,
    (2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    (2**53 + 2, 2**63 - 2, -(2**63) + 1, 0, -(2**53) - 1),
    digits=True,
)
SYMBOL = Attribute(
    "symbol",
    Kind.STRING,
    ("IBM", "IBM.N", "a%b", "O'Hara", "ÉTÉ"),
    ("", "IB", "IBN", "IBM.NN", "ibm", "a_b", "axb", "ab", "O", "ÉT", "E\u0301TE\u0301", "zzz"),
)
TEAM = Attribute(
    "team",
    Kind.STRING,
    ("Yan", "Yankees", "日本", "𝄞 clef"),
    ("Ya", "Yao", "Yankee", "Yankees!", "日", "日本語", "𝄞", "\uffff", "\U0010ffff", " Yan", "Yan "),
)
LIVE = Attribute("live", Kind.BOOLEAN, (True, False), (True, False))
SENT = Attribute(
    "sent",
    Kind.TIMESTAMP,
    (NOON, NOON + timedelta(days=1), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    (NOON - MICROSECOND, NOON + MICROSECOND, NOON + timedelta(hours=5), datetime(2400, 2, 29, tzinfo=UTC)),
)
TAGS = Attribute(
    "tags",
    Kind.LIST,
    (["IBM"], ["IBM", "O'Hara"], ["ÉTÉ", None, "IBM"]),
    ([], [None], ["ibm"], ["", "a%b", "", "IBM.N"]),
)
SIZES = Attribute("sizes", Kind.LIST, ([1], [-1, 10], [0, None, 10]), ([], [None, None], [9, 999], list(range(12))))
SQL_ATTRIBUTES = (PRICE, SIZE, SERIAL, SYMBOL, TEAM, LIVE, SENT, TAGS, SIZES)
_ELEMENTS = {"tags": SYMBOL, "sizes": SIZE}  # lists hold what these attributes hold

RATIO = Attribute(
    "home.ratio",
    Kind.NUMBER,
    (0, 0.1, 2**53, 2**53 + 1, 1e19, 2**64 - 1),
    (
        *(float(2**53), float(2**63), float(2**64), 2**63, 2**64 - 2, math.nextafter(0.1, 1), 5e-324),
        *(math.nan, math.nan, math.inf, -math.inf, -0.0, -(2**63)),
    ),
)
ODD = Attribute(
    'odd "name"',
    Kind.STRING,
    ("", "a", "a\0", "ab"),
    ("\0", "a!b", "a\\b", "\U0010ffff", "'", "%"),
    quoted=True,
)
KEYWORD = Attribute("between", Kind.TIMESTAMP, (NOON,), (NOON.replace(tzinfo=None), NOON - MICROSECOND), quoted=True)
MIXED = Attribute(
    "home.mixed", Kind.LIST, ([True], [1], [1.0, 2**53], [NOON]), ([math.nan], [2**64 - 1], [False, None])
)
ATTRIBUTES = (*SQL_ATTRIBUTES, RATIO, ODD, KEYWORD, MIXED)


def conditions(attributes: Sequence[Attribute] = ATTRIBUTES, sql: bool = False) -> st.SearchStrategy[str]:
    return st.randoms(use_true_random=False).map(lambda dice: condition(dice, attributes, sql))


def events(attributes: Sequence[Attribute] = ATTRIBUTES) -> st.SearchStrategy[Event]:
    return st.randoms(use_true_random=False).map(lambda dice: event(dice, attributes))


def event(dice: Random, attributes: Sequence[Attribute] = ATTRIBUTES) -> Event:
    """Most of the attributes, now and then with NULL or a value of another kind."""
    made: dict[str, Value | None] = {}
    for each in attributes:
        lot = dice.randrange(20)
        if lot < 9:
            made[each.name] = dice.choice(each.constants)
        elif lot < 15:
            made[each.name] = dice.choice(each.nearby)
        elif lot == 15:
            made[each.name] = _anything(dice, each.kind)
        elif lot == 16:
            made[each.name] = dice.choice(dice.choice(attributes).constants)
        elif lot == 17:
            made[each.name] = None
    return made


def row(dice: Random, attributes: Sequence[Attribute] = SQL_ATTRIBUTES) -> Event:
    """Every attribute, of its own kind or NULL."""
    return {each.name: dice.choice((*each.constants * 2, *each.nearby, None)) for each in attributes}


def _anything(dice: Random, kind: Kind) -> Value:
    """Any value of the kind."""
    if kind is Kind.STRING:
        ranges = ((0, 0x7F), (0, 0xD7FF), (0xE000, 0x10FFFF))
        return "".join(chr(dice.randint(*dice.choice(ranges))) for _ in range(dice.randrange(9)))
    if kind is Kind.BOOLEAN:
        return dice.choice((True, False))
    if kind is Kind.LIST:
        alike = dice.choice((Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP))
        return [_anything(dice, alike) for _ in range(dice.randrange(4))]
    if kind is Kind.TIMESTAMP:
        zone = dice.choice((None, UTC, timezone(timedelta(hours=-7))))
        return datetime(2000, 1, 1, tzinfo=zone) + MICROSECOND * dice.randint(-(10**16), 10**16)
    if dice.randrange(2):
        return dice.randint(-(2**63), 2**64 - 1)
    bits = struct.pack("<Q", dice.getrandbits(64))
    return float(struct.unpack("<d", bits)[0])


def condition(dice: Random, attributes: Sequence[Attribute] = ATTRIBUTES, sql: bool = False) -> str:
    return _part(dice, attributes, sql, depth=dice.choice((0, 1, 1, 2)))


def _part(dice: Random, attributes: Sequence[Attribute], sql: bool, depth: int) -> str:
    if depth == 0:
        return atom(dice, attributes, sql)
    connective = f" {_cased(dice, dice.choice(('AND', 'OR')))} "
    parts = [_part(dice, attributes, sql, depth - 1) for _ in range(dice.choice((1, 2, 2, 3)))]
    return connective.join(_wrapped(dice, part) for part in parts)


def _wrapped(dice: Random, part: str) -> str:
    """The part with parentheses or without, which may change its meaning, and sometimes negated."""
    no = _cased(dice, "NOT")
    lot = dice.randrange(10)
    if lot < 4:
        return part
    return (f"({part})", f"({part})", f"( ({part}))", f"{no} {part}", f"{no}({part})", f"{no} {no} ({part})")[lot - 4]


def atom(dice: Random, attributes: Sequence[Attribute] = ATTRIBUTES, sql: bool = False) -> str:
    """One attribute and one test, a bare TRUE or FALSE, or a test that works something out."""
    if dice.randrange(6) == 0:
        return expression_test(dice, attributes, sql)
    each = dice.choice(attributes)
    name = each.spelt(dice, sql)
    if each.kind is Kind.LIST:
        return _list_test(dice, each, name, attributes, sql)
    shapes = ("comparison", "comparison", "comparison", "in", "null", *_SHAPES[each.kind])
    shape = dice.choice(shapes if sql else (*shapes, "wrong kind"))
    if shape == "wrong kind":
        return f"{name} = {_constant(dice, dice.choice(_scalars(attributes)), sql)}"
    if shape == "null":
        return f"{name} {_cased(dice, dice.choice(('IS NULL', 'IS NOT NULL', 'IS NOT NULL')))}"
    if shape == "lone":
        return name
    if shape == "truth":
        return _cased(dice, dice.choice(("TRUE", "FALSE")))
    if shape == "like":
        return f"{name} {_negatable(dice, 'LIKE')} {_pattern(dice, each, sql)}"
    if shape == "in":
        listed = ", ".join(_constant(dice, each, sql) for _ in range(dice.randint(1, 4)))
        return f"{name} {_negatable(dice, 'IN')} ({listed})"
    if shape == "between":
        low, high = _constant(dice, each, sql), _constant(dice, each, sql)
        return f"{name} {_negatable(dice, 'BETWEEN')} {low} {_cased(dice, 'AND')} {high}"
    return _comparison(dice, each, name, sql)


def _list_test(dice: Random, each: Attribute, name: str, attributes: Sequence[Attribute], sql: bool) -> str:
    alike = _ELEMENTS.get(each.name) or dice.choice(_scalars(attributes))
    wanted = alike.spelt(dice, True) if dice.randrange(5) == 0 else _constant(dice, alike, sql)
    lot = dice.randrange(10 if sql else 12)
    if lot < 3:
        return f"{_cased(dice, 'CONTAINS')}({name}, {wanted})"
    if lot == 3:
        return f"{name} {_cased(dice, dice.choice(('IS NULL', 'IS NOT NULL')))}"
    if lot == 4:
        return f"CARDINALITY({name}) {dice.choice(('=', '<', '>='))} {dice.randrange(3)}"
    if lot == 10:
        return f"{name} = {dice.choice((wanted, name.replace(chr(34), '')))}"  # never true
    if lot == 11:
        return f"(({wanted} = ANY({name})) {dice.choice(('AND', 'OR'))} live) = {dice.choice(('live', 'TRUE'))}"
    ordered = () if alike.kind is Kind.BOOLEAN else ("<", ">=")
    sign = dice.choice(("=", "=", "=", "<>", "!=", *ordered))
    return f"{wanted} {sign} {_cased(dice, dice.choice(('ANY', 'ANY', 'ALL')))}({name})"


def _scalars(attributes: Sequence[Attribute]) -> list[Attribute]:
    return [each for each in attributes if each.kind is not Kind.LIST]


_SHAPES = {
    Kind.NUMBER: ("between", "between"),
    Kind.STRING: ("like", "like", "like", "between"),
    Kind.BOOLEAN: ("lone", "lone", "truth"),
    Kind.TIMESTAMP: ("between",),
}


def _comparison(dice: Random, each: Attribute, name: str, sql: bool) -> str:
    ordered = () if each.kind is Kind.BOOLEAN else ("<", "<=", ">", ">=")
    sign, value = dice.choice(("=", "=", "<>", "!=", *ordered)), _constant(dice, each, sql)
    # price<-1 would be an operator <- to DuckDB
    space = dice.choice((" ", "\n\t") if value[0] in "-+" else (" ", " ", "", "\n\t"))
    first, second = (name, value) if dice.randrange(5) else (value, name)
    return f"{first}{space}{sign}{space}{second}"


def _negatable(dice: Random, word: str) -> str:
    return _cased(dice, dice.choice((word, word, f"NOT {word}")))


def _cased(dice: Random, word: str) -> str:
    return dice.choice((word, word, word.lower(), word.title(), word.title().swapcase()))


def _constant(dice: Random, each: Attribute, sql: bool) -> str:
    """A constant of the attribute, in one of its spellings."""
    value = dice.choice(each.constants)
    spellings = [literal(value)] * 3
    if isinstance(value, datetime):
        spellings += [f"timestamp '{value.replace(tzinfo=None).isoformat()}'"]
        if not sql:  # DuckDB ignores an offset
            local = value.astimezone(timezone(timedelta(hours=5, minutes=30)))
            spellings += [f"TIMESTAMP'{local.isoformat()}'", f"Timestamp '{value:%Y-%m-%dT%H:%M:%S.%fZ}'"]
    elif isinstance(value, bool):
        spellings += [str(value), str(value).lower()]
    elif isinstance(value, int) and not each.digits and abs(value) <= 2**53:
        spellings += [f"{value}.0", f"{value}.", f"{value}e0", f"{value}.00E+0"]
    elif isinstance(value, float) and value >= 0:
        spellings += [f"+{value!r}", f"0{value!r}"]
    return dice.choice(spellings)


def _pattern(dice: Random, each: Attribute, sql: bool) -> str:
    """A pattern made from one of the constants, so that it matches that one and some of its neighbours."""
    text = str(dice.choice(each.constants))
    cut = dice.randint(0, len(text))
    rest = dice.randint(cut, len(text))
    head, middle, tail = text[:cut], text[cut:rest], text[rest:]
    made = {
        "prefix": f"{head}%",
        "suffix": f"%{tail}",
        "inside": f"%{middle}%",
        "both": f"{head}%{tail}",
        "underscore": f"{head}{'_' * len(middle)}{tail}",
        "soup": "".join(dice.choice("%_aIBM!.") for _ in range(dice.randrange(7))),
    }
    shapes = ("prefix", "prefix", "suffix", "inside", "both", "underscore", "escaped", "soup")
    shape = dice.choice(shapes)
    return _escaped(dice, head, sql) if shape == "escaped" else literal(made[shape])


def _escaped(dice: Random, head: str, sql: bool) -> str:
    """The texts that begin with `head`, wildcards and all."""
    escape = dice.choice("!" if sql else "!\\x%")
    for special in dict.fromkeys((escape, "%", "_")):
        head = head.replace(special, escape + special)
    wildcard = "_" if escape == "%" else "%"
    return f"{literal(head + wildcard)} {_cased(dice, 'ESCAPE')} '{escape}'"

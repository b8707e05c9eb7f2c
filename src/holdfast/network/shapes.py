"""The shapes that a value in the network file may have: numbers with a unit and a range, words, names, lists.

A shape reads a raw TOML value, turns it into the units of machines, and adds a problem instead of raising; what it
cannot take it returns as `BAD`, and the reader goes on. `words` says what is expected, in messages and in the manual.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from textwrap import indent
from typing import Any, Final, NamedTuple, Protocol

from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.model import validation
from holdfast.model.errors import InputError
from holdfast.model.event import attributes_of
from holdfast.model.validation import ValueRule
from holdfast.network.limits import LISTED_MAX, NAME_CHARACTERS_MAX, PORT_MAX
from holdfast.network.problems import KeyPath, Problems

BAD: Final = object()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_PORT_DIGITS = 5  # of the largest port
_SHOWN_CHARACTERS_MAX = 60  # of a wrong value, in a message


class Shape(Protocol):
    def words(self) -> str: ...

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any: ...


def shown(found: object) -> str:
    """A value as the file spells it, cut when it is long."""
    match found:
        case bool():
            return "true" if found else "false"
        case str():
            text = '"' + found.replace("\n", "\\n") + '"'
        case Mapping():
            return "a table"
        case list():
            return f"a list of {len(found)}"
        case _:
            text = str(found)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[: _SHOWN_CHARACTERS_MAX - 1] + "…"


def wrong(shape: Shape, found: object, path: KeyPath, problems: Problems, suggestion: str = "") -> Any:
    problems.add(path, f"found {shown(found)}, expected {shape.words()}", suggestion)
    return BAD


class _Plain(ValueRule, Protocol):
    """A single value, checked as the same value is checked in Python."""

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        suggestion = self.refusal(found)
        return found if suggestion is None else wrong(self, found, path, problems, suggestion)


@dataclass(frozen=True)
class Number(validation.NumberRule, _Plain):
    micro: int = 0  # microseconds in one unit; then the value becomes whole microseconds

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        value = super().read(found, path, problems)
        if value is BAD or self.integer:
            return value
        # Half a microsecond more than nothing is still more than nothing.
        return max(round(value * self.micro), 1 if value > 0 else 0) if self.micro else float(value)


@dataclass(frozen=True)
class Flag(validation.FlagRule, _Plain):
    pass


@dataclass(frozen=True)
class Choice(validation.ChoiceRule, _Plain):
    pass


@dataclass(frozen=True)
class Text(validation.TextRule, _Plain):
    pass


class Between(NamedTuple):
    """A value that is drawn once for each broker or link, evenly between two bounds."""

    low: float
    high: float

    def drawn(self, dice: Random) -> float:
        return self.low + (self.high - self.low) * dice.random()


@dataclass(frozen=True)
class Drawn:
    """A number, or two: then each broker or link draws its own."""

    of: Number

    def words(self) -> str:
        return f"{self.of.words()}, or [low, high]"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if not isinstance(found, list):
            value = self.of.read(found, path, problems)
            return BAD if value is BAD else Between(value, value)
        return Bounds(self.of).read(found, path, problems)


@dataclass(frozen=True)
class Bounds:
    """Two numbers, the lower one first."""

    of: Number

    def words(self) -> str:
        return f"[low, high], each {self.of.words()}"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if not isinstance(found, list) or len(found) != 2:
            return wrong(self, found, path, problems, "write [low, high]")
        low, high = (self.of.read(each, (*path, number), problems) for number, each in enumerate(found))
        if low is BAD or high is BAD:
            return BAD
        if low > high:
            problems.add(path, f"the lower bound {shown(found[0])} is above the upper one", "write [low, high]")
            return BAD
        return Between(low, high)


@dataclass(frozen=True)
class SocketAddress:
    """Where somebody listens; port 0 is any free one."""

    def words(self) -> str:
        return "host:port in quotes"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        host, colon, port = found.rpartition(":") if isinstance(found, str) else ("", "", "")
        if not (host and colon and port.isascii() and port.isdigit()) or not host.isprintable() or " " in host:
            return wrong(self, found, path, problems, 'such as "127.0.0.1:7001"')
        if len(port) > _PORT_DIGITS or int(port) > PORT_MAX:
            return wrong(self, found, path, problems, f"ports go up to {PORT_MAX:,}")
        return found


@dataclass(frozen=True)
class Name:
    """What a broker or client may be called: it stands in traces, dice and file names."""

    def words(self) -> str:
        return "a name"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if isinstance(found, str) and len(found) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(found):
            return found
        hint = f"letters, digits, _ . : and -, a letter or digit first, at most {NAME_CHARACTERS_MAX}"
        return wrong(self, found, path, problems, hint)


@dataclass(frozen=True)
class Condition:
    def words(self) -> str:
        return "a SQL condition in quotes"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if not isinstance(found, str):
            return wrong(self, found, path, problems, "such as \"symbol = 'IBM' AND price < 120\"")
        try:
            warnings = parse(found).warnings
        except ConditionError as error:
            problems.add(path, "the condition is not accepted:\n" + indent(str(error), "    "))
            return BAD
        for warning in warnings:
            problems.warn(path, warning)
        return found


@dataclass(frozen=True)
class Listed:
    of: Shape
    what: str
    size: int | None = None  # exactly so many
    most: int = LISTED_MAX
    patchy: bool = False  # a bad item becomes None, so that the others are looked at further

    def words(self) -> str:
        return f"a list of {self.what}"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if not isinstance(found, list):
            return wrong(self, found, path, problems, "put it into [ ]")
        if self.size is not None and len(found) != self.size:
            return wrong(self, found, path, problems)
        if len(found) > self.most:
            return wrong(self, found, path, problems, f"at most {self.most:,}")
        items = [self.of.read(each, (*path, number), problems) for number, each in enumerate(found)]
        if self.patchy:
            return [None if each is BAD else each for each in items]
        return BAD if any(each is BAD for each in items) else items


PAIR = Listed(Name(), "two brokers", size=2)


@dataclass(frozen=True)
class Either:
    """One of two shapes, told apart by the type of what is found."""

    one: Shape
    other: Shape
    other_type: type

    def words(self) -> str:
        return f"{self.one.words()}, or {self.other.words()}"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if isinstance(found, self.other_type):
            return self.other.read(found, path, problems)
        if isinstance(found, str | list | Mapping) and isinstance(self.one, Number):
            return wrong(self, found, path, problems)
        return self.one.read(found, path, problems)


@dataclass(frozen=True)
class Attributes:
    """An event's attributes: a table of scalars, nested tables become dotted names."""

    def words(self) -> str:
        return "a table of attributes"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        if not isinstance(found, Mapping):
            return wrong(self, found, path, problems, 'such as {symbol = "IBM", price = 99.5}')
        try:
            return dict(attributes_of(found))
        except InputError as error:
            problems.add(path, str(error))
            return BAD

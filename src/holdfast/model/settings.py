"""Settings are declared once: type, unit, bounds, default, meaning and reason of the default, on the field.

    @dataclass(frozen=True)
    class ProtocolSettings(Settings):
        heartbeat_us: int = setting(
            1_000_000, "how often neighbours compare tables", "what a lost control message costs", key="heartbeat_s"
        )

From these lines follow the checks whenever such an object is made, the key of the network file with its conversion and
its line in the manual, the help of flags, and the Python reference.

Times are whole microseconds under names that end in `_us`. People write seconds or milliseconds, under keys that end
in `_s` or `_ms`. A number is above 0 and a ratio from 0 to 1 unless other bounds are declared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from math import inf
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from holdfast.model.errors import InputError
from holdfast.model.validation import AnyOf, ChoiceRule, FlagRule, Instance, NumberRule, TextRule, ValueRule, complaint

TIME_US_MAX = 10**15  # 30 years: more than any run, and sums of a few still fit in 64 bits
MICROSECONDS = {"_us": 1, "_ms": 1_000, "_s": 1_000_000}  # in one unit of a name that ends so
_UNITS = {"_us": "microseconds", "_ms": "milliseconds", "_s": "seconds", "_bytes": "bytes", "_bits": "bits"}
_SETTING = "setting"

GoesWith = tuple[str, tuple[str, ...]]
"""A key of the network file and those of its values without which a setting has no effect."""


@dataclass(frozen=True)
class Setting:
    meaning: str
    reason: str = ""  # for the default; only a field that has none needs none
    unit: str = ""  # of a number whose name does not end in its unit
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    unchecked: bool = False  # those who use it check it, and say more
    choices: tuple[int, ...] = ()  # where only a few numbers make sense
    expects: str = "a text in quotes"  # of a text
    key: str | None = None  # its name in the network file; None: it is set in Python only
    goes_with: GoesWith | None = None
    drawn: bool = False  # the file may give [low, high], and each broker or link draws its own
    formerly: str = ""  # an older name of the key, which still works
    otherwise: str = ""  # what holds when it is left out, where the default is None


def setting(default: Any, meaning: str, reason: str, **declared: Any) -> Any:
    """A field of a settings class; `declared` is the rest of `Setting`."""
    metadata = {_SETTING: Setting(meaning, reason, **declared)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


class Declared(NamedTuple):
    name: str
    default: Any
    kind: ValueRule
    optional: bool  # None is accepted
    setting: Setting

    def problem(self, found: object) -> str:
        return "" if found is None and self.optional else complaint(self.kind, found)


class Wrong(NamedTuple):
    name: str  # of the field
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.message}{f'; {self.suggestion}' if self.suggestion else ''}"


class SettingsError(InputError):
    """Settings that are not accepted, with everything that is wrong with them."""

    def __init__(self, wrong: tuple[Wrong, ...]) -> None:
        self.wrong = wrong
        super().__init__("; ".join(map(str, wrong)))

    def __reduce__(self) -> tuple[object, ...]:
        return SettingsError, (self.wrong,)


class Settings:
    """What all settings have in common: an object that is not acceptable is not made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        values = ((each, getattr(self, each.name)) for each in declared(type(self)).values())
        wrong = tuple(Wrong(each.name, found) for each, value in values if (found := each.problem(value)))
        wrong = wrong or tuple(self._contradictions())
        if wrong:
            raise SettingsError(wrong)

    def _contradictions(self) -> Iterator[Wrong]:
        """What is wrong with values that are acceptable each by itself."""
        return iter(())


_known: dict[type, Mapping[str, Declared]] = {}  # one entry for each class there is


def declared(kind: type) -> Mapping[str, Declared]:
    """The declared fields of a settings class, by name."""
    if kind not in _known:
        _known[kind] = _declared(kind)
    return _known[kind]


def _declared(kind: Any) -> Mapping[str, Declared]:
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for each in fields(kind):
        hint, of = hints[each.name], each.metadata.get(_SETTING)
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            of = next((extra for extra in extras if isinstance(extra, Setting)), of)
        if of is not None:
            made = each.default_factory() if each.default_factory is not MISSING else each.default
            optional = NoneType in get_args(hint)
            found[each.name] = Declared(each.name, made, _kind(hint, each.name, of), optional, of)
    return found


def suffix(name: str, known: Mapping[str, Any]) -> str:
    """The unit at the end of a name: `_us` of `wait_us` and `wait_us_max`; empty when there is none."""
    bare = name.removesuffix("_max").removesuffix("_min")
    return next((each for each in known if bare.endswith(each) and not bare.endswith(f"_per{each}")), "")


def in_microseconds(name: str) -> str:
    """The name of the same time in microseconds: `lease_us` of `lease_s`."""
    return f"{name.removesuffix(suffix(name, MICROSECONDS))}_us"


def _kind(hint: Any, name: str, of: Setting) -> ValueRule:
    if of.unchecked:
        return Instance((object,))
    if get_origin(hint) in (Union, UnionType):
        kinds = [_kind(each, name, of) for each in get_args(hint) if each is not NoneType]
        words = [word for each in kinds if isinstance(each, ChoiceRule) for word in each.choices]
        if words:  # one list of words, where the first of them stands
            at = next(at for at, each in enumerate(kinds) if isinstance(each, ChoiceRule))
            kinds[at:] = [ChoiceRule(tuple(words)), *(each for each in kinds[at:] if not isinstance(each, ChoiceRule))]
        return kinds[0] if len(kinds) == 1 else AnyOf(tuple(kinds))
    if of.choices:
        return ChoiceRule(of.choices)
    if get_origin(hint) is Literal:
        return ChoiceRule(get_args(hint))
    if hint is bool:
        return FlagRule()
    if hint in (int, float):
        return _number(hint is int, name, of)
    if hint is str:
        return TextRule(of.expects)
    if hint is Path:
        return Instance((str, PathLike))
    return Instance((get_origin(hint) or hint,))


def _number(integer: bool, name: str, of: Setting) -> NumberRule:
    unit = suffix(name, _UNITS)
    ratio, time = name.endswith("_ratio"), unit == "_us"
    low, above = (of.above, True) if of.above is not None else (of.at_least, False)
    if low is None:  # 1 is the least whole number above 0, and the plainer way to say it
        low, above = (0, False) if ratio else (1, False) if integer and not time else (0, True)
    high = of.at_most if of.below is None else of.below
    if high is None:
        high = 1 if ratio else TIME_US_MAX if time else inf
    return NumberRule(low, high, of.unit or _UNITS.get(unit, ""), integer, above, of.below is not None)

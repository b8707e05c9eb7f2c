"""Keys that follow from declared settings, and settings made from the values of these keys.

This is the only place where the time of a person, in seconds or milliseconds, meets the microseconds of machines.
"""

from functools import cache
from typing import Any, TypeVar

from holdfast.model import validation
from holdfast.model.settings import MICROSECONDS, Declared, GoesWith, Settings, SettingsError, declared, suffix
from holdfast.network.problems import KeyPath, Problems
from holdfast.network.shapes import Choice, Drawn, Flag, Number, Shape, Text
from holdfast.network.tables import Key, Values

S = TypeVar("S", bound=Settings)

_UNITS = {"_s": "seconds", "_ms": "milliseconds"}


def keys_of(kind: type, goes_with: GoesWith | None = None) -> tuple[Key, ...]:
    """The keys of a settings class; all go with this value of another key, unless a field declares its own."""
    return tuple(_key(each, goes_with) for each in declared(kind).values() if each.setting.key)


def made(kind: type[S], values: Values, path: KeyPath, problems: Problems, **others: Any) -> S:
    """The settings that the values of a table describe; what does not go together is a problem."""
    try:
        return kind(**(fields_of(kind, values) | others))
    except SettingsError as error:
        if not problems.within(*path):
            for name, message, suggestion in error.wrong:
                problems.add((*path, declared(kind)[name].setting.key or name), message, suggestion)
        return kind(**others)


def fields_of(kind: type, values: Values) -> dict[str, Any]:
    """The declared fields that the values of a table give; what was drawn for a whole number is rounded."""
    given = ((name, values.get(field), rounds) for name, field, rounds in _fields(kind))
    return {name: round(value) if rounds else value for name, value, rounds in given if value is not None}


@cache
def _fields(kind: Any) -> list[tuple[str, str, bool]]:
    """Each field with a key: its name, its name among the values of a table, and whether it is to be rounded."""
    known = [each for each in declared(kind).values() if each.setting.key]
    return [(each.name, _key(each, None).field, each.setting.drawn and _is_integer(each.kind)) for each in known]


def _is_integer(kind: validation.ValueRule) -> bool:
    return isinstance(kind, validation.NumberRule) and kind.integer


def _key(each: Declared, goes_with: GoesWith | None) -> Key:
    of = each.setting
    assert of.key is not None
    shape = _shape(each.kind, of.key)
    return Key(
        of.key,
        Drawn(shape) if of.drawn and isinstance(shape, Number) else shape,
        of.meaning,
        _spelled(each.default, of.key) if isinstance(each.kind, validation.NumberRule) else each.default,
        of.otherwise,
        goes_with=of.goes_with or goes_with,
        reason=of.reason,
        formerly=of.formerly,
    )


def _shape(kind: validation.ValueRule, key: str) -> Shape:
    match kind:
        case validation.NumberRule(low, high, unit, integer, above, below):
            time = suffix(key, _UNITS)
            if not time:
                return Number(low, high, unit, integer, above, below)
            micro = MICROSECONDS[time]
            return Number(_spelled(low, key), _spelled(high, key), _UNITS[time], False, above, below, micro)
        case validation.ChoiceRule(choices):
            return Choice(choices)
        case validation.FlagRule():
            return Flag()
        case validation.TextRule(what, most):
            return Text(what, most)
        case validation.AnyOf(kinds):  # in the file words alone
            return next(_shape(each, key) for each in kinds if isinstance(each, validation.ChoiceRule))
    raise AssertionError(f"{key}: the network file has no {kind.words()}")


def _spelled(value: Any, key: str) -> Any:
    """Microseconds as the file has them; other numbers as they are."""
    time = suffix(key, _UNITS)
    if not time or value is None:
        return value
    micro = MICROSECONDS[time]
    return value // micro if value % micro == 0 else value / micro

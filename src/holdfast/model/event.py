"""An event's attributes: a flat map from names to scalars and lists of scalars.

Nested maps flatten to dotted names, so `{"home": {"team": "Yankees"}}` is `home.team`. Anything that is not a
scalar, a list of scalars or a map is refused with the name of the attribute. For applications dotted names are nested
again (`nested`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.limits import LIST_ELEMENTS_MAX
from holdfast.model.values import INTEGER_MAX, INTEGER_MIN, Value, as_value

Attributes = Mapping[str, Value | None]

RESERVED = "~"  # names that begin so belong to the messages by which clients recover losses
SIGNATURE = f"{RESERVED}sig"  # the attribute that holds the proof that an event is its publisher's
DEPTH_MAX = 16  # deeper nesting is a document, not an event; the bound keeps flattening from recursing
_FLAT_NAMES_MAX = 10_000  # as many as an application uses, and many more
flat_names: set[str] = set()  # names without a dot that were seen before: an event of these alone is nested already

_PLAIN = frozenset({str, float, bool, type(None), datetime})
_are_scalars = frozenset({bool, int, float, str, datetime, type(None)}).issuperset


def attributes_of(event: Mapping[str, object]) -> Attributes:
    """The event as a flat map; the map itself when it is flat and plain already."""
    for value in event.values():
        if type(value) is int:
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                return _flatten(event)  # which says what is wrong
        elif type(value) not in _PLAIN:
            return _flatten(event)
    return event  # type: ignore[return-value]  # every value was just seen to be a plain one


def _flatten(event: Mapping[str, object]) -> Attributes:
    flat: dict[str, Value | None] = {}
    pending: list[tuple[str, Mapping[str, object], int]] = [("", event, 0)]
    while pending:
        prefix, branch, depth = pending.pop()
        for key, found in branch.items():
            if not isinstance(key, str):
                raise InputError(f"event attribute {prefix}{key!r}: expected a name that is a string")
            name = prefix + key
            if isinstance(found, Mapping):
                if depth == DEPTH_MAX:
                    raise InputError(f"event attribute {name}: nested more than {DEPTH_MAX} deep")
                pending.append((name + ".", found, depth + 1))
            elif name in flat:
                raise InputError(f"event attribute {name} is given twice, once nested and once dotted")
            else:
                flat[name] = as_value(found, f"event attribute {name}")
    return flat


def odd_attribute(attributes: Mapping[str, object]) -> str | None:
    """The name of an attribute that is neither a scalar nor a list of scalars; None when there is none."""
    if _are_scalars(map(type, attributes.values())):
        return None
    for name, value in attributes.items():
        elements = value if type(value) is list else (value,)
        if len(elements) > LIST_ELEMENTS_MAX or not _are_scalars(map(type, elements)):
            return name
    return None


class NestedEvent(dict[str, Any]):
    """An event with nested maps, in which dotted names are found as well: `event["home.team"]`."""

    def __missing__(self, name: str) -> Any:
        found: Any = self
        for part in name.split("."):
            if not isinstance(found, dict) or not dict.__contains__(found, part):
                raise KeyError(name)
            found = dict.__getitem__(found, part)
        return found

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (isinstance(name, str) and self.get(name, self) is not self)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


def nested(attributes: Attributes) -> Mapping[str, Any]:
    """The event with its dotted names nested, so that `attributes_of` gives the attributes again; without its proof.

    A name stays dotted below an attribute (`a.b` beside `a`) and where it would be nested too deep.
    """
    if SIGNATURE in attributes:
        attributes = {name: value for name, value in attributes.items() if name != SIGNATURE}
    if "." not in "".join(attributes):
        if len(flat_names) + len(attributes) > _FLAT_NAMES_MAX:
            flat_names.clear()
        flat_names.update(attributes)
        return attributes
    event = NestedEvent()
    for name, value in attributes.items():
        *path, last = name.split(".")
        above = [".".join(path[: depth + 1]) for depth in range(len(path))]
        if len(path) > DEPTH_MAX or any(each in attributes for each in above):
            event[name] = value
            continue
        branch: dict[str, Any] = event
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = value
    return event

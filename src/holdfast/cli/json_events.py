"""Events as JSON on the command line, both ways without losing a type.

JSON has no timestamps, so one is written as an object of its own: `{"$timestamp": "2026-01-31T09:30:00Z"}`. Nested
attributes are nested objects.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from holdfast.model.errors import InputError
from holdfast.model.event import Attributes, nested

TIMESTAMP = "$timestamp"

_MARK = f".{TIMESTAMP}"  # in the name of an attribute


def read_event(text: str | bytes) -> dict[str, object]:
    """The event of a JSON object; an InputError when it is none."""
    try:
        event = json.loads(text)
        if isinstance(event, dict):
            return {name: _read(value, name) for name, value in event.items()}
    except json.JSONDecodeError as problem:
        raise InputError(
            f"not JSON: {problem.msg} (line {problem.lineno}, column {problem.colno}); "
            """write an event as {"symbol": "IBM", "price": 130}"""
        ) from None
    except RecursionError:
        raise InputError("the event is nested too deep") from None
    except ValueError as problem:  # an integer of thousands of digits, bytes that are not UTF-8
        raise InputError(f"the event cannot be read ({problem})") from None
    raise InputError(f"""a JSON {type(event).__name__}, not an object such as {{"symbol": "IBM"}}""")


def _read(value: object, name: str) -> object:
    if isinstance(value, list):
        return [_read(each, f"{name}[{at}]") for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TIMESTAMP}:
        return _moment(value[TIMESTAMP], name)
    return {key: _read(each, f"{name}.{key}") for key, each in value.items()}


def _moment(text: object, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        example = f'{{"{TIMESTAMP}": "2026-01-31T09:30:00Z"}}'
        raise InputError(f"event attribute {name}: {text!r} is no timestamp; write it as {example}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def event_for_json(attributes: Attributes) -> Mapping[str, object]:
    """The event as `json.dumps(..., default=timestamp_for_json)` is to write it.

    An attribute whose own name holds the mark of a timestamp keeps its dotted name: it is not to be taken for one.
    """
    marked = {name: value for name, value in attributes.items() if _MARK in name}
    if not marked:
        return nested(attributes)
    return {**nested({name: value for name, value in attributes.items() if name not in marked}), **marked}


def timestamp_for_json(value: object) -> dict[str, str]:
    assert isinstance(value, datetime)
    return {TIMESTAMP: value.astimezone(UTC).isoformat().replace("+00:00", "Z")}

"""An application's event as it may be sent: flat, plain scalars, within the limits, timestamps in UTC.

Checked where the application calls, so that the caller learns what is wrong; whatever passes survives the wire exactly.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from holdfast.model.errors import InputError, MisuseError
from holdfast.model.event import DEPTH_MAX, RESERVED, attributes_of
from holdfast.model.limits import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    NAME_CHARACTERS_MAX,
    PAYLOAD_BYTES_MAX,
    TIME_US_MAX,
)
from holdfast.model.messages import AttributeValue
from holdfast.model.values import utc
from holdfast.model.warn_once import warn_once

_encode = msgspec.msgpack.Encoder().encode


_DICT = frozenset({dict})
_SMALL_BYTES = 1_024  # of an event whose neighbours are encoded with it: hardly any is larger
_are_plain = frozenset({str, float, bool, int, type(None)}).issuperset
_NAMES_MAX = 10_000  # attribute names seen before, whose form need not be looked at again
_names: set[str] = set()
_are_known = _names.issuperset


def encoded_event(event: Mapping[str, object]) -> tuple[Mapping[str, AttributeValue], bytes]:
    """The attributes of an event, flat and within the limits, and the same as bytes: those that are sent.

    An InputError that names the attribute when it cannot be sent. The attributes may be the application's own dict.
    """
    if (
        type(event) is dict
        and len(event) <= ATTRIBUTES_MAX
        and _are_known(event)
        and _are_plain(map(type, event.values()))
    ):  # all else that can be wrong with it, encoding finds out
        try:
            encoded = _encode(event)
        except (UnicodeEncodeError, OverflowError):
            pass  # to be explained below
        else:
            if len(encoded) <= ATTRIBUTES_BYTES_MAX:
                return event, encoded
    if not isinstance(event, Mapping):
        raise MisuseError(f"an event is a dict of names and values, such as {{'n': 1}}, not {type(event).__name__}")
    return _attributes_of(event)


def encoded_events(events: Sequence[Mapping[str, object]]) -> list[bytes] | None:
    """`encoded_event` of each, if all are plain and small; None says nothing about them."""
    if not _DICT.issuperset(map(type, events)):
        return None
    plain = (
        max(map(len, events)) <= ATTRIBUTES_MAX
        and _are_known(chain.from_iterable(events))
        and _are_plain(map(type, chain.from_iterable(map(dict.values, events))))  # type: ignore[arg-type]
    )
    if not plain:
        return None
    try:
        encoded = list(map(_encode, events))
    except (UnicodeEncodeError, OverflowError):
        return None
    return encoded if max(map(len, encoded)) <= _SMALL_BYTES else None


def sendable(event: Mapping[str, object]) -> dict[str, AttributeValue]:
    """A copy of the event's attributes that can be sent."""
    return dict(encoded_event(event)[0])


def _attributes_of(event: Mapping[str, object]) -> tuple[dict[str, AttributeValue], bytes]:
    _warn_of_naive(event)
    flat = dict(attributes_of(event))
    if len(flat) > ATTRIBUTES_MAX:
        raise InputError(f"too many attributes: {len(flat)}, the limit is {ATTRIBUTES_MAX}")
    for name, value in flat.items():
        if type(name) is not str:
            raise InputError(f"event attribute {name!r}: expected a name that is a string")
        if name.startswith(RESERVED):
            raise InputError(f"event attribute {name}: names that begin with {RESERVED} are reserved; use another one")
        if len(name) > NAME_CHARACTERS_MAX:
            raise InputError(
                f"event attribute {name[:20]}…: a name of {len(name)} characters; the limit is {NAME_CHARACTERS_MAX}"
            )
        if type(value) is datetime:
            flat[name] = utc(value)
    try:
        encoded = _encode(flat)
    except UnicodeEncodeError:
        raise InputError(f"event attribute {_unencodable(flat)}: a lone surrogate, which is not valid text") from None
    if len(encoded) > ATTRIBUTES_BYTES_MAX:
        largest = max(flat, key=lambda name: len(_encode(flat[name])))
        raise InputError(
            f"event too large: its attributes take {len(encoded)} bytes, most of them {largest}; the limit is "
            f"{ATTRIBUTES_BYTES_MAX}. Put large data into the payload (up to {PAYLOAD_BYTES_MAX} bytes), "
            "or store it elsewhere and send its address"
        )
    if len(_names) + len(flat) > _NAMES_MAX:
        _names.clear()
    _names.update(flat)
    return flat, encoded


def _warn_of_naive(event: Mapping[str, object], depth: int = 0) -> None:
    for value in event.values():
        if isinstance(value, datetime):
            if value.tzinfo is None:
                warn_once("events hold timestamps without a time zone, which are taken as UTC: use datetime.now(UTC)")
        elif isinstance(value, Mapping) and depth < DEPTH_MAX:
            _warn_of_naive(value, depth + 1)


def _unencodable(flat: dict[str, AttributeValue]) -> str:
    for name, value in flat.items():
        try:
            _encode({name: value})
        except UnicodeEncodeError:
            return ascii(name)
    raise AssertionError("every attribute can be encoded alone")


def sendable_payload(payload: bytes | bytearray | memoryview) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise InputError(f"the payload must be bytes, not {type(payload).__name__}")
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InputError(
            f"payload too large: {len(payload)} bytes, the limit is {PAYLOAD_BYTES_MAX}; "
            "store larger data elsewhere and send its address"
        )
    return bytes(payload)


def sendable_lifetime_us(lifetime: float | timedelta) -> int:
    seconds = lifetime.total_seconds() if isinstance(lifetime, timedelta) else lifetime
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= TIME_US_MAX / 1e6:
        raise InputError(f"a lifetime of {lifetime!r}; it must be a positive number of seconds")
    return max(1, round(seconds * 1e6))


def sendable_name(name: str, whose: str) -> str:
    """The name of a node, if it can be one: printable and without white space, as it stands in logs and options."""
    if not isinstance(name, str):
        raise InputError(f"the {whose}'s name is {name!r}; it must be a text")
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise InputError(f"a {whose}'s name has 1 to {NAME_CHARACTERS_MAX} characters, not {len(name)}")
    if not name.isprintable() or " " in name:
        kind = "white space" if any(map(str.isspace, name)) else "a character that cannot be printed"
        better = "".join(each if each.isprintable() and each != " " else "-" for each in name)
        raise InputError(f"the {whose}'s name {name!a} holds {kind}; write it for instance as {better}")
    return name

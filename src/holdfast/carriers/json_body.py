"""Events as JSON that any client of a bus can read and write: `body="json"`.

The attributes are the payload, a JSON object. What recovery needs beside them (who published it, its number, when, and
from which number on this lane is whole) stands in one header; where a bus has none, in one member of the object whose
name no attribute can have. A payload without it comes from a plain client: an event at best effort.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from holdfast.carriers.carrier import BusMessage
from holdfast.language.lanes import Lane
from holdfast.model.errors import InputError, PeerError
from holdfast.model.event import RESERVED, attributes_of, nested
from holdfast.model.limits import NAME_CHARACTERS_MAX, TIME_US_MAX
from holdfast.model.messages import AttributeValue, Publication
from holdfast.wire.event_encoding import sendable

ABOUT: Final = "Holdfast"  # the header: source, number, time, since, lifetime, names of timestamps
PAYLOAD: Final = "Holdfast-Payload"  # and one for bytes beside the attributes
_MEMBER = f"{RESERVED}holdfast"  # where there are no headers, or too much for them
_NONE = "-"
_HEADER_MAX = 4_096  # of a payload in a header: MQTT's have 64 KiB at most, RabbitMQ's and ActiveMQ's less together

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Read(NamedTuple):
    """An event of a client of Holdfast, and from which number on its lane is whole; 0: nothing is said about that."""

    publication: Publication
    since: int


def json_message(lane: Lane, publication: Publication, since: int, has_headers: bool) -> BusMessage:
    attributes = publication.attributes
    moments = [quote(name, safe="") for name, value in attributes.items() if isinstance(value, datetime)]
    facts = publication.source, publication.seq, publication.time_us, since if publication.record is not None else _NONE
    about = " ".join(map(str, (*facts, publication.lifetime_us or _NONE, ",".join(moments) or _NONE)))
    headers = {ABOUT: about}
    if publication.payload:
        headers[PAYLOAD] = b64encode(publication.payload).decode()
    event: dict[str, Any] = dict(nested(attributes))
    if has_headers and len(headers.get(PAYLOAD, "")) <= _HEADER_MAX:
        return BusMessage(lane, _encode(event), headers)
    event[_MEMBER] = headers if publication.payload else about
    return BusMessage(lane, _encode(event))


def read_json_untrusted(message: BusMessage) -> Read | dict[str, AttributeValue] | None:
    """An event of ours, the attributes of a plain client's, or None for what is no JSON object.

    Raises only PeerError.
    """
    try:
        document = _decode(message.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    inside = document.pop(_MEMBER, None)
    headers = message.headers if ABOUT in message.headers else inside if isinstance(inside, dict) else {ABOUT: inside}
    about = headers.get(ABOUT)
    if not isinstance(about, str):
        return _plain_untrusted(document)
    try:
        return _read(document, about, headers.get(PAYLOAD) or "")
    except (ValueError, TypeError, LookupError, InputError, Base64Error) as problem:
        raise PeerError(f"not an event as JSON: {problem}") from None


def _read(document: dict[str, Any], about: str, payload: str) -> Read:
    source, seq, time_us, since, lifetime_us, moments = about.split(" ")
    attributes: dict[str, Any] = dict(attributes_of(document))
    if moments != _NONE:
        for name in map(unquote, moments.split(",")):
            attributes[name] = datetime.fromisoformat(attributes[name])
    lifetime = None if lifetime_us == _NONE else _number(lifetime_us)
    if not 0 < len(source) <= NAME_CHARACTERS_MAX or _number(seq) < 1:
        raise ValueError("no source or no number")
    record, whole = (None, 0) if since == _NONE else (b"", _number(since))
    own = sendable(attributes)
    data = b64decode(payload, validate=True)
    return Read(Publication(source, _number(seq), _number(time_us), lifetime, own, data, record), whole)


def _number(text: str) -> int:
    found = int(text)
    if not 0 <= found <= TIME_US_MAX:
        raise ValueError(f"{found} is out of range")
    return found


def _plain_untrusted(document: dict[str, Any]) -> dict[str, AttributeValue]:
    """The attributes of an event that somebody else has written: what cannot be one is left out."""
    own: dict[str, AttributeValue] = {}
    try:
        return sendable(document)
    except InputError:
        for name, value in document.items():
            try:
                own.update(sendable({name: value}))
            except InputError:
                continue
    return own

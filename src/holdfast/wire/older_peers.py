"""Messages as older nodes can read them.

A node of 0.1 or 0.2 takes a frame with a list in an event for damaged, and closes the connection. It gets the event
without that attribute: no condition that it knows can ask for more than whether the attribute is there. It would also
lose the proof that a batch shares: each event gets one of its own.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.model.messages import Batch, Handover, Message, Numbered
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed, is_event

M = TypeVar("M", bound=msgspec.Struct)


def as_older(encoded: bytes) -> bytes:
    """An encoded message whose events have no lists and share no proof; the same bytes where there are none."""
    if not is_event(encoded):
        return encoded
    (message,) = decode_frame_untrusted(framed((encoded,)))
    plain = _plain(message)
    return encoded if plain is message else encode_message(plain)


def _plain(message: Message) -> Message:
    if isinstance(message, Batch):
        if message.proof:
            message = message.taken_apart()
        if not any(map(_has_list, message.attributes)):
            return message
        return _changed(message, attributes=tuple(map(_scalars, message.attributes)))
    if isinstance(message, Numbered | Handover):
        field = "publish" if isinstance(message, Numbered) else "message"
        inner = getattr(message, field)
        plain = inner if inner is None else _plain(inner)
        return message if plain is inner else _changed(message, **{field: plain})
    publication = getattr(message, "publication", None)
    if publication is None or not _has_list(publication.attributes):
        return message
    return _changed(message, publication=_changed(publication, attributes=_scalars(publication.attributes)))


def _has_list(attributes: Mapping[str, Any]) -> bool:
    return list in map(type, attributes.values())


def _scalars(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if type(value) is not list}


def _changed(message: M, **fields: Any) -> M:
    return msgspec.structs.replace(message, **fields)

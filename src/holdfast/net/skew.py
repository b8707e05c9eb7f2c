"""How far the clock of a neighbour is ahead of ours, and what that means for the events that it sends.

Both ends say in their greeting what time it is. An event with a lifetime, and the control messages of recovery, whose
payload may hold such events, are marked with the skew between the publisher's clock and ours. An event without lifetime
stays as it is. The time of an outage is told by the clock of whoever passes it on, and set to ours.
"""

import msgspec

from holdfast.model.messages import (
    Deliver,
    GossipEvent,
    Handover,
    Message,
    Numbered,
    NumberedOutage,
    Outage,
    Publish,
    Stamped,
    skew_of,
    with_skew,
)

_AGREE_US = 100_000  # a greeting may take as long on its way; clocks that are kept right differ by less
_CONTROL_SEQ = 0  # of what recovering clients send each other


def skew_us(far_us: int, now_us: int, round_trip_us: int = 0) -> int:
    """How far the clock that showed `far_us` half a round trip ago is ahead of ours; 0 when the two seem to agree."""
    ahead_us = far_us + round_trip_us // 2 - now_us
    return 0 if not far_us or abs(ahead_us) <= max(_AGREE_US, round_trip_us) else ahead_us


def with_skew_of_sender(message: Message, sender_us: int) -> Message:
    """A message of a neighbour whose clock is so far ahead of ours."""
    if type(message) is Handover:
        inner = message.message
        return message if inner is None else _replaced(message, "message", with_skew_of_sender(inner, sender_us))
    if type(message) is Numbered:
        return _replaced(message, "publish", with_skew_of_sender(message.publish, sender_us))
    if type(message) is NumberedOutage:
        return _replaced(message, "outage", with_skew_of_sender(message.outage, sender_us))
    if type(message) is Outage and message.since_us:
        return _replaced(message, "since_us", message.since_us - sender_us)
    if not isinstance(message, (Publish, Deliver, Stamped, GossipEvent)):
        return message
    publication = message.publication
    if publication.lifetime_us is None and publication.seq != _CONTROL_SEQ:
        return message
    return _replaced(message, "publication", with_skew(publication, skew_of(publication) + sender_us))


def _replaced(message: Message, name: str, value: object) -> Message:
    return msgspec.structs.replace(message, **{name: value})

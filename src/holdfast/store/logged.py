"""An event as a log keeps it: what it was published with, and when and how it came."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.model import limits
from holdfast.model.message_fields import Count, NodeName
from holdfast.model.messages import Via

RECORD_BYTES_MAX = 8 * 2**20  # of one event in a log: an answer with one event must fit in a frame

LoggedAttributes = Annotated[dict[str, Any], Meta(max_length=limits.ATTRIBUTES_MAX)]  # values, as they were sent
LoggedPayload = Annotated[bytes, Meta(max_length=limits.PAYLOAD_BYTES_MAX)]


class Logged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where it stands in its log says its offset."""

    source: NodeName
    seq: Count
    time_us: Count  # when it was published, by the publisher's clock
    logged_us: Count  # when it came to the log, by the clock of whoever keeps that
    via: Via
    attributes: LoggedAttributes
    payload: LoggedPayload = b""


encode_row = msgspec.msgpack.Encoder().encode  # one event without anything around it

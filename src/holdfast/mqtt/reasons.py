"""Reason codes of MQTT 5, and which packet may carry which; older versions have a few of their own in CONNACK."""

from typing import Final

from holdfast.model.errors import PeerError

SUCCESS: Final = 0x00
WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION: Final = 0x11
UNSPECIFIED: Final = 0x80
MALFORMED: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
UNSUPPORTED_VERSION: Final = 0x84
CLIENT_ID_INVALID: Final = 0x85
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
TAKEN_OVER: Final = 0x8E
FILTER_INVALID: Final = 0x8F
NAME_INVALID: Final = 0x90
ID_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM: Final = 0x93
ALIAS_INVALID: Final = 0x94
TOO_LARGE: Final = 0x95
QUOTA_EXCEEDED: Final = 0x97
FORMAT_INVALID: Final = 0x99
MAX_CONNECT_TIME: Final = 0xA0

# What CONNACK of 3.1 and 3.1.1 has instead.
OLD_VERSION: Final = 1
OLD_ID_REJECTED: Final = 2
OLD_UNAVAILABLE: Final = 3
OLD_NOT_AUTHORIZED: Final = 5
_OLD = {
    SUCCESS: SUCCESS,
    UNSUPPORTED_VERSION: OLD_VERSION,
    CLIENT_ID_INVALID: OLD_ID_REJECTED,
    SERVER_UNAVAILABLE: OLD_UNAVAILABLE,
    NOT_AUTHORIZED: OLD_NOT_AUTHORIZED,
}

_PUBLISHED = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_RELEASED = frozenset({0x00, 0x92})
ALLOWED: Final[dict[str, frozenset[int]]] = {
    "puback": _PUBLISHED,
    "pubrec": _PUBLISHED,
    "pubrel": _RELEASED,
    "pubcomp": _RELEASED,
    "connack": frozenset(
        {0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    ),
    "suback": frozenset({0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    "unsuback": frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    "disconnect": frozenset(
        {0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}
    ),
    "auth": frozenset({0x00, 0x18, 0x19}),
}


def old_code(reason: int) -> int | None:
    """The code of CONNACK in 3.1 and 3.1.1; None where these versions have none and close without an answer."""
    return _OLD.get(reason)


class MqttError(PeerError):
    """What a client has sent ends its connection, for this reason."""

    def __init__(self, reason: int, text: str, version: int | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.version = version  # of the CONNECT that is refused, as far as it could be read


def malformed(text: str) -> MqttError:
    return MqttError(MALFORMED, text)


def protocol_error(text: str) -> MqttError:
    return MqttError(PROTOCOL_ERROR, text)

"""The packets of MQTT as values."""

from typing import Any, Literal

import msgspec

from holdfast.mqtt.properties import NONE, Properties

AckKind = Literal["puback", "pubrec", "pubrel", "pubcomp"]


class Will(msgspec.Struct, frozen=True):
    """What is published for a client that goes without taking leave."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NONE


class Connect(msgspec.Struct, frozen=True):
    client_id: str
    version: int  # 3, 4 (which is 3.1.1) or 5
    clean: bool = True
    keep_alive: int = 0
    will: Will | None = None
    user: str | None = None
    password: bytes | None = None
    properties: Properties = NONE


class Connack(msgspec.Struct, frozen=True):
    reason: int
    session_present: bool = False
    properties: Properties = NONE


class PublishPacket(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    duplicate: bool = False
    packet_id: int = 0
    properties: Properties = NONE


class PublishAck(msgspec.Struct, frozen=True):
    """PUBACK, PUBREC, PUBREL and PUBCOMP differ in nothing but their kind."""

    kind: AckKind
    packet_id: int
    reason: int = 0
    properties: Properties = NONE


class AskedFilter(msgspec.Struct, frozen=True):
    """One subscription of a SUBSCRIBE."""

    filter: str
    qos: int = 0
    no_local: bool = False
    as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True):
    packet_id: int
    asked: tuple[AskedFilter, ...]
    properties: Properties = NONE


class Suback(msgspec.Struct, frozen=True):
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NONE


class Unsubscribe(msgspec.Struct, frozen=True):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NONE


class Unsuback(msgspec.Struct, frozen=True):
    packet_id: int
    reasons: tuple[int, ...] = ()  # 3.1.1 has none
    properties: Properties = NONE


class Pingreq(msgspec.Struct, frozen=True):
    pass


class Pingresp(msgspec.Struct, frozen=True):
    pass


class Disconnect(msgspec.Struct, frozen=True):
    reason: int = 0
    properties: Properties = NONE


class Auth(msgspec.Struct, frozen=True):
    reason: int = 0
    properties: Properties = NONE


Packet = (
    Connect
    | Connack
    | PublishPacket
    | PublishAck
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)


def replaced(packet: PublishPacket, **changes: Any) -> PublishPacket:
    """The same with some fields changed."""
    return msgspec.structs.replace(packet, **changes)

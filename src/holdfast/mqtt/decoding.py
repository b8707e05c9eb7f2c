"""Packets from bytes that nobody vouches for: whatever the specification forbids ends with a `MqttError`.

Every length is checked before it is used, and every packet must end where its fields do. `Framer` cuts a stream into
packets and refuses one that is too long before it has come.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from holdfast.mqtt import properties
from holdfast.mqtt.encoding import NAMES
from holdfast.mqtt.fields import FieldReader, name_of
from holdfast.mqtt.packets import (
    AckKind,
    AskedFilter,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    PublishAck,
    PublishPacket,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.mqtt.properties import NONE, Properties
from holdfast.mqtt.reasons import (
    ALLOWED,
    CLIENT_ID_INVALID,
    OLD_VERSION,
    TOO_LARGE,
    UNSUPPORTED_VERSION,
    MqttError,
    malformed,
    protocol_error,
)

CONNECT, CONNACK, PUBLISH, AUTH = 1, 2, 3, 15
_ACKS: dict[int, AckKind] = {4: "puback", 5: "pubrec", 6: "pubrel", 7: "pubcomp"}
_FLAGS = {6: 2, 8: 2, 10: 2}  # the lower four bits of the first byte, where they are not 0
_HEAD_BYTES_MAX = 5
_TOPICS_MAX = 512  # whose check is remembered: clients name few, again and again; at most 32 MiB


class Framer:
    """Cuts what comes into packets: pairs of the first byte and all behind the length."""

    def __init__(self, bytes_max: int, check: Callable[[int], None]) -> None:
        self._bytes_max = bytes_max
        self._check = check  # of a first byte, before anything behind it has come
        self._held = bytearray()  # the beginning of a packet,
        self._needed = 0  # and how much of it there must be before another look: small pieces cost no more than large

    def feed_untrusted(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        checked = bool(self._held)
        if checked:
            self._held += data
            if len(self._held) < self._needed:
                return
            data = bytes(self._held)
            self._held.clear()
        at, end, self._needed = 0, len(data), 0
        while at < end:
            if not checked:
                self._check(data[at])
            checked = False
            start, length = at + 2, data[at + 1] if at + 1 < end else 0x80
            if length >= 0x80:
                head = _long_length(data[at + 1 : at + _HEAD_BYTES_MAX])
                if head is None:
                    break
                start, length = at + head[0], head[1]
            if start - at + length > self._bytes_max:
                size = start - at + length
                raise MqttError(TOO_LARGE, f"a packet of {size:,} bytes; the limit is {self._bytes_max:,}")
            if end < start + length:
                self._needed = start + length - at
                break
            first, at = data[at], start + length
            yield first, data[start:at]
        self._held += data[at:]


def _long_length(head: bytes) -> tuple[int, int] | None:
    """How far behind the first byte the body begins, and its length; None while that has not come."""
    value = 0
    for at, byte in enumerate(head):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return at + 2, value
    if len(head) >= _HEAD_BYTES_MAX - 1:
        raise malformed("a length of more than four bytes")
    return None


def check_flags(first: int) -> None:
    """The lower four bits of a first byte that is not that of PUBLISH, CONNECT or nothing at all."""
    kind = first >> 4
    if kind != PUBLISH and first & 0x0F != _FLAGS.get(kind, 0):
        raise malformed(f"flags {first & 0x0F:#x} in a packet of type {kind}")


def decode_untrusted(first: int, body: bytes, version: int) -> Packet:
    """The packet with this first byte and body."""
    kind = first >> 4
    if kind == PUBLISH:
        return _publish(first, body, version)
    if kind == CONNECT:
        return decode_connect_untrusted(first, body)
    check_flags(first)
    if len(body) == 2 and kind in _ACKS and (body[0] or body[1]):
        return PublishAck(_ACKS[kind], body[0] << 8 | body[1])  # as all are that say nothing but that it has come
    reader = FieldReader(body)
    packet = _decode(kind, reader, version)
    if reader.left:
        raise malformed(f"{reader.left} bytes behind a packet of type {kind}")
    return packet


def _decode(kind: int, reader: FieldReader, version: int) -> Packet:
    if kind in _ACKS:
        number = reader.short()
        if not number:
            raise protocol_error("a packet identifier of 0")
        return PublishAck(_ACKS[kind], number, *(_ending(reader, _ACKS[kind]) if version == 5 else ()))
    match kind:
        case 2:
            present, reason = reader.byte(), reader.byte()
            if present > 1 or (version == 5 and reason not in ALLOWED["connack"]):
                raise malformed("a CONNACK with unknown flags or reason")
            return Connack(reason, bool(present), _properties(reader, "connack", version))
        case 8:
            return _subscribe(reader, version)
        case 9:
            number, given = reader.short(), _properties(reader, "suback", version)
            return Suback(number, tuple(reader.rest()), given)
        case 10:
            return _unsubscribe(reader, version)
        case 11:
            number, given = reader.short(), _properties(reader, "unsuback", version)
            return Unsuback(number, tuple(reader.rest()), given)
        case 12:
            return Pingreq()
        case 13:
            return Pingresp()
        case 14:
            return Disconnect(*(_ending(reader, "disconnect") if version == 5 else ()))
        case 15 if version == 5:
            return Auth(*_ending(reader, "auth"))
        case _:
            raise protocol_error(f"there is no packet of type {kind}")


def _properties(reader: FieldReader, packet: str, version: int) -> Properties:
    return properties.read_untrusted(reader, packet) if version == 5 else NONE


def _ending(reader: FieldReader, packet: str) -> tuple[int, Properties]:
    """A reason code and properties, either of which may be left out at the end."""
    if not reader.left:
        return 0, NONE
    reason = reader.byte()
    if reason not in ALLOWED[packet]:
        raise protocol_error(f"{packet} has no reason code {reason:#04x}")
    return reason, properties.read_untrusted(reader, packet) if reader.left else NONE


def _publish(first: int, body: bytes, version: int) -> PublishPacket:
    qos, duplicate = first >> 1 & 3, bool(first & 8)
    if qos == 3 or (duplicate and not qos):
        raise malformed("a PUBLISH with quality of service 3, or a duplicate of 0")
    at = 2 + int.from_bytes(body[:2], "big")
    number = 0
    if qos:
        at += 2
        number = int.from_bytes(body[at - 2 : at], "big")
    if at > len(body) or len(body) < 2:
        raise malformed("a field ends beyond its packet")
    topic = _topic(body[2 : at - 2 if qos else at])
    if qos and not number:
        raise protocol_error("a packet identifier of 0")
    given = NONE
    if version == 5:
        reader = FieldReader(body, at)
        given = properties.read_untrusted(reader, "publish")
        at = len(body) - reader.left
    if not topic and "topic_alias" not in given:
        raise malformed("a PUBLISH without a topic")
    return PublishPacket(topic, body[at:], qos, bool(first & 1), duplicate, number, given)


@lru_cache(_TOPICS_MAX)
def _topic(data: bytes) -> str:
    topic = name_of(data)
    if "+" in topic or "#" in topic:
        raise malformed("a topic name with a wildcard")
    return topic


def _number_of(reader: FieldReader) -> int:
    number = reader.short()
    if not number:
        raise malformed("a packet identifier of 0")
    return number


def _subscribe(reader: FieldReader, version: int) -> Subscribe:
    number, given = _number_of(reader), _properties(reader, "subscribe", version)
    asked: list[AskedFilter] = []
    while reader.left or not asked:
        text, options = reader.name(), reader.byte()
        handling = options >> 4 & 3
        if not text or options & 3 == 3 or options & 0xC0 or handling == 3 or (version < 5 and options > 2):
            raise malformed("a subscription without a filter, or with options that do not exist")
        asked.append(AskedFilter(text, options & 3, bool(options & 4), bool(options & 8), handling))
    return Subscribe(number, tuple(asked), given)


def _unsubscribe(reader: FieldReader, version: int) -> Unsubscribe:
    number, given = _number_of(reader), _properties(reader, "unsubscribe", version)
    filters: list[str] = []
    while reader.left or not filters:
        filters.append(reader.name())
        if not filters[-1]:
            raise malformed("an empty filter")
    return Unsubscribe(number, tuple(filters), given)


# CONNECT -------------------------------------------------------------------------------------------


def decode_connect_untrusted(first: int, body: bytes) -> Connect:
    """A MqttError with the version to answer in, where there is to be an answer."""
    reader = FieldReader(body)
    name = reader.text()
    if name not in NAMES.values():
        raise malformed("not a CONNECT of MQTT")
    version = reader.byte()
    if name != NAMES.get(version):
        if version in NAMES:
            raise MqttError(OLD_VERSION, f"{name} has no version {version}", 4)
        raise MqttError(UNSUPPORTED_VERSION, f"there is no MQTT of version {version}", 5)
    if first & 0x0F and version > 3:
        raise malformed("flags in the first byte of CONNECT")
    try:
        return _connect(reader, version)
    except MqttError as problem:
        raise MqttError(problem.reason, str(problem), version) from None


def _connect(reader: FieldReader, version: int) -> Connect:
    flags = reader.byte()
    has_will, will_qos, will_retain = bool(flags & 4), flags >> 3 & 3, bool(flags & 0x20)
    has_user, has_password = bool(flags & 0x80), bool(flags & 0x40)
    if (flags & 1 and version > 3) or will_qos == 3 or (not has_will and (will_qos or will_retain)):
        raise malformed("flags of CONNECT that contradict each other")
    if has_password and not has_user and version < 5:
        raise malformed("a password without a user name")
    keep_alive = reader.short()
    given = _properties(reader, "connect", version)
    if "authentication_data" in given and "authentication_method" not in given:
        raise protocol_error("authentication data without a method")
    try:
        client_id = reader.name()
    except MqttError as problem:
        raise MqttError(CLIENT_ID_INVALID if version == 5 else problem.reason, str(problem)) from None
    will = _will(reader, version, will_qos, will_retain) if has_will else None
    user = reader.name() if has_user else None
    password = reader.binary() if has_password else None
    if reader.left:
        raise malformed(f"{reader.left} bytes behind a CONNECT")
    return Connect(client_id, version, bool(flags & 2), keep_alive, will, user, password, given)


def _will(reader: FieldReader, version: int, qos: int, retain: bool) -> Will:
    given = _properties(reader, "will", version)
    topic, payload = reader.name(), reader.binary()
    if not topic or "+" in topic or "#" in topic:
        raise malformed("a will without a topic, or with a wildcard in it")
    return Will(topic, payload, qos, retain, given)

"""The properties of MQTT 5: one table says what each is called, its type, and which packets may carry it.

A value that is incomplete is malformed even where its property has no business; a complete one that may not be there,
is there twice or has a forbidden value is a protocol error.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from holdfast.mqtt import fields
from holdfast.mqtt.fields import FieldReader
from holdfast.mqtt.reasons import ALIAS_INVALID, MqttError, malformed, protocol_error

Properties = Mapping[str, Any]  # by name; user properties and identifiers are lists, everything else stands alone

NONE: Final[Properties] = {}
USER: Final = "user_property"
IDENTIFIER: Final = "subscription_identifier"


class _Type(NamedTuple):
    read: Callable[[FieldReader], Any]
    write: Callable[[Any], bytes]


def _read_pair(reader: FieldReader) -> tuple[str, str]:
    return reader.text(), reader.text()


def _write_pair(pair: tuple[str, str]) -> bytes:
    return fields.text(pair[0]) + fields.text(pair[1])


_BYTE = _Type(FieldReader.byte, lambda value: bytes([value]))
_SHORT = _Type(FieldReader.short, fields.short)
_LONG = _Type(FieldReader.long, fields.long)
_VARINT = _Type(FieldReader.varint, fields.varint)
_TEXT = _Type(FieldReader.text, fields.text)
_BINARY = _Type(FieldReader.binary, fields.binary)
_PAIR = _Type(_read_pair, _write_pair)

_ACKS = "puback pubrec pubrel pubcomp"


class _Property(NamedTuple):
    name: str
    type: _Type
    packets: frozenset[str]


def _property(name: str, type_: _Type, packets: str) -> _Property:
    return _Property(name, type_, frozenset(packets.split()))


TABLE: Final[dict[int, _Property]] = {
    0x01: _property("payload_format_indicator", _BYTE, "publish will"),
    0x02: _property("message_expiry_interval", _LONG, "publish will"),
    0x03: _property("content_type", _TEXT, "publish will"),
    0x08: _property("response_topic", _TEXT, "publish will"),
    0x09: _property("correlation_data", _BINARY, "publish will"),
    0x0B: _property(IDENTIFIER, _VARINT, "publish subscribe"),
    0x11: _property("session_expiry_interval", _LONG, "connect connack disconnect"),
    0x12: _property("assigned_client_identifier", _TEXT, "connack"),
    0x13: _property("server_keep_alive", _SHORT, "connack"),
    0x15: _property("authentication_method", _TEXT, "connect connack auth"),
    0x16: _property("authentication_data", _BINARY, "connect connack auth"),
    0x17: _property("request_problem_information", _BYTE, "connect"),
    0x18: _property("will_delay_interval", _LONG, "will"),
    0x19: _property("request_response_information", _BYTE, "connect"),
    0x1A: _property("response_information", _TEXT, "connack"),
    0x1C: _property("server_reference", _TEXT, "connack disconnect"),
    0x1F: _property("reason_string", _TEXT, f"connack {_ACKS} suback unsuback disconnect auth"),
    0x21: _property("receive_maximum", _SHORT, "connect connack"),
    0x22: _property("topic_alias_maximum", _SHORT, "connect connack"),
    0x23: _property("topic_alias", _SHORT, "publish"),
    0x24: _property("maximum_qos", _BYTE, "connack"),
    0x25: _property("retain_available", _BYTE, "connack"),
    0x26: _property(
        USER,
        _PAIR,
        f"connect connack publish will {_ACKS} subscribe suback unsubscribe unsuback disconnect auth",
    ),
    0x27: _property("maximum_packet_size", _LONG, "connect connack"),
    0x28: _property("wildcard_subscription_available", _BYTE, "connack"),
    0x29: _property("subscription_identifier_available", _BYTE, "connack"),
    0x2A: _property("shared_subscription_available", _BYTE, "connack"),
}
_LISTS = frozenset({USER, IDENTIFIER})  # of which several may stand in a packet: but one identifier in SUBSCRIBE
_FLAGS = frozenset(each.name for each in TABLE.values() if each.type is _BYTE)
# A property in the wrong packet is malformed by the specification; brokers answer as here, and either ends it all.
_STRICT = frozenset({"subscribe", "unsubscribe"})
_NOT_ZERO = frozenset({"receive_maximum", "maximum_packet_size", IDENTIFIER})
_PROPERTIES_MAX = 1_000  # of one packet: four times as many attributes as an event may have


def read_untrusted(reader: FieldReader, packet: str) -> dict[str, Any]:
    """The properties of a packet of this kind."""
    part = reader.part(reader.varint())
    found: dict[str, Any] = {}
    count = 0
    while part.left:
        count += 1
        if count > _PROPERTIES_MAX:
            raise protocol_error(f"more than {_PROPERTIES_MAX} properties")
        number = part.varint()
        known = TABLE.get(number)
        if known is None:
            raise malformed(f"there is no property {number:#04x}")
        value = known.type.read(part)
        name = known.name
        if packet not in known.packets:
            wrong = malformed if packet in _STRICT else protocol_error
            raise wrong(f"{packet} has no property {name}")
        _check(name, value)
        if name in _LISTS:
            several = found.setdefault(name, [])
            if several and name == IDENTIFIER and packet != "publish":
                raise protocol_error(f"{name} is given twice")
            several.append(value)
        elif name in found:
            raise protocol_error(f"{name} is given twice")
        else:
            found[name] = value
    return found


def _check(name: str, value: Any) -> None:
    if not value and name in _NOT_ZERO:
        raise protocol_error(f"{name} is 0")
    if name == "topic_alias" and not value:
        raise MqttError(ALIAS_INVALID, "a topic alias of 0")
    if name == "response_topic" and (not value or "+" in value or "#" in value or not fields.is_printable(value)):
        raise protocol_error("a response topic that is no topic name")
    if name in _FLAGS and value > 1:
        raise protocol_error(f"{name} is {value}")


def write(properties: Properties) -> bytes:
    """The properties with their length; in the order of their numbers, whatever order they are in."""
    if not properties:
        return b"\x00"
    out = bytearray()
    for number, known in TABLE.items():
        value = properties.get(known.name)
        if value is None:
            continue
        for each in value if known.name in _LISTS else (value,):
            out += fields.varint(number) + known.type.write(each)
    return fields.varint(len(out)) + bytes(out)

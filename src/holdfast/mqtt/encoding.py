"""Packets as bytes."""

from holdfast.mqtt import fields, properties
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
)
from holdfast.mqtt.properties import Properties

NAMES = {3: "MQIsdp", 4: "MQTT", 5: "MQTT"}
_ACKS = {"puback": 0x40, "pubrec": 0x50, "pubrel": 0x62, "pubcomp": 0x70}


def encode(packet: Packet, version: int) -> bytes:
    """A packet as this version of the protocol writes it."""
    match packet:
        case PublishPacket():
            return _publish(packet, version)
        case PublishAck():
            return _framed(_ACKS[packet.kind], _ack(packet, version))
        case Connect():
            return _framed(0x10, _connect(packet))
        case Connack():
            head = bytes([packet.session_present, packet.reason])
            return _framed(0x20, head + _properties(packet.properties, version))
        case Subscribe():
            head = fields.short(packet.packet_id) + _properties(packet.properties, version)
            asked = [fields.text(each.filter) + bytes([_options(each)]) for each in packet.asked]
            return _framed(0x82, head + b"".join(asked))
        case Suback():
            head = fields.short(packet.packet_id) + _properties(packet.properties, version)
            return _framed(0x90, head + bytes(packet.reasons))
        case Unsubscribe():
            head = fields.short(packet.packet_id) + _properties(packet.properties, version)
            return _framed(0xA2, head + b"".join(map(fields.text, packet.filters)))
        case Unsuback():
            head = fields.short(packet.packet_id) + _properties(packet.properties, version)
            return _framed(0xB0, head + (bytes(packet.reasons) if version == 5 else b""))
        case Pingreq():
            return b"\xc0\x00"
        case Pingresp():
            return b"\xd0\x00"
        case Disconnect():
            return _framed(0xE0, _ending(packet.reason, packet.properties) if version == 5 else b"")
        case Auth():
            return _framed(0xF0, _ending(packet.reason, packet.properties))


def encode_ack(kind: AckKind, number: int) -> bytes:
    """One that says no more than that all is well, which every version writes alike."""
    return bytes((_ACKS[kind], 2, number >> 8, number & 0xFF))


def _framed(first: int, body: bytes) -> bytes:
    return bytes([first]) + fields.varint(len(body)) + body


def _properties(given: Properties, version: int) -> bytes:
    return properties.write(given) if version == 5 else b""


def _publish(packet: PublishPacket, version: int) -> bytes:
    first = 0x30 | packet.duplicate << 3 | packet.qos << 1 | packet.retain
    head = fields.text(packet.topic)
    if packet.qos:
        head += fields.short(packet.packet_id)
    if version == 5:
        head += properties.write(packet.properties)
    size = len(head) + len(packet.payload)
    length = bytes((first, size)) if size < 0x80 else bytes((first,)) + fields.varint(size)
    return b"".join((length, head, packet.payload))  # the payload is copied once


def _ack(packet: PublishAck, version: int) -> bytes:
    number = fields.short(packet.packet_id)
    return number + _ending(packet.reason, packet.properties) if version == 5 else number


def _ending(reason: int, given: Properties) -> bytes:
    """A reason code and properties, without what is left out at the end when it says nothing."""
    if given:
        return bytes([reason]) + properties.write(given)
    return bytes([reason]) if reason else b""


def _options(asked: AskedFilter) -> int:
    return asked.qos | asked.no_local << 2 | asked.as_published << 3 | asked.retain_handling << 4


def _connect(packet: Connect) -> bytes:
    version, will = packet.version, packet.will
    flags = packet.clean << 1 | (packet.user is not None) << 7 | (packet.password is not None) << 6
    if will is not None:
        flags |= 0x04 | will.qos << 3 | will.retain << 5
    body = fields.text(NAMES[version]) + bytes([version, flags]) + fields.short(packet.keep_alive)
    body += _properties(packet.properties, version) + fields.text(packet.client_id)
    if will is not None:
        body += _properties(will.properties, version) + fields.text(will.topic) + fields.binary(will.payload)
    if packet.user is not None:
        body += fields.text(packet.user)
    if packet.password is not None:
        body += fields.binary(packet.password)
    return body

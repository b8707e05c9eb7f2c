"""A PUBLISH as an event, and an event as a PUBLISH.

The topic is the attribute `topic`, user properties are attributes of their own names, and so are the scalars of a
payload that is JSON, and its lists of scalars. What only MQTT clients need travels under names that begin with `mqtt.`,
so that an event comes out as it went in, whichever brokers it has passed. An event of a native client has none of
these: its payload, or else its attributes as JSON, becomes the payload, and its topic comes from a template where it
has none.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.model.errors import InputError
from holdfast.model.event import DEPTH_MAX, RESERVED, nested
from holdfast.model.limits import ATTRIBUTES_MAX, NAME_CHARACTERS_MAX
from holdfast.model.messages import AttributeValue, Publication
from holdfast.model.values import as_value
from holdfast.mqtt.packets import PublishPacket
from holdfast.mqtt.properties import USER
from holdfast.mqtt.topics import TOPIC, is_name

OWN: Final = "mqtt."
QOS: Final = "mqtt.qos"
RETAIN: Final = "mqtt.retain"
_USER = "mqtt.user_properties"
_CORRELATION = "mqtt.correlation_data"
_PASSED = {  # properties that travel as they are, with the type that they must have when they come back
    "mqtt.payload_format_indicator": ("payload_format_indicator", int),
    "mqtt.content_type": ("content_type", str),
    "mqtt.response_topic": ("response_topic", str),
}
JSON: Final = "application/json"
_ATTRIBUTES_MAX = ATTRIBUTES_MAX - 16  # that properties and payload may bring; the rest is for our own names
_AT_ONCE_S = 1e-6  # a lifetime is above 0
_PLACE = re.compile(r"\{([^{}]*)\}")
_NOT_IN_LEVEL = re.compile(r"[/+#\x00-\x1f\x7f-\x9f]")
_PLAIN = (str, bool, int, float, list)


class MqttEvent(msgspec.Struct, frozen=True):
    """What a client publishes."""

    attributes: dict[str, AttributeValue]
    payload: bytes
    lifetime_s: float | None


def event_of(publish: PublishPacket, is_json: bool = False) -> MqttEvent:
    """The event that a PUBLISH is; its payload is read where it is JSON, by its content type or because we say so."""
    given = publish.properties
    if not given and not is_json and not publish.retain:  # as most are
        return MqttEvent({TOPIC: publish.topic, QOS: publish.qos}, publish.payload, None)
    attributes: dict[str, AttributeValue] = {TOPIC: publish.topic}
    for name, value in given.get(USER, ()):
        if _may_name(name):
            attributes[name] = value
    if is_json or _is_json(given.get("content_type", "")):
        for name, found in _values(publish.payload, _ATTRIBUTES_MAX - len(attributes)).items():
            attributes.setdefault(name, found)
    attributes[QOS] = publish.qos
    if publish.retain:
        attributes[RETAIN] = True
    for name, (key, _) in _PASSED.items():
        if key in given:
            attributes[name] = given[key]
    if "correlation_data" in given:
        attributes[_CORRELATION] = b64encode(given["correlation_data"]).decode()
    if given.get(USER):
        attributes[_USER] = msgspec.json.encode(given[USER]).decode()
    expiry_s = given.get("message_expiry_interval")
    return MqttEvent(attributes, publish.payload, None if expiry_s is None else max(expiry_s, _AT_ONCE_S))


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == JSON


def _may_name(name: str) -> bool:
    fits = 0 < len(name) <= NAME_CHARACTERS_MAX
    return fits and name != TOPIC and not name.startswith((RESERVED, OWN))


def _values(payload: bytes, most: int) -> dict[str, AttributeValue]:
    """The first values of a JSON object, those of nested objects under dotted names; what is none is left out."""
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    found: dict[str, AttributeValue] = {}
    pending: list[tuple[str, Any, int]] = [("", document, 0)] if isinstance(document, dict) else []
    while pending:
        prefix, branch, depth = pending.pop(0)
        for key, value in branch.items():
            name = prefix + key
            if isinstance(value, dict) and depth < DEPTH_MAX:
                pending.append((name + ".", value, depth + 1))
            elif type(value) in _PLAIN and _may_name(name) and name not in found and len(found) < most:
                with suppress(InputError):  # an integer past 64 bits, a list of lists or of two kinds
                    found[name] = as_value(value, name)
    return found


def publish_of(publication: Publication, topic: str, now_us: int) -> PublishPacket:
    """An event as it is sent to clients, with the quality of service that it was published with.

    A native event has the highest: it is as good as its way through the network, and the subscription decides.
    """
    attributes = publication.attributes
    if QOS in attributes:
        plain = len(attributes) == 2 and TOPIC in attributes
        payload, properties = publication.payload, {} if plain else _properties_of(attributes)
    else:
        payload, properties = _native(publication)
    expires_us = publication.expires_us
    if expires_us is not None:
        properties["message_expiry_interval"] = min(max(0, -((now_us - expires_us) // 1_000_000)), 2**32 - 1)
    qos = attributes.get(QOS, 2)
    return PublishPacket(
        topic,
        payload,
        qos if type(qos) is int and 0 <= qos <= 2 else 0,
        attributes.get(RETAIN) is True,
        properties=properties,
    )


def _properties_of(attributes: Mapping[str, AttributeValue]) -> dict[str, Any]:
    """What an MQTT client has published comes out as it went in; others may write what they like, and it is checked."""
    properties: dict[str, Any] = {}
    for name, (key, kind) in _PASSED.items():
        value = attributes.get(name)
        if type(value) is kind and (key != "payload_format_indicator" or value in (0, 1)):
            if key != "response_topic" or is_name(value):
                properties[key] = value
    correlation, user = attributes.get(_CORRELATION), attributes.get(_USER)
    if isinstance(correlation, str):
        with suppress(Base64Error, ValueError):
            properties["correlation_data"] = b64decode(correlation, validate=True)[:65_535]
    if isinstance(user, str):
        with suppress(msgspec.DecodeError):
            properties[USER] = msgspec.json.decode(user, type=list[tuple[str, str]])
    return properties


def _native(publication: Publication) -> tuple[bytes, dict[str, Any]]:
    """Payload and properties of an event that no MQTT client has published."""
    kept = [each for each in publication.attributes if each != TOPIC and not each.startswith((RESERVED, OWN))]
    own = {name: publication.attributes[name] for name in kept}
    properties = _properties_of(publication.attributes)
    if publication.payload:
        properties[USER] = [(name, _text(value)) for name, value in own.items() if value is not None]
        return publication.payload, properties
    properties.setdefault("content_type", JSON)
    return msgspec.json.encode(nested(own)), properties


def _text(value: AttributeValue) -> str:
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()[:65_535]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)[:65_535]


def topic_of(publication: Publication, template: str) -> str:
    """An event's own topic, or else one made from the template."""
    own = publication.attributes.get(TOPIC)
    if is_name(own):
        return str(own)

    def value(place: "re.Match[str]") -> str:
        name = place[1]
        found = publication.source if name == "source" else publication.attributes.get(name)
        return _NOT_IN_LEVEL.sub("_", _text(found)) if found is not None else "_"

    return _PLACE.sub(value, template)[:10_000]

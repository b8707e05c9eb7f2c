"""Addresses of buses: `nats://host:port` and the like, by which carrier rides on them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.carriers.carrier import BusCarrier
from holdfast.model.errors import InputError
from holdfast.model.extras import require
from holdfast.net.address import Address


@dataclass(frozen=True)
class BusKind:
    module: str  # the carrier's
    class_name: str
    package: str  # that it needs
    port: int  # where such a bus usually is
    prefixes: bool = False  # whether a pattern can ask for the beginning of a token
    selects: bool = False  # whether its server holds back events by selectors
    options: tuple[str, ...] = ()  # that may stand behind the question mark of an address


_KINDS = {
    "nats": BusKind("nats", "NatsCarrier", "nats", 4222),
    "nats+tls": BusKind("nats", "NatsCarrier", "nats", 4222),
    "mqtt": BusKind("mqtt", "MqttCarrier", "aiomqtt", 1883, options=("version", "qos")),
    "mqtts": BusKind("mqtt", "MqttCarrier", "aiomqtt", 8883, options=("version", "qos")),
    "redis": BusKind("redis", "RedisCarrier", "redis", 6379, prefixes=True),
    "rediss": BusKind("redis", "RedisCarrier", "redis", 6379, prefixes=True),
    "amqp": BusKind("rabbitmq", "RabbitCarrier", "aio_pika", 5672, options=("exchange",)),
    "amqps": BusKind("rabbitmq", "RabbitCarrier", "aio_pika", 5671, options=("exchange",)),
    "zenoh": BusKind("zenoh", "ZenohCarrier", "zenoh", 7447, prefixes=True),
    "stomp": BusKind("stomp", "StompCarrier", "stomp", 61613, selects=True),
}


@dataclass(frozen=True)
class BusAddress(Address):
    """Where a bus is. The text for people has no password in it."""

    kind: str = ""  # the scheme of the bus
    url: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.kind}://{self.host}:{self.port}{self.path}"

    @property
    def url_without_options(self) -> str:
        """What other clients of the bus take."""
        return self.url.partition("?")[0]

    @property
    def user(self) -> str | None:
        name = urlsplit(self.url).username
        return None if name is None else unquote(name)

    @property
    def password(self) -> str | None:
        word = urlsplit(self.url).password
        return None if word is None else unquote(word)

    def option(self, name: str, default: str) -> str:
        """What stands behind the question mark."""
        return dict(parse_qsl(urlsplit(self.url).query)).get(name, default)


def is_bus(address: object) -> bool:
    """Whether this is an address of somebody else's bus."""
    return isinstance(address, str) and address.partition("://")[0] in _KINDS


def bus_address(text: str) -> BusAddress:
    """An InputError when it is none."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not is_bus(text) or not host or not text.isprintable() or " " in text:
        kinds = ", ".join(f"{each}://" for each in _KINDS)
        raise InputError(f"{text!r} is not the address of a bus; write it as nats://host:port, with one of {kinds}")
    unknown = dict(parse_qsl(parts.query)).keys() - _KINDS[parts.scheme].options
    if unknown:
        known = ", ".join(_KINDS[parts.scheme].options) or "none"
        raise InputError(f"{text!r}: {', '.join(sorted(unknown))} is no option of such an address; there are {known}")
    return BusAddress("tcp", host, port or _KINDS[parts.scheme].port, parts.path, parts.scheme, text)


def features_of(kind: str) -> BusKind:
    """What a bus can do, by its name in a network file or by the scheme of its addresses."""
    by_name = {each.module: each for each in _KINDS.values()}
    found = by_name.get(kind) or _KINDS.get(kind)
    if found is None:
        raise InputError(f"{kind!r} is no carrier; there are {', '.join(by_name)}")
    return found


def carrier_of(address: BusAddress) -> Callable[[], BusCarrier]:
    """What makes connections to the bus at this address; a MissingExtraError when its client is not installed."""
    kind = _KINDS[address.kind]
    require(kind.package)
    made: type = getattr(import_module(f"holdfast.carriers.{kind.module}"), kind.class_name)
    return lambda: made(address)

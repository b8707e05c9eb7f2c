"""Addresses of buses: `nats://host:port` and the like, by which carrier rides on them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from urllib.parse import urlsplit

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


_NATS = BusKind("nats", "NatsCarrier", "nats", 4222)
_KINDS = {"nats": _NATS, "nats+tls": _NATS}


@dataclass(frozen=True)
class BusAddress(Address):
    """Where a bus is. The text for people has no password in it."""

    kind: str = ""  # the scheme of the bus
    url: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.kind}://{self.host}:{self.port}{self.path}"


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
        raise InputError(f"{text!r} is not the address of a bus; write it as nats://host:port")
    return BusAddress("tcp", host, port or _KINDS[parts.scheme].port, parts.path, parts.scheme, text)


def features_of(kind: str) -> BusKind:
    """What a bus can do, by the scheme of its addresses."""
    if kind not in _KINDS:
        raise InputError(f"{kind!r} is no carrier; there are {', '.join(_KINDS)}")
    return _KINDS[kind]


def carrier_of(address: BusAddress) -> Callable[[], BusCarrier]:
    """What makes connections to the bus at this address; a MissingExtraError when its client is not installed."""
    kind = _KINDS[address.kind]
    require(kind.package)
    made: type = getattr(import_module(f"holdfast.carriers.{kind.module}"), kind.class_name)
    return lambda: made(address)

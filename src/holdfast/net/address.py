"""Where a broker listens: `tcp://host:port`, `tls://` and `udp://` for brokers and clients of Holdfast.

`mqtt://`, `mqtts://`, `ws://host:port/path` and `wss://` are for clients of MQTT.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from holdfast.model.errors import InputError

Scheme = Literal["tcp", "tls", "udp", "mqtt", "mqtts", "ws", "wss"]
MQTT_SCHEMES = ("mqtt", "mqtts", "ws", "wss")
ENCRYPTED = ("tls", "mqtts", "wss")
_WEB = ("ws", "wss")

_PORT = re.compile(r":([0-9]{1,9})$")
_PORT_MAX = 65_535  # 16 bits, in TCP and UDP


@dataclass(frozen=True)
class Address:
    scheme: Scheme
    host: str
    port: int
    path: str = ""  # of a WebSocket

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def parse_address(text: str, to_dial: bool = False) -> Address:
    """Such as tcp://127.0.0.1:7001; an InputError when it is none, or when nobody can be dialled there."""
    wrong = f"{text!r} is not an address; write it as tcp://host:port, tls:// or udp://, or that of a bus, such as nats://host:port"
    wrong += "" if to_dial else "; mqtt://, mqtts:// and ws://host:port/mqtt are for MQTT clients"
    # urlsplit leaves out line ends and tabs, wherever they are.
    if not isinstance(text, str) or not text.isprintable() or " " in text:
        raise InputError(wrong)
    try:
        parts = urlsplit(text)
        scheme, host, written = parts.scheme, parts.hostname, _PORT.search(parts.netloc)
    except ValueError:
        raise InputError(wrong) from None
    if scheme not in get_args(Scheme) or not host or written is None or parts.netloc.count(":") > 1 + host.count(":"):
        raise InputError(wrong)
    if to_dial and scheme in MQTT_SCHEMES:
        raise InputError(
            f"{text!r}: MQTT clients dial this; brokers and clients of Holdfast dial tcp://, tls://, udp://"
        )
    if (
        (parts.path not in ("", "/") and scheme not in _WEB)
        or parts.query
        or parts.fragment
        or parts.username is not None
    ):
        raise InputError(wrong)
    port = int(written[1])
    if port > _PORT_MAX:
        raise InputError(f"{text!r}: there is no port {port}; ports go from 1 to {_PORT_MAX}")
    if to_dial and not port:
        raise InputError(f"{text!r}: port 0 cannot be dialled; write the port that the broker listens on")
    return Address(cast(Scheme, scheme), host, port, parts.path if scheme in _WEB else "")

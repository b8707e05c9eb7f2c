"""Where a broker listens: `tcp://host:port`, `tls://host:port` or `udp://host:port`."""

from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from holdfast.model.errors import InputError

Scheme = Literal["tcp", "tls", "udp"]


@dataclass(frozen=True)
class Address:
    scheme: Scheme
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Such as tcp://127.0.0.1:7001; an InputError when it is none."""
    wrong = f"{text!r} is not an address; write it as tcp://host:port, tls://host:port or udp://host:port"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InputError(wrong) from None
    if parts.scheme not in get_args(Scheme) or not parts.hostname or port is None:
        raise InputError(wrong)
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
        raise InputError(wrong)
    return Address(cast(Scheme, parts.scheme), parts.hostname, port)

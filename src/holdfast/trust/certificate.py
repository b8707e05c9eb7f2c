"""What a certificate says of its owner. The authority that signed it vouches for that; TLS has checked the signature.

A name of the type URI in the certificate (subjectAltName) says what the owner is, and its name: `holdfast:broker:b1`,
`holdfast:client:desk`. A name may end in `*`, for any name that begins so. A certificate without such a URI is for the
node that its common name (CN) gives, letter by letter, and does not say whether that is a broker. Organisational units
(OU) are groups.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.messages import NodeKind
from holdfast.trust.identity import Principal, may_be_called

Certificate = Mapping[str, Any]
"""A peer's certificate as Python's `ssl` gives it; empty when the peer has shown none, or none was asked for."""

_SCHEME = "holdfast:"


@dataclass(frozen=True)
class Certified:
    names: tuple[tuple[NodeKind | None, str], ...]  # what it may be, and how it may be called; None: it does not say
    groups: tuple[str, ...] = ()

    def identity(self, kind: NodeKind, node: str) -> Principal | None:
        """Who a node of this kind and name is; None when the certificate is for others."""
        for of, name in self.names:
            if of in (None, kind):
                if of is not None and name.endswith("*") and node.startswith(name[:-1]):
                    return Principal(node, self.groups)
                if node == name or (kind == "client" and may_be_called(name, node)):
                    return Principal(name, self.groups)
        return None

    @property
    def says_broker(self) -> bool:
        return any(of == "broker" for of, _ in self.names)

    @property
    def client_name(self) -> str | None:
        """What a client with this certificate may call itself; None when it leaves that open."""
        return next((name for of, name in self.names if of != "broker" and not name.endswith("*")), None)

    def __str__(self) -> str:
        return " or ".join(name if of is None else f"the {of} {name}" for of, name in self.names) or "nobody"


def certified(certificate: Certificate) -> Certified:
    subject = [pair for each in certificate.get("subject", ()) for pair in each]
    groups = tuple(value for key, value in subject if key == "organizationalUnitName")
    found: list[tuple[NodeKind | None, str]] = []
    for kind, uri in certificate.get("subjectAltName", ()):
        if kind == "URI" and uri.startswith(_SCHEME):
            what, _, name = uri.removeprefix(_SCHEME).partition(":")
            if name and what in ("broker", "client"):
                found.append((what, name))
    if not found:
        found = [(None, value) for key, value in subject if key == "commonName" and value]
    return Certified(tuple(found), groups)


def uri_of(kind: NodeKind, name: str) -> str:
    """How a certificate says what its owner is."""
    return f"{_SCHEME}{kind}:{name}"


def own_client_name(path: str) -> str | None:
    """What a client with the certificate in this file may call itself; None when it leaves that open."""
    # The parser that `ssl` uses for a peer's certificate. Only its tests call it by this name, but since Python 2.6.
    decode = getattr(ssl, "_ssl")._test_decode_cert  # noqa: B009
    try:
        return certified(decode(path)).client_name
    except (OSError, ssl.SSLError) as problem:
        raise InputError(f"bad certificate: {path}: {problem}") from None

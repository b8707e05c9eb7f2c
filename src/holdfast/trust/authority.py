"""An authority for development: certificates, tokens and a key for brokers, in one folder.

Real networks have an authority of their own. This one is for everybody else, so that nobody does without: its private
keys lie beside the certificates, readable by their owner alone. What is in the folder already is kept.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.extras import extras_named
from holdfast.model.messages import NodeKind
from holdfast.trust.certificate import uri_of
from holdfast.trust.shared_key import new_key
from holdfast.trust.signatures import with_signer

AUDIENCE = "holdfast"
ISSUER = "holdfast keys"
_SKEW = timedelta(minutes=5)  # by which the clocks of those who check may be behind
_AUTHORITY_DAYS = 3650


class DevelopmentAuthority:
    """Signs what a network needs to know its nodes by; everything lies in one folder."""

    def __init__(self, folder: Path, days: int) -> None:
        with extras_named():
            import cryptography.x509  # noqa: PLC0415
            import jwt  # noqa: PLC0415
        self._x509, self._jwt = cryptography.x509, jwt
        self._folder = folder
        self._now = datetime.now(UTC)
        self._until = self._now + timedelta(days=days)
        self.made: list[Path] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "broker.key").exists():
                self._write("broker.key", new_key().encode(), secret=True)
            self._key, self._certificate = self._authority()
            self._issuer = self._issuing_key()
        except OSError as problem:
            raise InputError(f"{folder}: {problem.strerror}") from None

    def _write(self, name: str, data: bytes, secret: bool = False) -> None:
        path = self._folder / name
        path.touch(mode=0o600 if secret else 0o644)
        path.write_bytes(data)
        self.made.append(path)

    # Certificates --------------------------------------------------------------------------------

    def _authority(self) -> tuple[Any, Any]:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        key_file, file = self._folder / "ca.key", self._folder / "ca.pem"
        if key_file.exists() and file.exists():
            key = load_pem_private_key(key_file.read_bytes(), None)
            return key, self._x509.load_pem_x509_certificate(file.read_bytes())
        key = self._new_key("ca.key")
        name = self._name("holdfast development authority", ())
        builder = self._builder(name, name, key, self._now + timedelta(days=_AUTHORITY_DAYS))
        builder = builder.add_extension(self._x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = self._x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
        certificate = self._signed(builder, key)
        self._write("ca.pem", _pem(certificate))
        return key, certificate

    def certify(self, kind: NodeKind, name: str, hosts: Sequence[str] = (), groups: Sequence[str] = ()) -> None:
        """A certificate and its key for a broker or a client: `NAME.pem` and `NAME.key`."""
        if (self._folder / f"{name}.pem").exists():
            return
        key = self._new_key(f"{name}.key")
        builder = self._builder(self._name(name, groups), self._certificate.subject, key, self._until)
        names = [self._x509.UniformResourceIdentifier(uri_of(kind, name)), *map(self._host, hosts)]
        builder = builder.add_extension(self._x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(self._x509.BasicConstraints(ca=False, path_length=None), critical=True)
        self._write(f"{name}.pem", _pem(self._signed(builder, self._key)))

    def _name(self, name: str, groups: Sequence[str]) -> Any:
        of = self._x509.oid.NameOID
        attributes = [(of.COMMON_NAME, name), *[(of.ORGANIZATIONAL_UNIT_NAME, each) for each in groups]]
        try:
            return self._x509.Name([self._x509.NameAttribute(oid, value) for oid, value in attributes])
        except ValueError as problem:  # such as more than 64 characters
            raise InputError(f"{name}: no certificate can have this name: {problem}") from None

    def _host(self, host: str) -> Any:
        try:
            return self._x509.IPAddress(ip_address(host))
        except ValueError:
            return self._x509.DNSName(host)

    def _builder(self, subject: Any, issuer: Any, key: Any, until: datetime) -> Any:
        builder = self._x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        builder = builder.public_key(key.public_key()).serial_number(self._x509.random_serial_number())
        return builder.not_valid_before(self._now - _SKEW).not_valid_after(until)

    def _signed(self, builder: Any, key: Any) -> Any:
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

        return builder.sign(key, SHA256())

    def _new_key(self, file: str) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key  # noqa: PLC0415

        key = generate_private_key(SECP256R1())
        self._write(file, _private_pem(key), secret=True)
        return key

    # Signatures ----------------------------------------------------------------------------------

    def add_signer(self, name: str) -> None:
        """A key that a publisher signs with, `NAME.sign`, and the public one in `signers.json`."""
        if (self._folder / f"{name}.sign").exists():
            return
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        key, signers = Ed25519PrivateKey.generate(), self._folder / "signers.json"
        self._write(f"{name}.sign", _private_pem(key), secret=True)
        self._write("signers.json", with_signer(signers, name, key.public_key().public_bytes_raw()).encode())

    # Tokens --------------------------------------------------------------------------------------

    def _issuing_key(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        file = self._folder / "issuer.key"
        if file.exists():
            return load_pem_private_key(file.read_bytes(), None)
        key = Ed25519PrivateKey.generate()
        self._write("issuer.key", _private_pem(key), secret=True)
        public = urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
        jwk = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "x": public}
        keys = {"iss": ISSUER, "aud": AUDIENCE, "keys": [jwk]}
        self._write("issuer.json", f"{json.dumps(keys, indent=2)}\n".encode())
        return key

    def issue(self, name: str, groups: Sequence[str] = ()) -> None:
        """A token for a client: `NAME.token`; a new one each time, because tokens expire."""
        claims = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": self._now - _SKEW, "exp": self._until}
        if groups:
            claims["groups"] = list(groups)
        token = self._jwt.encode(claims, self._issuer, "EdDSA", headers={"kid": "1"})
        self._write(f"{name}.token", f"{token}\n".encode(), secret=True)


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    encoded: bytes = certificate.public_bytes(Encoding.PEM)
    return encoded


def _private_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    encoded: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return encoded

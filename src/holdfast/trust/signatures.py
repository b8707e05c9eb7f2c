"""Signatures of publishers: Ed25519 (RFC 8032), a private key in a file of the publisher, public ones in a file of all.

The file of signers is JSON: names, each with its keys, `{"feed": ["base64..."]}`. A name stands for itself and for all
names below it. To change a key, add the new one behind the old one in every file of signers, give the publisher the new
private key, and take the old one out when nothing that it has signed is on its way any more. The file is looked at with
every signature that is checked, so nobody has to be restarted for it.
"""

import json
import os
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.extras import extras_named
from holdfast.model.warn_once import warn_once

_KEYS_MAX = 16  # of one name: each is tried with a signature that is wrong, a tenth of a millisecond


def read_signing_key(path: str | Path) -> Callable[[bytes], bytes]:
    """What signs with the private key of a file (PEM); an InputError when there is none in it."""
    with extras_named():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    try:
        key = load_pem_private_key(Path(path).read_bytes(), None)
    except (OSError, ValueError, TypeError) as problem:
        raise InputError(f"signing key {path}: cannot be read: {problem}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"signing key {path}: expected a key of Ed25519; `holdfast keys DIR --signer NAME` makes one")
    return key.sign


class Signers:
    """Who may have signed what, by a file; an InputError when that is no good at first."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._stamp = _stamp(self._path)
        self._keys = _read(self._path)

    def knows(self, source: str) -> bool:
        return bool(self._of(source))

    def verify(self, source: str, text: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # an extra, looked for by `_read`

        self._look()
        for key in self._of(source):
            try:
                key.verify(signature, text)
            except InvalidSignature:
                continue
            return True
        return False

    def _of(self, source: str) -> list[Any]:
        """Its keys: those of its own name, or of the nearest above."""
        name = source
        while name not in self._keys and "." in name:
            name = name.rpartition(".")[0]
        return self._keys.get(name, [])

    def _look(self) -> None:
        """Read the file again if it has changed; as long as it is no good, the keys stay as they are."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = _read(self._path)
        except InputError as problem:
            warn_once(f"{problem}; the signers stay as they were")


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> dict[str, list[Any]]:
    with extras_named():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    found: dict[str, list[Any]] = {}
    for name, keys in signers_in(path).items():
        try:
            found[name] = [Ed25519PublicKey.from_public_bytes(b64decode(each, validate=True)) for each in keys]
        except (Error, ValueError):
            raise InputError(f"signers {path}: {name} has a key that is none of Ed25519 in base64") from None
    return found


def signers_in(path: Path) -> dict[str, list[str]]:
    """The public keys in a file, as they stand there."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(f"signers {path}: cannot be read: {problem}") from None
    if not isinstance(given, Mapping):
        raise InputError(f'signers {path}: expected names with lists of keys, {{"feed": ["..."]}}')
    for name, keys in given.items():
        if not isinstance(keys, list) or not all(isinstance(each, str) for each in keys) or len(keys) > _KEYS_MAX:
            raise InputError(f"signers {path}: {name}: expected a list of at most {_KEYS_MAX} keys in base64")
    return dict(given)


def with_signer(path: Path, name: str, public: bytes) -> str:
    """The text of a file of signers with one more key."""
    known = signers_in(path) if path.exists() else {}
    known[name] = [*known.get(name, []), b64encode(public).decode()]
    return f"{json.dumps(known, indent=2)}\n"

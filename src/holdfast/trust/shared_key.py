"""A key that all brokers of a network share, and how one proves that it has it without saying it.

Who is dialled sends a challenge: bytes that were never used before. Who dials answers with a MAC over the challenge and
over what it says of itself, and gets one back over bytes that it has chosen. So nobody can repeat an answer that was
heard earlier, and nobody can send a broker its own words back. The key proves who greets. It does not protect what
follows on a connection without TLS: who can change that underway needs no key.

The file has one key a line, in hexadecimal digits. The first is used, all are accepted: to change the key, add a new
one below in all files, then move it up, then take the old one out, with a SIGHUP each time.
"""

import hmac
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex

from holdfast.model.errors import InputError

NONCE_BYTES = 16
_KEY_BYTES_MIN = 16
_KEY_BYTES = 32


class SharedKeys:
    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    def proof(self, about: Sequence[bytes]) -> bytes:
        """That we have the key, bound to these words."""
        return _mac(self._keys[0], about)

    def proves(self, proof: bytes, about: Sequence[bytes]) -> bool:
        """Whether this is a proof by any of the keys."""
        found = [hmac.compare_digest(_mac(each, about), proof) for each in self._keys]
        return any(found)


def _mac(key: bytes, about: Sequence[bytes]) -> bytes:
    # Each part behind its length: two lists of parts never give the same bytes.
    return hmac.digest(key, b"".join(len(each).to_bytes(4, "big") + each for each in about), "sha256")


def read_keys(path: Path) -> SharedKeys:
    return SharedKeys(read_key_lines(path, "broker key"))


def read_key_lines(path: Path, what: str) -> list[bytes]:
    """The keys in a file; an InputError that names the line that is none."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{what} {path}: cannot be read: {problem}") from None
    keys: list[bytes] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            key = bytes.fromhex(text)
        except ValueError:
            raise InputError(f"{what} {path}, line {number}: expected hexadecimal digits") from None
        if len(key) < _KEY_BYTES_MIN:
            least = 2 * _KEY_BYTES_MIN
            raise InputError(f"{what} {path}, line {number}: {2 * len(key)} digits; it needs {least} or more")
        keys.append(key)
    if not keys:
        raise InputError(f"{what} {path}: there is no key in it; `holdfast keys` makes one")
    return keys


def new_key() -> str:
    """The text of a new file."""
    return f"{token_hex(_KEY_BYTES)}\n"

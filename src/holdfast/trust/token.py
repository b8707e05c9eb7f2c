"""Tokens of clients: JSON Web Tokens (RFC 7519), checked with the public keys of those who may issue them.

The file of keys is a JWK set (RFC 7517). Two more members of it are ours: `iss` and `aud`, which every token must then
have. A token says who the client is (`sub`), until when (`exp`) and, if it likes, of which `groups`. A key fixes its
own algorithm: what a token says of that is not believed.
"""

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError, PeerError
from holdfast.model.extras import extras_named
from holdfast.model.limits import NAME_CHARACTERS_MAX
from holdfast.trust.identity import Principal, is_nobodys

_LEEWAY_S = 5  # by which clocks may differ
_ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}  # of a key that does not name its own
_KEYS_MAX = 100  # in a file; a token that does not name its key is tried with each
_GROUPS_MAX = 100
_FOREVER_S = 2**53  # a number of seconds; larger ones do not fit into a float


class TokenKeys:
    """The keys of those who may issue tokens, and what else a token of theirs has to say."""

    def __init__(self, keys: list[tuple[str, str, Any]], issuer: str | None, audience: str | None) -> None:
        self._keys = keys  # its name (`kid`), its algorithm, and the key
        self._issuer = issuer
        self._audience = audience

    def identity_untrusted(self, token: str) -> Principal:
        """Who the token says that its owner is; raises only PeerError, with the reason."""
        import jwt  # noqa: PLC0415  # an extra, looked for when the file of keys was read

        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except (jwt.PyJWTError, ValueError) as problem:  # of texts that are no UTF-8 as well
            raise PeerError(f"no token: {problem}") from None
        why = "no known key has signed it"
        for name, algorithm, key in self._keys:
            if kid is not None and name and kid != name:
                continue
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=self._audience,
                    issuer=self._issuer,
                    leeway=_LEEWAY_S,
                    options={"require": ["exp", "sub"], "verify_aud": self._audience is not None},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
                continue
            except jwt.PyJWTError as problem:
                why = str(problem)
                continue
            return _identity_untrusted(claims)
        raise PeerError(f"its token is not valid: {why}")


def _identity_untrusted(claims: Mapping[str, Any]) -> Principal:
    name, groups = claims["sub"], claims.get("groups", [])
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX or is_nobodys(name):
        raise PeerError("its token is not valid: `sub` is not the name of a client")
    if not isinstance(groups, list) or len(groups) > _GROUPS_MAX or not all(isinstance(each, str) for each in groups):
        raise PeerError("its token is not valid: `groups` is not a list of names")
    return Principal(name, tuple(groups), float(min(int(claims["exp"]), _FOREVER_S)))


def read_token_keys(path: Path) -> TokenKeys:
    """The keys in a file; an InputError when it has none, or one that cannot be used."""
    with extras_named():
        import jwt  # noqa: PLC0415
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(f"token keys {path}: cannot be read: {problem}") from None
    listed = given.get("keys") if isinstance(given, dict) else None
    if not isinstance(listed, list) or not 0 < len(listed) <= _KEYS_MAX:
        raise InputError(f'token keys {path}: expected a JWK set, {{"keys": [...]}}, of 1 to {_KEYS_MAX} keys')
    keys: list[tuple[str, str, Any]] = []
    for at, each in enumerate(listed, 1):
        try:
            algorithm = each.get("alg") or _ALGORITHMS[each["kty"]]
            keys.append((str(each.get("kid", "")), algorithm, jwt.PyJWK(each, algorithm).key))
        except (AttributeError, KeyError, TypeError, ValueError, jwt.PyJWTError) as problem:
            raise InputError(f"token keys {path}: key {at} cannot be used: {problem}") from None
    for member in ("iss", "aud"):
        if not isinstance(given.get(member, ""), str):
            raise InputError(f"token keys {path}: {member} must be a text")
    return TokenKeys(keys, given.get("iss"), given.get("aud"))


def read_token(path: str) -> str:
    """The token in a file."""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"token {path}: cannot be read: {problem}") from None


def own_name(token: str) -> str | None:
    """What a client with this token may call itself, by what the token says; None when it cannot be read.

    Its broker checks the token. The client only needs a name that goes with it.
    """
    try:
        middle = token.split(".")[1]
        name = json.loads(urlsafe_b64decode(middle + "=" * (-len(middle) % 4))).get("sub")
    except (IndexError, ValueError, AttributeError, binascii.Error):
        return None
    return name if isinstance(name, str) and name else None

"""Cookies: whoever dials over datagrams shows first that it gets what is sent to its address.

Addresses of datagrams can be forged. A cookie is a MAC over the address and over what the other end has drawn, with a
secret of this process; so nothing need be remembered about whom it was sent to, and only who got it can send it back.
It is valid for ten to twenty seconds.
"""

import hmac
from collections.abc import Callable
from secrets import token_bytes
from time import monotonic

COOKIE_BYTES = 16
NONCE_BYTES = 8
_PERIOD_S = 10  # a greeting takes five seconds at most


class Cookies:
    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._secret = token_bytes(32)
        self._now_s = now_s

    def of(self, address: object, nonce: bytes) -> bytes:
        return self._made(address, nonce, self._period)

    def is_valid(self, cookie: bytes, address: object, nonce: bytes) -> bool:
        periods = self._period, self._period - 1
        return any([hmac.compare_digest(self._made(address, nonce, each), cookie) for each in periods])

    @property
    def _period(self) -> int:
        return int(self._now_s() // _PERIOD_S)

    def _made(self, address: object, nonce: bytes, period: int) -> bytes:
        return hmac.digest(self._secret, f"{period} {address}".encode() + nonce, "sha256")[:COOKIE_BYTES]

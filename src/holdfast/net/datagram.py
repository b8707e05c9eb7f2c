"""What a datagram is, by its first byte. A frame of the protocol travels in two of them.

    OPEN    nonce, padding          who dials: I draw this; send me a cookie
    COOKIE  nonce, cookie           the answer, for which nobody remembers anything
    FIRST   nonce, cookie, frame    who dials, until it is answered with a TAGGED
    TAGGED  tag, frame              all that follows, in either direction
    RESET   tag                     to who sends what belongs to no wire: you were forgotten, greet again

A tag is the first half of the cookie on the way to whom was dialled, and the nonce on the way back. Who can read
neither on the way can send nothing that is accepted, and so cannot end what others have either. No answer is longer
than what it answers.
"""

from typing import Final

from holdfast.trust.cookie import COOKIE_BYTES, NONCE_BYTES

OPEN: Final = 0xF1  # none of these begins a frame, which the version of the protocol does
COOKIE: Final = 0xF2
FIRST: Final = 0xF3
TAGGED: Final = 0xF4
RESET: Final = 0xF5

TAG_BYTES: Final = 8
HEAD_BYTES: Final = 1 + TAG_BYTES
_FIRST_BYTES = 1 + NONCE_BYTES + COOKIE_BYTES
_OPEN_BYTES = 64  # more than a cookie takes

assert NONCE_BYTES == TAG_BYTES


def opening(nonce: bytes) -> bytes:
    return bytes([OPEN]) + nonce.ljust(_OPEN_BYTES - 1, b"\0")


def asks_for_cookie(datagram: memoryview) -> bool:
    """Whether it is long enough to be answered."""
    return datagram[0] == OPEN and len(datagram) >= _OPEN_BYTES


def nonce_of(datagram: memoryview) -> bytes:
    return bytes(datagram[1 : 1 + NONCE_BYTES])


def cookie_in(datagram: memoryview) -> bytes:
    return bytes(datagram[1 + NONCE_BYTES : _FIRST_BYTES])


def with_cookie(nonce: bytes, cookie: bytes) -> bytes:
    return bytes([COOKIE]) + nonce + cookie


def first(nonce: bytes, cookie: bytes, frame: bytes) -> bytes:
    return bytes([FIRST]) + nonce + cookie + frame


def frame_of_first(datagram: memoryview) -> memoryview:
    return datagram[_FIRST_BYTES:]


def head(tag: bytes) -> bytes:
    """How a tagged datagram begins."""
    return bytes([TAGGED]) + tag


def reset(datagram: memoryview) -> bytes:
    """The answer to a tagged datagram of nobody."""
    return bytes([RESET]) + bytes(datagram[1:HEAD_BYTES])

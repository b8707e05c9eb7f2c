"""Records that only clients who share a key can read: whoever else sees a digest learns that there are events.

A record is encrypted under a tag of itself and of what it is about (its source, its numbers, its time), so that nobody
without the key can read one, change one, or make one up; the same record gives the same bytes, and no random numbers
are needed. That is the construction called SIV, with keyed BLAKE2b as its function. What is not hidden: who tells, its
numbers and times, and how long the record is.
"""

from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from holdfast.model.errors import PeerError

_TAG_BYTES = 16
_BLOCK_BYTES = 64  # of the key stream: what BLAKE2b gives at once
_TAG, _STREAM = b"record tag", b"record stream"  # what a key is used for: never one for the other

_encode = msgspec.msgpack.Encoder().encode


class Blinding:
    def __init__(self, keys: Sequence[bytes]) -> None:
        """The first blinds, all open: so a key can be changed while others still use the old one."""
        self._keys = [(blake2b(key, person=_TAG).digest(), blake2b(key, person=_STREAM).digest()) for key in keys]

    def blinded(self, record: bytes, source: str, *about: int) -> bytes:
        for_tag, for_stream = self._keys[0]
        tag = _tag(for_tag, record, source, about)
        return tag + _masked(for_stream, tag, record)

    def opened_untrusted(self, data: bytes, source: str, *about: int) -> bytes:
        """The record, if it is of this source and about this; raises only PeerError."""
        tag, masked = data[:_TAG_BYTES], data[_TAG_BYTES:]
        for for_tag, for_stream in self._keys:
            record = _masked(for_stream, tag, masked)
            if compare_digest(_tag(for_tag, record, source, about), tag):
                return record
        raise PeerError("a record that nobody with our key has made")


def _tag(key: bytes, record: bytes, source: str, about: Sequence[int]) -> bytes:
    return blake2b(_encode((source, about, record)), key=key, digest_size=_TAG_BYTES).digest()


def _masked(key: bytes, tag: bytes, data: bytes) -> bytes:
    """Twice gives the same bytes again."""
    count = -(-len(data) // _BLOCK_BYTES)
    stream = b"".join([blake2b(tag + at.to_bytes(4), key=key).digest() for at in range(count)])[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(len(data))

"""Attributes that are MessagePack already, as they go into a batch: an event is encoded once, where it is published."""

from collections.abc import Sequence

from msgspec import Raw


def array_head(length: int) -> bytes:
    """How an array of so many begins."""
    if length < 16:
        return bytes([0x90 | length])
    if length < 2**16:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")


def joined(encoded: Sequence[bytes | Raw]) -> Raw:
    """The attributes of several events as one array: one object, however many they are."""
    return Raw(b"".join((array_head(len(encoded)), *encoded)))

"""Proofs that events are their publisher's: one signature for all that leave together, and a proof in each of them.

The events of a run are the leaves of a hash tree, and its root is signed. An event carries the signature and the hashes
beside its way to the root, in an attribute of its own. So it can be checked alone, whatever way it comes: in a part of
its batch, by a repair, out of a store. What is signed is the source, the number, the time, the lifetime, the attributes
and the payload; not what brokers and recovery add.

Whoever checks remembers which blocks of hashes it has traced to a signature: of a run it checks one signature, and of
most events one hash. Keys and signatures themselves are somebody else's (`trust/signatures`).
"""

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from struct import Struct

import msgspec

from holdfast.model.event import SIGNATURE
from holdfast.model.messages import AttributeValue
from holdfast.protocol.parts import Sign, Verify

_SIGNED = b"holdfast run 1\0"  # before what is signed: the key is of no use for anything else
_LEAF, _NODE = b"\0", b"\1"  # before what is hashed: no block of hashes passes for an event
# Of a hash. Two contents of one hash would take 2**64 tries to find, but who looks for them does not know the number
# and the time that the publisher will hash with them; and another content for a given hash takes 2**128.
_HASH = 16
_WAYS = 4  # branches of a node: with two a proof is a third shorter, and takes three times as many hashes to check
_BLOCK = _WAYS * _HASH
_BESIDE = _BLOCK - _HASH
_DEPTH_MAX = 6  # levels: 4,096 events, as many as leave together
_VERSION = 1
_SIGNATURE_BYTES = 64  # Ed25519
_HEAD = Struct(">BHB")  # version, place, depth
_HEAD_BYTES = _HEAD.size
_KNOWN_MAX = 65_536  # hashes and blocks of them that are remembered: of 48,000 events, in 8 MB; then all are forgotten

_encode = msgspec.msgpack.Encoder().encode


SignedEvent = tuple[int, int, int | None, bytes, bytes]  # what `leaf_of` takes


def prove(source: str, events: Sequence[SignedEvent], sign: Sign) -> list[str]:
    """A proof for each event of a run."""
    leaves = [leaf_of(*each) for each in events]
    levels = [_padded(b"".join(leaves))] if len(leaves) > 1 else []
    while levels and len(levels[-1]) > _BLOCK:
        levels.append(_padded(b"".join(map(_node, _blocks(levels[-1])))))
    signature = sign(_signed_text(source, _node(levels[-1]) if levels else leaves[0]))
    depth, proofs = len(levels), list[str]()
    if not levels:
        return [_text(_HEAD.pack(_VERSION, 0, 0) + signature)]
    for first, block in zip(range(0, len(leaves), _WAYS), _blocks(levels[0]), strict=True):
        above = b"".join([_beside(level, first // _WAYS**up) for up, level in enumerate(levels[1:], 1)])
        others = block[_HASH:], block[:_HASH] + block[2 * _HASH :], block[: -2 * _HASH] + block[-_HASH:], block[:-_HASH]
        for at, beside in zip(range(first, len(leaves)), others, strict=False):
            proofs.append(_text(b"".join((_HEAD.pack(_VERSION, at, depth), signature, beside, above))))
    return proofs


class ProofChecker:
    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._known: dict[str, set[bytes]] = {}  # by source: what one has signed says nothing about another's events
        self._count = 0

    def check(self, source: str, leaf: bytes, proof: object) -> bool:
        """Whether an event is its source's, by its hash and the proof that came with it."""
        known = self._known.get(source, _NONE)
        return leaf in known or self._trace(source, leaf, proof, known)

    def _trace(self, source: str, leaf: bytes, proof: object, known: set[bytes]) -> bool:
        """From the leaf to something that is known, or to the signature."""
        try:
            given = a2b_base64(proof) if type(proof) is str else b""
        except (Error, ValueError):
            return False
        if len(given) < _HEAD_BYTES + _SIGNATURE_BYTES or given[0] != _VERSION:
            return False
        _, place, depth = _HEAD.unpack_from(given)
        if depth > _DEPTH_MAX or len(given) != _HEAD_BYTES + _SIGNATURE_BYTES + depth * _BESIDE:
            return False
        node, at, passed = leaf, _HEAD_BYTES + _SIGNATURE_BYTES, list[bytes]()
        for _ in range(depth):
            split = at + place % _WAYS * _HASH
            block = given[at:split] + node + given[split : at + _BESIDE]
            if block in known:
                if node is leaf:  # somebody gets several of a block: the next are found at once
                    passed = [block[begin : begin + _HASH] for begin in range(0, _BLOCK, _HASH)]
                break
            passed.append(block)
            node, at, place = _node(block), at + _BESIDE, place // _WAYS
        else:
            signature = given[_HEAD_BYTES : _HEAD_BYTES + _SIGNATURE_BYTES]
            signed = signature + node
            if signed not in known:
                if not self._verify(source, _signed_text(source, node), signature):
                    return False
                passed.append(signed)
        if passed:
            self._remember(source, passed)
        return True

    def forget(self) -> None:
        """The keys have changed: what was signed with one that is gone is worth nothing any more."""
        self._known.clear()
        self._count = 0

    def _remember(self, source: str, blocks: list[bytes]) -> None:
        if self._count + len(blocks) > _KNOWN_MAX:
            self.forget()
        self._known.setdefault(source, set()).update(blocks)
        self._count += len(blocks)


_NONE: set[bytes] = set()


def without_proof(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """A copy; brokers and simulators hand the same attributes to many."""
    plain = dict(attributes)
    plain.pop(SIGNATURE, None)
    return plain


def encoded_plain(attributes: Mapping[str, AttributeValue]) -> bytes:
    """Attributes without a proof as whoever published them has encoded them: the order of names is kept on the way."""
    return _encode(attributes)


def with_proof(encoded: bytes, proof: str) -> bytes:
    """Encoded attributes with one more, the proof; they are not decoded for it."""
    first = encoded[0]
    if first < 0x8F:
        head, rest = bytes((first + 1,)), encoded[1:]
    elif first == 0x8F:
        head, rest = b"\xde\x00\x10", encoded[1:]
    else:  # a map of 16 bits: more names an event cannot have
        head, rest = b"\xde" + (int.from_bytes(encoded[1:3]) + 1).to_bytes(2), encoded[3:]
    return b"".join((head, rest, _NAME, _encode(proof)))


_NAME = _encode(SIGNATURE)


def _signed_text(source: str, root: bytes) -> bytes:
    return _SIGNED + _encode((source, root))


def leaf_of(seq: int, time_us: int, lifetime_us: int | None, payload: bytes, attributes: bytes) -> bytes:
    """The hash of what is signed of an event; the attributes are encoded, without a proof."""
    # Values of MessagePack end where they say, so that two events never are the same bytes.
    return sha256(_LEAF + _encode((seq, time_us, lifetime_us, payload)) + attributes).digest()[:_HASH]


def _text(proof: bytes) -> str:
    return b2a_base64(proof, newline=False).decode()


def _node(block: bytes) -> bytes:
    return sha256(_NODE + block).digest()[:_HASH]


def _padded(level: bytes) -> bytes:
    return level + bytes(-len(level) % _BLOCK)


def _blocks(level: bytes) -> list[bytes]:
    return [level[begin:end] for begin, end in pairwise(range(0, len(level) + 1, _BLOCK))]


def _beside(level: bytes, at: int) -> bytes:
    """The other hashes of the block that a node is in."""
    begin, place = at // _WAYS * _BLOCK, at * _HASH
    return level[begin:place] + level[place + _HASH : begin + _BLOCK]

"""Proofs that events are their publisher's: one signature for all that leave together.

The events of a run are the leaves of a hash tree, and its root is signed (`model/hash_tree`). In a batch they share one
proof. Alone, an event carries one of its own, in an attribute: so it can be checked whatever way it comes, by a repair
or out of a store. What is signed is the source, the number, the time, the lifetime, the attributes and the payload; not
what brokers and recovery add.

Whoever checks remembers what it has traced to a signature: of a run it checks one signature, and of each event one
hash. Keys and signatures themselves are somebody else's (`trust/signatures`).
"""

from binascii import Error, a2b_base64
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from holdfast.model import hash_tree
from holdfast.model.event import SIGNATURE
from holdfast.model.hash_tree import (
    BESIDE_BYTES,
    BLOCK_BYTES,
    DEPTH_MAX,
    HASH_BYTES,
    HEAD,
    SIGNATURE_BYTES,
    VERSION,
    WAYS,
    node_of,
)
from holdfast.model.messages import AttributeValue
from holdfast.protocol.parts import Sign, Verify

_SIGNED = b"holdfast run 1\0"  # before what is signed: the key is of no use for anything else
_LEAF = b"\0"  # before an event that is hashed: none passes for a block of hashes
_HASHES = HEAD.size + SIGNATURE_BYTES  # where they begin in a proof
_KNOWN_MAX = 65_536  # hashes and blocks of them that are remembered: of 48,000 events, in 8 MB; then all are forgotten

_encode = msgspec.msgpack.Encoder().encode


SignedEvent = tuple[int, int, int | None, bytes, bytes]  # what `leaf_of` takes


def prove(source: str, events: Sequence[SignedEvent], sign: Sign) -> list[str]:
    """A proof for each event of a run."""
    leaves = b"".join([leaf_of(*each) for each in events])
    levels = hash_tree.levels_of(leaves)
    signature = sign(_signed_text(source, hash_tree.root_of(leaves, levels)))
    return [hash_tree.proof_at(place, levels, signature) for place in range(len(events))]


def prove_together(source: str, events: Sequence[SignedEvent], sign: Sign) -> bytes:
    """The proof that a run shares; its numbers follow one another."""
    leaves = b"".join([leaf_of(*each) for each in events])
    root = hash_tree.root_of(leaves, hash_tree.levels_of(leaves))
    return hash_tree.shared_proof(events[0][0], sign(_signed_text(source, root)), leaves)


class ProofChecker:
    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._known: dict[str, set[bytes]] = {}  # by source: what one has signed says nothing about another's events
        self._count = 0

    def check(self, source: str, leaf: bytes, proof: object) -> bool:
        """Whether an event is its source's, by its hash and the proof that came with it."""
        known = self._known.get(source, _NONE)
        return leaf in known or self._trace(source, leaf, proof, known)

    def check_together(self, source: str, leaves: Sequence[bytes], shared: bytes) -> list[bool]:
        """Which of these events are their source's, by their hashes and the proof that they share."""
        opened = hash_tree.opened_untrusted(shared)
        if opened is None:
            return [False] * len(leaves)
        _, signature, signed = opened
        if not self._is_signed(source, hash_tree.root_of(signed, hash_tree.levels_of(signed)), signature):
            return [False] * len(leaves)
        if signed == b"".join(leaves):
            return [True] * len(leaves)
        genuine = {signed[at : at + HASH_BYTES] for at in range(0, len(signed), HASH_BYTES)}
        return [leaf in genuine for leaf in leaves]

    def _trace(self, source: str, leaf: bytes, proof: object, known: set[bytes]) -> bool:
        """From the leaf to something that is known, or to the signature."""
        try:
            given = a2b_base64(proof) if type(proof) is str else b""
        except (Error, ValueError):
            return False
        if len(given) < _HASHES or given[0] != VERSION:
            return False
        _, place, depth = HEAD.unpack_from(given)
        if depth > DEPTH_MAX or len(given) != _HASHES + depth * BESIDE_BYTES:
            return False
        node, at, passed = leaf, _HASHES, list[bytes]()
        for _ in range(depth):
            split = at + place % WAYS * HASH_BYTES
            block = given[at:split] + node + given[split : at + BESIDE_BYTES]
            if block in known:
                if node is leaf:  # somebody gets several of a block: the next are found at once
                    passed = [block[begin : begin + HASH_BYTES] for begin in range(0, BLOCK_BYTES, HASH_BYTES)]
                break
            passed.append(block)
            node, at, place = node_of(block), at + BESIDE_BYTES, place // WAYS
        else:
            if not self._is_signed(source, node, given[HEAD.size : _HASHES]):
                return False
        if passed:
            self._remember(source, passed)
        return True

    def _is_signed(self, source: str, root: bytes, signature: bytes) -> bool:
        signed = signature + root
        if signed not in self._known.get(source, _NONE):
            if not self._verify(source, _signed_text(source, root), signature):
                return False
            self._remember(source, [signed])
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
    return sha256(_LEAF + _encode((seq, time_us, lifetime_us, payload)) + attributes).digest()[:HASH_BYTES]

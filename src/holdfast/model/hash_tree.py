"""A hash tree over events that left together, signed once: a proof that all of them share, or one for each alone.

The proof that a batch shares is the number of the first event, the signature and the hashes of all events of the run:
whoever gets some of them puts the tree together and checks one signature. A proof for one event alone is the signature
and the hashes beside its way to the root, in an attribute of its own. Brokers make it from the shared one where a batch
is taken apart, without a key. Nothing here signs or verifies (`protocol/proofs`).
"""

from binascii import b2a_base64
from collections.abc import Sequence
from hashlib import sha256
from struct import Struct
from typing import Any

from holdfast.model.event import SIGNATURE
from holdfast.model.limits import BATCH_EVENTS_MAX

# Of a hash. Two contents of one hash would take 2**64 tries to find, but who looks for them does not know the number
# and the time that the publisher will hash with them; and another content for a given hash takes 2**128.
HASH_BYTES = 16
WAYS = 4  # branches of a node: with two a proof is a third shorter, and takes three times as many hashes to check
BLOCK_BYTES = WAYS * HASH_BYTES
BESIDE_BYTES = BLOCK_BYTES - HASH_BYTES
DEPTH_MAX = 6  # levels: 4,096 events, as many as leave together
SIGNATURE_BYTES = 64  # Ed25519
VERSION = 1
HEAD = Struct(">BHB")  # of a proof for one event: version, place, depth
_SHARED = Struct(f">BQ{SIGNATURE_BYTES}s")  # of one for many: version, number of the first event, signature
SHARED_BYTES_MAX = _SHARED.size + HASH_BYTES * BATCH_EVENTS_MAX
_NODE = b"\1"  # before a block of hashes: none passes for an event, which has another byte there


def node_of(block: bytes) -> bytes:
    return sha256(_NODE + block).digest()[:HASH_BYTES]


def levels_of(leaves: bytes) -> list[bytes]:
    """From the leaves up, each filled with zeros to whole blocks; none where there is one leaf."""
    levels = [leaves] if len(leaves) > HASH_BYTES else []
    while levels:
        level = levels[-1] = levels[-1] + bytes(-len(levels[-1]) % BLOCK_BYTES)
        if len(level) == BLOCK_BYTES:
            break
        levels.append(b"".join([node_of(level[at : at + BLOCK_BYTES]) for at in range(0, len(level), BLOCK_BYTES)]))
    return levels


def root_of(leaves: bytes, levels: list[bytes]) -> bytes:
    return node_of(levels[-1]) if levels else leaves


def proof_at(place: int, levels: list[bytes], signature: bytes) -> str:
    """For one event alone."""
    parts, at = [HEAD.pack(VERSION, place, len(levels)), signature], place
    for level in levels:
        begin, own = at // WAYS * BLOCK_BYTES, at * HASH_BYTES
        parts += (level[begin:own], level[own + HASH_BYTES : begin + BLOCK_BYTES])
        at //= WAYS
    return b2a_base64(b"".join(parts), newline=False).decode()


# A proof for many --------------------------------------------------------------------------------


def shared_proof(first: int, signature: bytes, leaves: bytes) -> bytes:
    return _SHARED.pack(VERSION, first, signature) + leaves


def opened_untrusted(shared: bytes) -> tuple[int, bytes, bytes] | None:
    """The number of the first event, the signature and the hashes; None if these bytes are no proof."""
    if len(shared) <= _SHARED.size or (len(shared) - _SHARED.size) % HASH_BYTES or shared[0] != VERSION:
        return None
    _, first, signature = _SHARED.unpack_from(shared)
    return first, signature, shared[_SHARED.size :]


def apart(shared: bytes, seqs: Sequence[int]) -> list[str]:
    """A proof for each of these events alone; an empty one where there is none."""
    opened = opened_untrusted(shared)
    if opened is None:
        return [""] * len(seqs)
    first, signature, leaves = opened
    levels, count = levels_of(leaves), len(leaves) // HASH_BYTES
    return [proof_at(seq - first, levels, signature) if 0 <= seq - first < count else "" for seq in seqs]


def proved(events: Sequence[dict[str, Any]], shared: bytes, seqs: Sequence[int]) -> tuple[dict[str, Any], ...]:
    """The attributes of events, each with a proof of its own; copies, for others may have the same objects."""
    proofs = apart(shared, seqs)
    return tuple([{**attributes, SIGNATURE: proof} for attributes, proof in zip(events, proofs, strict=True)])


def is_shorter_apart(shared: bytes, count: int) -> bool:
    """Whether proofs for so many events take less than the one that they share."""
    depth, nodes = 0, (len(shared) - _SHARED.size) // HASH_BYTES
    while nodes > 1:
        depth, nodes = depth + 1, -(-nodes // WAYS)
    return count * 4 * (HEAD.size + SIGNATURE_BYTES + depth * BESIDE_BYTES) // 3 < len(shared)

"""What a client signs of what it publishes, and checks of what it gets.

A publisher signs each run as it leaves, and what it sends again as a run of its own. A subscriber that checks refuses
what has no proof, or a wrong one, before anything else learns of it: a refused event has not come, so recovery asks its
publisher for it.
"""

from collections.abc import Sequence
from itertools import repeat

from msgspec.structs import replace

from holdfast.model.event import SIGNATURE
from holdfast.model.messages import Batch, Publication
from holdfast.protocol.effects import Incident
from holdfast.protocol.parts import WHY_UNVERIFIED, Sign, SignerKeys
from holdfast.protocol.proofs import (
    ProofChecker,
    SignedEvent,
    encoded_plain,
    leaf_of,
    prove,
    prove_together,
    with_proof,
    without_proof,
)

UNVERIFIED = "unverified"  # an incident's kind


class EventSigner:
    def __init__(self, source: str, sign: Sign) -> None:
        self._source = source
        self._sign = sign

    def body(self, seq: int, time_us: int, body: bytes, payload: bytes) -> bytes:
        """The encoded attributes of an event that leaves alone, with its proof."""
        (proof,) = prove(self._source, [(seq, time_us, None, payload, body)], self._sign)
        return with_proof(body, proof)

    def together(
        self, first: int, times_us: Sequence[int], bodies: Sequence[bytes], payloads: dict[int, bytes]
    ) -> bytes:
        """The proof that a run shares, by its encoded attributes."""
        count = len(bodies)
        each_payload = [payloads.get(at, b"") for at in range(count)] if payloads else [b""] * count
        run = list(zip(range(first, first + count), times_us, [None] * count, each_payload, bodies, strict=True))
        return prove_together(self._source, run, self._sign)

    def signed(self, publications: Sequence[Publication]) -> list[Publication]:
        """Publications whose attributes have no proof yet, as a run."""
        if not publications:
            return []
        proofs = prove(self._source, list(map(_event, publications)), self._sign)
        return [
            replace(each, attributes={**each.attributes, SIGNATURE: proof})
            for each, proof in zip(publications, proofs, strict=True)
        ]


class EventVerifier:
    def __init__(self, keys: SignerKeys) -> None:
        self.knows = keys.knows
        self._checker = ProofChecker(keys.verify)

    def opened(self, publication: Publication) -> Publication | None:
        """A publication without its proof; None when that is none."""
        proof = publication.attributes.get(SIGNATURE)
        plain = replace(publication, attributes=without_proof(publication.attributes))
        return plain if self._checker.check(plain.source, leaf_of(*_event(plain)), proof) else None

    def opened_batch(self, batch: Batch) -> tuple[Batch, list[Incident]]:
        """A batch without proofs, and what is wrong with events that are not in it any more."""
        plain = tuple(map(without_proof, batch.attributes)) if not batch.proof else batch.attributes
        each = zip(batch.seqs, batch.times_us, batch.payloads or repeat(b""), plain, strict=False)
        leaves = [leaf_of(seq, time_us, None, payload, encoded_plain(body)) for seq, time_us, payload, body in each]
        if batch.proof:
            right = self._checker.check_together(batch.source, leaves, batch.proof)
        else:
            proofs = [body.get(SIGNATURE) for body in batch.attributes]
            right = list(map(self._checker.check, repeat(batch.source), leaves, proofs))
        opened = replace(batch, attributes=plain, proof=b"")
        if all(right):
            return opened, []
        good = [at for at, is_right in enumerate(right) if is_right]
        wrong = [refused(batch.source, seq) for seq, is_right in zip(batch.seqs, right, strict=True) if not is_right]
        return replace(opened.picked(good), since=batch.since, upto=batch.upto), wrong


def refused(source: str, seq: int) -> Incident:
    return Incident(UNVERIFIED, source=source, first=seq, reason=WHY_UNVERIFIED)


def _event(each: Publication) -> SignedEvent:
    return each.seq, each.time_us, each.lifetime_us, each.payload, encoded_plain(each.attributes)

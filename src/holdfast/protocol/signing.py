"""What a client signs of what it publishes, and checks of what it gets.

A publisher signs each run as it leaves, and what it sends again as a run of its own. A subscriber that checks refuses
what has no proof, or a wrong one, before anything else learns of it: a refused event has not come, so recovery asks its
publisher for it.
"""

from collections.abc import Sequence
from itertools import repeat

from msgspec.structs import replace

from holdfast.model.event import SIGNATURE
from holdfast.model.messages import AttributeValue, Batch, Publication
from holdfast.protocol.effects import Incident
from holdfast.protocol.parts import WHY_UNVERIFIED, Sign, SignerKeys
from holdfast.protocol.proofs import (
    ProofChecker,
    SignedEvent,
    encoded_plain,
    leaf_of,
    prove,
    with_proof,
    without_proof,
)

UNVERIFIED = "unverified"  # an incident's kind


class EventSigner:
    def __init__(self, source: str, sign: Sign) -> None:
        self._source = source
        self._sign = sign

    def bodies(
        self, first: int, times_us: Sequence[int], bodies: Sequence[bytes], payloads: dict[int, bytes]
    ) -> list[bytes]:
        """The encoded attributes of a run, each with its proof."""
        count = len(bodies)
        each_payload = [payloads.get(at, b"") for at in range(count)] if payloads else [b""] * count
        run = list(zip(range(first, first + count), times_us, [None] * count, each_payload, bodies, strict=True))
        return list(map(with_proof, bodies, prove(self._source, run, self._sign)))

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
        source, check, payloads = batch.source, self._checker.check, batch.payloads or repeat(b"")
        plain, wrong = list[dict[str, AttributeValue]](), list[int]()
        for seq, time_us, payload, attributes in zip(
            batch.seqs, batch.times_us, payloads, batch.attributes, strict=False
        ):
            body = attributes.copy()
            proof = body.pop(SIGNATURE, None)
            plain.append(body)
            if not check(source, leaf_of(seq, time_us, None, payload, encoded_plain(body)), proof):
                wrong.append(seq)
        opened = replace(batch, attributes=tuple(plain))
        if wrong:
            good = [at for at, seq in enumerate(batch.seqs) if seq not in wrong]
            opened = replace(opened.picked(good), since=batch.since, upto=batch.upto)
        return opened, [refused(source, seq) for seq in wrong]


def refused(source: str, seq: int) -> Incident:
    return Incident(UNVERIFIED, source=source, first=seq, reason=WHY_UNVERIFIED)


def _event(each: Publication) -> SignedEvent:
    return each.seq, each.time_us, each.lifetime_us, each.payload, encoded_plain(each.attributes)

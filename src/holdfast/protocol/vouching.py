"""What a broker vouches for when it lets a publication of its own client into the network.

All other brokers, and all subscribers, believe the publisher's broker. So a client publishes under its own name only,
and with numbers that it can have reached: these begin with the time of day in microseconds, or with 1, and nobody
publishes a million events a second. A number far ahead of the time would make every later event of that source look
like an old one.
"""

from holdfast.model.messages import Batch, Publish, Stamped
from holdfast.protocol.effects import Incident

_AHEAD_US = 24 * 3_600 * 1_000_000  # by which a client's clock may be ahead of its broker's


def not_vouched_for(client: str, message: Publish | Stamped | Batch, now_us: int) -> Incident | None:
    """Why a message of a client goes no further; None when its broker vouches for it."""
    if type(message) is Batch:
        events, source, seq = len(message.seqs), message.source, max(message.seqs, default=0)
        seq = max(seq, message.upto)
    else:
        publication = message.publication  # type: ignore[union-attr]
        events, source, seq = 1, publication.source, publication.seq
    if source != client:
        return Incident("forged_source", client, events)
    if seq > now_us + _AHEAD_US:
        return Incident("forged_number", client, events)
    if type(message) is Stamped:
        return Incident("unexpected_message", client)  # stamps are given by brokers
    return None

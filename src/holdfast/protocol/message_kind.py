"""What a message counts as: its kind, and whether it carries an event on its way for the first time.

What clients say to each other about recovery travels as publications, but counts by what it is. An event that
brokers number or hand over counts as the event that it is, and as `Resent` when it is sent once more.
"""

from typing import get_args

from holdfast.model.messages import Deliver, Gossip, Handover, Message, Numbered, Publish, Stamped
from holdfast.protocol.recovery.control import CONTROL_SEQ, KINDS, Repair, kind_of

CONTROL_KINDS = frozenset(KINDS.values())
GOSSIP_KINDS = frozenset(kind.__name__ for kind in get_args(Gossip))
RECOVERY_KINDS = CONTROL_KINDS | GOSSIP_KINDS
DELIVER_CONTROL = "DeliverControl"  # the last hop of what clients say about recovery
RESENT = "Resent"
REPAIRS = frozenset({RESENT, Repair.__name__})  # events once more: over one link, or from their publisher
_BY_CONTENT = (Publish, Deliver, Numbered, Handover)  # what these count as depends on what they carry
_BY_TYPE = {kind: (kind.__name__, False) for kind in get_args(Message) if kind not in _BY_CONTENT}
_BY_TYPE[Stamped] = Publish.__name__, True  # it is one, with more on it


def classify(message: Message) -> tuple[str, bool]:
    message_type = type(message)
    plain = _BY_TYPE.get(message_type)
    if plain is not None:
        return plain
    if message_type is Publish:
        if message.publication.seq == CONTROL_SEQ:  # type: ignore[union-attr]
            return kind_of(message.publication), False  # type: ignore[union-attr]
        return "Publish", True
    if message_type is Deliver:
        if message.publication.seq == CONTROL_SEQ:  # type: ignore[union-attr]
            return DELIVER_CONTROL, False
        return "Deliver", True
    if message_type is Numbered:
        kind, flies = classify(message.publish)  # type: ignore[union-attr]
        return (RESENT, flies) if message.again else (kind, flies)  # type: ignore[union-attr]
    if message.message is None:  # type: ignore[union-attr]
        return message_type.__name__, False
    kind, flies = classify(message.message)  # type: ignore[union-attr]
    return (RESENT, flies) if message.again else (kind, flies)  # type: ignore[union-attr]

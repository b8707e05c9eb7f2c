"""What a message counts as: its kind, and whether it carries an event on its way for the first time.

What clients say to each other about recovery travels as publications, but counts by what it is.
"""

from holdfast.model.messages import Deliver, Message, Publish
from holdfast.protocol.recovery.control import CONTROL_SEQ, KINDS, kind_of

CONTROL_KINDS = frozenset(KINDS.values())


def sort_of(message: Message) -> tuple[str, bool]:
    sort = type(message)
    if sort is Publish:
        if message.publication.seq == CONTROL_SEQ:  # type: ignore[union-attr]
            return kind_of(message.publication), False  # type: ignore[union-attr]
        return "Publish", True
    if sort is Deliver:
        return "Deliver", message.publication.seq != CONTROL_SEQ  # type: ignore[union-attr]
    return sort.__name__, False

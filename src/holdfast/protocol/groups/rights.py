"""What a client with rights may say as a member of a group, and what it may be handed.

Its condition has to be within its rights as it is: all members share it, so it cannot be narrowed for one of them.
"""

from holdfast.language.problems import ConditionError
from holdfast.model.errors import PeerError
from holdfast.model.messages import Publication
from holdfast.protocol.client_rights import ClientRights
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.groups.messages import Hand, Join, Report, decode_untrusted


def why_not(client: str, publication: Publication, rights: ClientRights, book: ConditionBook) -> str:
    """Why a client may not say this; empty when it may."""
    try:
        message = decode_untrusted(publication)
        if not isinstance(message, Join | Report) or message.member.client != client:
            return "only homes of groups say that, or another member"
        if isinstance(message, Report):
            return ""
        wanted = book.subscription(message.condition)
    except (PeerError, ConditionError):
        return "nobody can read it"
    admitted = rights.admitted(client, wanted)
    if admitted == wanted:
        return ""
    return f"a group shares one condition, and it may have {admitted if admitted.filters else 'nothing'} of {wanted}"


def may_have(client: str, publication: Publication, rights: ClientRights) -> bool:
    """Whether a client may see all that it is handed; what it may not, another member gets."""
    try:
        message = decode_untrusted(publication)
    except PeerError:
        return False
    return not isinstance(message, Hand) or all(rights.may_see(client, each.attributes) for each in message.events)

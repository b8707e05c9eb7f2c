"""The contract between a broker and whoever knows what its clients may do (`trust`), and how a refusal is told."""

from typing import Protocol

from holdfast.language.subscription import Subscription
from holdfast.model.event import Attributes
from holdfast.protocol.effects import Incident

_SHOWN_MAX = 200  # characters of a reason that a client is told


class ClientRights(Protocol):
    """What each client may do, at this moment."""

    def why_not(self, client: str, attributes: Attributes) -> str:
        """Why it may not publish this, in words; empty when it may."""

    def may_see(self, client: str, attributes: Attributes) -> bool: ...

    def sees_digests(self, client: str) -> bool: ...

    def admitted(self, client: str, wanted: Subscription) -> Subscription:
        """As much of a subscription as it may have."""


def publication_refused(client: str, why: str, seq: int = 0, count: int = 1) -> Incident:
    """Of the first of so many events; `reason` is for the client as well."""
    return Incident("publication_refused", client, count, client, seq, reason=why[:_SHOWN_MAX])


def subscription_denied(client: str, condition: str, instead: str) -> Incident:
    """It may have something instead of a condition, or nothing; `reason` is for the client as well."""
    kind = "subscription_narrowed" if instead else "subscription_refused"
    reason = f"it may subscribe to {instead or 'nothing of this'} instead of {condition}"
    return Incident(kind, client, reason=reason[:_SHOWN_MAX])

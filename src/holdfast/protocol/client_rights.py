"""The contract between a broker and whoever knows what its clients may do (`trust`)."""

from typing import Protocol

from holdfast.language.subscription import Subscription
from holdfast.model.event import Attributes


class ClientRights(Protocol):
    """What each client may do, at this moment."""

    def why_not(self, client: str, attributes: Attributes) -> str:
        """Why it may not publish this, in words; empty when it may."""

    def may_see(self, client: str, attributes: Attributes) -> bool: ...

    def sees_digests(self, client: str) -> bool: ...

    def admitted(self, client: str, wanted: Subscription) -> Subscription:
        """As much of a subscription as it may have."""

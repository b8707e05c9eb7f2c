"""What a driver hands to a machine when it builds one."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from holdfast.protocol.client_rights import ClientRights
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.settings import ProtocolSettings, Routing


def _none_waiting(neighbour: str) -> int:
    return 0


PROOF_BYTES_MAX = 512  # of an event of the largest run, with its name: part of the room for attributes
WHY_UNVERIFIED = "its signature is missing or wrong"

Sign = Callable[[bytes], bytes]
Verify = Callable[[str, bytes, bytes], bool]  # a source, what it has signed, the signature


class ConditionShares(Protocol):
    """What neighbours that belong to one owner may subscribe to, all together."""

    def why_over(self, client: str, filters: int, conditions: int) -> str:
        """Why a neighbour may not have so many; empty when it may."""
        ...

    def note(self, client: str, filters: int, conditions: int) -> None:
        """It has so many now."""
        ...

    def forget(self, client: str) -> None: ...


class SignerKeys(Protocol):
    """The keys of those whose signatures a client believes."""

    def knows(self, source: str) -> bool:
        """Whether there is a key of a source."""
        ...

    def verify(self, source: str, text: bytes, signature: bytes) -> bool: ...


@dataclass(frozen=True)
class BrokerParts:
    """What every broker is made of."""

    name: str
    routing: Routing
    settings: ProtocolSettings
    book: ConditionBook
    new_index: Callable[[], EventIndex[str]]
    epoch: int  # when its life began
    rng: Random
    queue_length: Callable[[str], int] = _none_waiting  # messages that wait for a neighbour, as the driver sees it
    rights: ClientRights | None = None  # of its clients; None: they may do everything
    groups: bool = False  # its clients may share subscriptions
    shares: ConditionShares | None = None  # None: each neighbour counts alone

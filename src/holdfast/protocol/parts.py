"""What a driver hands to a machine when it builds one."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from holdfast.protocol.client_rights import ClientRights
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.settings import ProtocolSettings, Routing


def _none_waiting(neighbour: str) -> int:
    return 0


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

"""The settings that brokers and clients share, each with the reason for its default."""

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.model.errors import InputError
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings


@dataclass(frozen=True)
class ProtocolSettings:
    """What brokers and clients of a network have in common."""

    heartbeat_us: int = 1_000_000  # how often neighbours compare tables: the time a lost control message costs
    lease_us: int = 3_500_000  # silence after which a neighbour is forgotten: three heartbeats may be lost
    session_us: int = 60_000_000  # a client's session outlives its connection for so long: a reboot, a tunnel, a deploy
    dedup_window: int = 65_536  # numbers per source in which a duplicate is recognised: as many as publishers keep
    dedup_sources: int = 10_000  # sources remembered by a client: 12 kB each when its window is full
    conditions_max: int = 1_000_000  # conditions a broker accepts from one neighbour before it refuses more
    hops_max: int = 64  # brokers a publication may pass: twice the largest diameter anyone runs; stops a routing loop


@dataclass(frozen=True)
class Guarantees:
    """What a client does beyond best effort."""

    recovery: RecoverySettings | SrmSettings | None = None
    order: LatchSettings | None = None


BEST_EFFORT = Guarantees()

Order = Literal["none", "fifo", "strict"]


def guarantees_of(recovery: bool | RecoverySettings | SrmSettings, order: Order | LatchSettings) -> Guarantees:
    """As an application says it in few words."""
    if isinstance(recovery, RecoverySettings | SrmSettings):
        wanted: RecoverySettings | SrmSettings | None = recovery
    elif isinstance(recovery, bool):
        wanted = RecoverySettings() if recovery else None
    else:
        raise InputError(f"recovery is {recovery!r}; it can be True, False, or RecoverySettings or SrmSettings")
    if isinstance(order, LatchSettings):
        return Guarantees(wanted, order)
    if order not in get_args(Order):
        raise InputError(f"order is {order!r}; it can be {', '.join(get_args(Order))}")
    return Guarantees(wanted, None if order == "none" else LatchSettings(order))

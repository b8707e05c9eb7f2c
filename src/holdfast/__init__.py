"""Holdfast: reliable content-based publish/subscribe.

Only names are listed here. Each is imported when it is first used, so that `import holdfast` stays
quick and a program that only parses conditions never loads Arrow or numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.carriers.connecting import connect, connect_sync
    from holdfast.gateway.client import connect_gateway
    from holdfast.language.covering import covers, overlaps
    from holdfast.language.parser import parse
    from holdfast.language.problems import ConditionError
    from holdfast.language.subscription import Subscription
    from holdfast.matching.matcher import Matcher
    from holdfast.model.errors import (
        HoldfastError,
        HoldfastWarning,
        InputError,
        MissingExtraError,
        MisuseError,
        TimedOutError,
        TransportError,
    )
    from holdfast.mqtt.settings import MqttSettings
    from holdfast.net.accounting import Account
    from holdfast.net.broker import Broker
    from holdfast.net.client import Client
    from holdfast.net.history_settings import HistorySettings
    from holdfast.net.losses import Loss
    from holdfast.net.states import StateChange
    from holdfast.net.subscription import Delivery
    from holdfast.net.sync import SyncClient
    from holdfast.net.sync_broker import SyncBroker
    from holdfast.protocol.gossip.settings import GossipSettings
    from holdfast.protocol.hops.settings import HopSettings
    from holdfast.protocol.order.settings import LatchSettings
    from holdfast.protocol.recovery.settings import RecoverySettings
    from holdfast.protocol.settings import ProtocolSettings
    from holdfast.store.log import Retention
    from holdfast.trust.budget import BudgetSettings

__version__ = "0.2.0"
__all__ = [
    "Account",
    "Broker",
    "BudgetSettings",
    "Client",
    "ConditionError",
    "Delivery",
    "GossipSettings",
    "HistorySettings",
    "HoldfastError",
    "HoldfastWarning",
    "HopSettings",
    "InputError",
    "LatchSettings",
    "Loss",
    "Matcher",
    "MissingExtraError",
    "MisuseError",
    "MqttSettings",
    "ProtocolSettings",
    "RecoverySettings",
    "Retention",
    "StateChange",
    "Subscription",
    "SyncBroker",
    "SyncClient",
    "TimedOutError",
    "TransportError",
    "connect",
    "connect_gateway",
    "connect_sync",
    "covers",
    "overlaps",
    "parse",
]

_HOMES = {
    "Account": "holdfast.net.accounting",
    "Broker": "holdfast.net.broker",
    "BudgetSettings": "holdfast.trust.budget",
    "Client": "holdfast.net.client",
    "ConditionError": "holdfast.language.problems",
    "Delivery": "holdfast.net.subscription",
    "GossipSettings": "holdfast.protocol.gossip.settings",
    "HoldfastError": "holdfast.model.errors",
    "HoldfastWarning": "holdfast.model.errors",
    "HopSettings": "holdfast.protocol.hops.settings",
    "InputError": "holdfast.model.errors",
    "LatchSettings": "holdfast.protocol.order.settings",
    "Loss": "holdfast.net.losses",
    "Matcher": "holdfast.matching.matcher",
    "MissingExtraError": "holdfast.model.errors",
    "MisuseError": "holdfast.model.errors",
    "MqttSettings": "holdfast.mqtt.settings",
    "HistorySettings": "holdfast.net.history_settings",
    "Retention": "holdfast.store.log",
    "ProtocolSettings": "holdfast.protocol.settings",
    "RecoverySettings": "holdfast.protocol.recovery.settings",
    "StateChange": "holdfast.net.states",
    "Subscription": "holdfast.language.subscription",
    "SyncBroker": "holdfast.net.sync_broker",
    "SyncClient": "holdfast.net.sync",
    "TimedOutError": "holdfast.model.errors",
    "TransportError": "holdfast.model.errors",
    "connect": "holdfast.carriers.connecting",
    "connect_gateway": "holdfast.gateway.client",
    "connect_sync": "holdfast.carriers.connecting",
    "covers": "holdfast.language.covering",
    "overlaps": "holdfast.language.covering",
    "parse": "holdfast.language.parser",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from holdfast.model.extras import extras_named  # noqa: PLC0415 - `import holdfast` loads nothing

    with extras_named():
        value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

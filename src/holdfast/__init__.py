"""Holdfast: reliable content-based publish/subscribe.

Only names are listed here. Each is imported when it is first used, so that `import holdfast` stays
quick and a program that only parses conditions never loads Arrow or numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.gateway.client import connect_gateway
    from holdfast.language.covering import covers, overlaps
    from holdfast.language.parser import parse
    from holdfast.language.problems import ConditionError
    from holdfast.language.subscription import Subscription
    from holdfast.matching.matcher import Matcher
    from holdfast.model.errors import HoldfastError, TransportError
    from holdfast.net.client import connect
    from holdfast.net.subscription import Delivery
    from holdfast.net.sync import connect_sync

__version__ = "0.2.0"
__all__ = [
    "ConditionError",
    "Delivery",
    "HoldfastError",
    "Matcher",
    "Subscription",
    "TransportError",
    "connect",
    "connect_gateway",
    "connect_sync",
    "covers",
    "overlaps",
    "parse",
]

_HOMES = {
    "ConditionError": "holdfast.language.problems",
    "Delivery": "holdfast.net.subscription",
    "HoldfastError": "holdfast.model.errors",
    "Matcher": "holdfast.matching.matcher",
    "TransportError": "holdfast.model.errors",
    "Subscription": "holdfast.language.subscription",
    "connect": "holdfast.net.client",
    "connect_gateway": "holdfast.gateway.client",
    "connect_sync": "holdfast.net.sync",
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

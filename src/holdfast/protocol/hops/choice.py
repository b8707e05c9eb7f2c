"""The broker that a network has asked for."""

from holdfast.protocol.broker import Broker
from holdfast.protocol.hops.nack import NackBroker
from holdfast.protocol.hops.settings import HopSettings

AnyBroker = Broker | NackBroker


def with_hops(broker: Broker, settings: HopSettings) -> AnyBroker:
    if settings.hops == "nack":
        return NackBroker(broker, settings.nack)
    return broker

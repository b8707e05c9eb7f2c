"""The broker and the client that a network has asked for."""

from dataclasses import replace

from holdfast.model.settings import TIME_US_MAX
from holdfast.protocol.broker import Broker, BrokerParts
from holdfast.protocol.changes import Stored
from holdfast.protocol.client import Client
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.durable import DurableBroker
from holdfast.protocol.hops.durable_client import DurableClient
from holdfast.protocol.hops.hybrid import HybridBroker
from holdfast.protocol.hops.multipath import MultipathBroker
from holdfast.protocol.hops.nack import NackBroker
from holdfast.protocol.hops.settings import HopSettings

AnyBroker = Broker | NackBroker | DurableBroker | MultipathBroker  # hybrid ones are durable
AnyClient = Client | DurableClient


def new_broker(
    parts: BrokerParts,
    hops: HopSettings,
    stored: Stored | None = None,
    gossip: GossipSettings | None = None,
) -> AnyBroker:
    """With what it has stored in an earlier life, if it stores anything."""
    now_us = parts.epoch
    if hops.durable:
        stored = stored or Stored()
        epoch = now_us if stored.epoch is None else stored.epoch
        patient = replace(parts.settings, lease_us=TIME_US_MAX)  # what a silent neighbour wants is kept for it
        broker = Broker(replace(parts, settings=patient, epoch=epoch))
        if hops.hops == "hybrid":
            return HybridBroker(broker, hops.handover, stored, now_us, hops.watch)
        return DurableBroker(broker, hops.handover, stored, now_us)
    broker = Broker(parts, gossip, states=hops.hops == "basic")
    return MultipathBroker(broker, hops.watch, now_us) if hops.hops == "multipath" else on_its_links(broker, hops)


def on_its_links(broker: Broker, hops: HopSettings) -> Broker | NackBroker:
    """With links that repair their own losses, where that is asked for: this goes with any broker."""
    return NackBroker(broker, hops.nack) if hops.hops == "nack" else broker


def with_hops(client: Client, hops: HopSettings, runs: bool = False, confirms: bool = False) -> AnyClient:
    return DurableClient(client, hops.handover, runs, confirms) if hops.durable else client

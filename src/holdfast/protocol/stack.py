"""The one place where machines are put together: both drivers build the same stack from one description.

A broker at best effort is a bare `Broker`. Everything more is a layer around it.
"""

from dataclasses import replace
from random import Random

from holdfast.model.settings import TIME_US_MAX
from holdfast.protocol.broker import Broker
from holdfast.protocol.changes import Stored
from holdfast.protocol.destinations import DestinationRouter
from holdfast.protocol.gossip.classes import Classes
from holdfast.protocol.gossip.gossip import Gossip
from holdfast.protocol.gossip.layer import GossipLayer
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.durable import DurableLayer
from holdfast.protocol.hops.hybrid import HybridLayer
from holdfast.protocol.hops.multipath import MultipathLayer
from holdfast.protocol.hops.nack import NackLayer
from holdfast.protocol.hops.settings import HopSettings
from holdfast.protocol.interests import Watch
from holdfast.protocol.node import BrokerMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.replication.layer import ReplicationLayer
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.router import Router
from holdfast.protocol.seen import Seen
from holdfast.protocol.settings import Reliability
from holdfast.protocol.tree import ALL_AT_ONCE, SLICE, TreeRouter


def new_broker(
    parts: BrokerParts,
    reliability: Reliability,
    stored: Stored | None = None,
    role: Role | None = None,
) -> BrokerMachine:
    """With what it has stored in an earlier life, if it stores anything; with a role, it is a replica."""
    hops = reliability.hops
    if hops.durable:
        return _storing(parts, hops, stored or Stored())
    states, around = hops.hops == "basic", hops.hops == "multipath"
    broker: BrokerMachine
    if reliability.replication is not None:
        return _on_its_links(_replicating(parts, reliability.replication, hops, role), hops)
    if reliability.gossip is not None:
        broker, router = _gossiping(parts, reliability.gossip, states, around)
    else:
        router = new_router(parts, states=states, around=around)
        broker = Broker(parts, router, states)
    return MultipathLayer(broker, router, hops.watch, parts.epoch) if around else _on_its_links(broker, hops)


def new_router(
    parts: BrokerParts,
    watch: Watch | None = None,
    states: bool = False,
    slice_max: int = SLICE,
    around: bool = False,
) -> Router:
    if parts.routing == "destinations":
        own = parts.name, parts.epoch, parts.settings
        return DestinationRouter(*own, parts.book, parts.new_index, watch, around)
    advertised, hops_max = parts.routing == "advertisements", parts.settings.hops_max
    return TreeRouter(parts.book, parts.new_index, advertised, hops_max, watch, states, slice_max)


def _on_its_links(broker: BrokerMachine, hops: HopSettings) -> BrokerMachine:
    """With links that repair their own losses, where that is asked for: this goes with any broker."""
    return NackLayer(broker, hops.nack) if hops.hops == "nack" else broker


def _storing(parts: BrokerParts, hops: HopSettings, stored: Stored) -> BrokerMachine:
    now_us = parts.epoch
    epoch = now_us if stored.epoch is None else stored.epoch
    patient = replace(parts.settings, lease_us=TIME_US_MAX)  # what a silent neighbour wants is kept for it
    parts = replace(parts, settings=patient, epoch=epoch)
    router = new_router(parts, slice_max=ALL_AT_ONCE)  # what is told later might be told before it is stored
    broker = DurableLayer(Broker(parts, router), hops.handover, stored, now_us)
    if hops.hops != "hybrid":
        return broker
    known = [name for name, each in stored.neighbours.items() if each.kind == "broker"]
    return HybridLayer(broker, router, hops.watch, known, now_us)


def _gossiping(
    parts: BrokerParts, settings: GossipSettings, states: bool, around: bool
) -> tuple[BrokerMachine, Router]:
    name, epoch, dice = parts.name, parts.epoch, Random(f"{parts.rng.getrandbits(64)}/gossip")
    classes = Classes(name, epoch, settings.fading_us, parts.book, parts.new_index)
    router = new_router(parts, classes, around=around)
    seen = Seen(parts.settings.dedup_window, parts.settings.dedup_sources)
    gossip = Gossip(name, epoch, settings, classes, router, seen, parts.settings.hops_max, dice)
    return GossipLayer(Broker(parts, router, states, gossip.on_local), gossip), router


def _replicating(
    parts: BrokerParts, settings: ReplicationSettings, hops: HopSettings, role: Role | None
) -> BrokerMachine:
    advertised, hops_max = parts.routing == "advertisements", parts.settings.hops_max
    tree = TreeRouter(parts.book, parts.new_index, advertised, hops_max, slice_max=ALL_AT_ONCE, chunk=settings.chunk)
    return ReplicationLayer(Broker(parts, tree), tree, parts, settings, role, hops.watch)

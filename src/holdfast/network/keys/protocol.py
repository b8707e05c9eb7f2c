"""The tables of reliability, replication, protocol, transport, carrier and planner, all from declared settings."""

from dataclasses import replace
from typing import get_args

from holdfast.network.keys.declared import keys_of
from holdfast.network.settings import CarrierSettings, PlanSettings, TransportSettings
from holdfast.network.tables import Table
from holdfast.protocol.gossip.settings import GossipSettings, StyleName
from holdfast.protocol.hops.settings import DURABLE, HandoverSettings, NackSettings, WatchSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.records.settings import BloomSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import ProtocolSettings, Reliability, ReliabilityChoices

_STORES = ("hops", DURABLE)
_SRM = ("scheme", ("srm",))
_RECOVERS = ("recovery", ("end-to-end",))
# What each event announces by itself is declared by both schemes, each with its own default.
_RECOVERY = tuple(
    replace(key, default=None, default_words="0; with srm 10", goes_with=None) if key.name == "record" else key
    for key in keys_of(RecoverySettings, _RECOVERS)
)

RELIABILITY = Table(
    "reliability",
    "How much reliability to buy.",
    (
        *keys_of(ReliabilityChoices),
        *keys_of(LatchSettings, ("order", ("fifo", "strict"))),
        *_RECOVERY,
        *(key for key in keys_of(SrmSettings, _SRM) if key.name != "record"),
        *keys_of(BloomSettings, _SRM),
        *keys_of(NackSettings, ("hops", ("nack",))),
        *keys_of(Reliability),
        *keys_of(HandoverSettings, _STORES),
        *keys_of(WatchSettings),
        *keys_of(GossipSettings, ("gossip", get_args(StyleName))),
    ),
)
REPLICATION = Table(
    "replication",
    "Replicas for brokers that fail or cannot keep up; without this table there are none. On a tree only.",
    keys_of(ReplicationSettings),
)
PROTOCOL = Table("protocol", "What brokers and clients agree on.", keys_of(ProtocolSettings))
TRANSPORT = Table(
    "transport",
    "How live brokers and clients talk.",
    tuple(sorted(keys_of(TransportSettings), key=lambda key: key.name in ("certificate", "key", "ca"))),  # these last
)
CARRIER = Table(
    "carrier",
    "Somebody else's bus in the place of brokers: clients are attached to it, and it is called `bus` in faults. "
    "Without this table there are brokers.",
    keys_of(CarrierSettings),
)
PLAN = Table("plan", "What `holdfast plan` predicts for; nothing that runs looks at it.", keys_of(PlanSettings))

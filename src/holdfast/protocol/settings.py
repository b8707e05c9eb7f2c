"""The settings that brokers and clients share, and the words in which reliability is chosen."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from holdfast.model.settings import Settings, Wrong, setting
from holdfast.protocol.gossip.settings import GossipSettings, StyleName
from holdfast.protocol.hops.settings import BASIC, DURABLE, Hops, HopSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.replication.settings import ReplicationSettings


@dataclass(frozen=True)
class ProtocolSettings(Settings):
    """What brokers and clients of a network have in common."""

    heartbeat_us: int = setting(
        1_000_000,
        "how often neighbours compare their tables",
        "a lost control message is repaired after so long",
        key="heartbeat_s",
    )
    lease_us: int = setting(
        3_500_000,
        "silence after which a neighbour is forgotten",
        "three heartbeats may be lost",
        key="lease_s",
    )
    session_us: int = setting(
        60_000_000,
        "how long a broker keeps the session of a live client whose connection broke",
        "a reboot, a tunnel, a deploy",
        key="session_s",
    )
    dedup_window: int = setting(
        65_536,
        "latest events of one source among which a duplicate is recognised",
        "as many as publishers keep; takes 12 kB when all of them came",
        unit="sequence numbers",
        at_least=64,
        at_most=2**24,
        key="dedup_window",
    )
    dedup_sources: int = setting(
        10_000,
        "sources whose sequence numbers a client remembers",
        "12 kB each when its window is full",
        unit="sources",
        at_most=1_000_000,
        key="dedup_sources",
    )
    filters_max: int = setting(
        1_000_000,
        "filters that a broker accepts from one neighbour before it refuses more; a condition has one for each OR",
        "some 300 MB",
        unit="filters",
        at_most=100_000_000,
        key="filters_max",
        formerly="conditions_max",
    )
    condition_bytes_max: int = setting(
        2**29,
        "bytes that the parsed conditions of one neighbour may take, roughly, before a broker refuses more",
        "a million of one test each fit, or a hundred thousand of ten ranges",
        unit="bytes",
        at_least=2**16,
        at_most=2**40,
        key="condition_bytes_max",
    )
    hops_max: int = setting(
        64,
        "brokers that an event may pass, which stops a routing loop",
        "twice the largest diameter in use",
        unit="brokers",
        at_most=65_535,
        key="hops_max",
    )

    def _contradictions(self) -> Iterator[Wrong]:
        if self.lease_us <= self.heartbeat_us:
            message = "must exceed the heartbeat: a neighbour would be forgotten between two heartbeats"
            yield Wrong("lease_us", message, "make the lease three times as long, or longer")


RecoveryWord = Literal["none", "end-to-end"]
Order = Literal["none", "fifo", "strict"]


@dataclass(frozen=True)
class Guarantees(Settings):
    """What a client does beyond best effort."""

    recovery: RecoverySettings | SrmSettings | None = setting(
        None, "how it recovers lost events", "publishers have to keep their events for it"
    )
    order: LatchSettings | None = setting(None, "how it keeps the order of each source", "waiting costs delay")

    @property
    def keeps_strictly(self) -> bool:
        """Whether no event of a source is ever handed out after a later one."""
        return self.order is not None and (self.order.mode == "strict" or isinstance(self.recovery, RecoverySettings))


BEST_EFFORT = Guarantees()


@dataclass(frozen=True)
class ClientReliability(Settings):
    """The words in which reliability is chosen, in the network file, in Python and on the command line."""

    hops: Hops | HopSettings = setting(
        "basic",
        "what neighbouring brokers do about losses and failures; basic: each event is sent once; nack: each link "
        "detects its own losses and retransmits; retransmission: brokers store events and retransmit until the next "
        "broker has stored them; multipath: events take another path when a broker or link is down; hybrid: both",
        "most links are TCP connections, which lose nothing while brokers are up",
        key="hops",
    )
    recovery: bool | RecoveryWord | RecoverySettings | SrmSettings = setting(
        "none",
        "recover events lost anywhere on the way; end-to-end: subscribers detect a loss and ask the publisher, so both "
        "need it",
        "publishers have to keep their events for it",
        key="recovery",
    )
    order: Order | LatchSettings = setting(
        "none",
        "keep the order of each source; fifo: an event waits while an earlier one is likely to come, which adds a "
        "millisecond or so where links jitter; strict, and fifo with recovery: until it has come or is given up, which "
        "adds a repair's round trip whenever one is lost, and the time up to the next digest where a subscriber "
        "matches few of a fast publisher's events",
        "waiting costs delay",
        key="order",
    )
    durable: bool = setting(
        False,
        'short for hops="retransmission", at brokers that store events: publishing ends when everything is stored, and '
        "the subscriptions of a name outlive its process",
        "it needs brokers that store events",
    )

    def _contradictions(self) -> Iterator[Wrong]:
        if self.durable and self.hops != "basic" and not self.hop_settings.durable:
            yield Wrong("durable", f'does not go with hops = "{self.hop_settings.hops}"', 'use hops = "retransmission"')

    @property
    def guarantees(self) -> Guarantees:
        """What a client does; True is "end-to-end" and False "none"."""
        recovery: RecoverySettings | SrmSettings | None
        if isinstance(self.recovery, bool | str):
            recovery = RecoverySettings() if self.recovery in (True, "end-to-end") else None
        else:
            recovery = self.recovery
        if isinstance(self.order, LatchSettings):
            return Guarantees(recovery, self.order)
        return Guarantees(recovery, None if self.order == "none" else LatchSettings(self.order))

    @property
    def hop_settings(self) -> HopSettings:
        if isinstance(self.hops, HopSettings):
            return self.hops
        return HopSettings("retransmission" if self.durable and self.hops == "basic" else self.hops)


@dataclass(frozen=True)
class ReliabilityChoices(ClientReliability):
    """The choices of a whole network."""

    gossip: Literal["none"] | StyleName = setting(
        "none",
        "how brokers recover from each other what was lost; push and the pulls as in paper 001, reconcile ours",
        "it needs every condition at every broker",
        key="gossip",
    )
    scheme: Literal["digest", "srm"] = setting(
        "digest",
        "end-to-end: how it is done; digest: publishers announce their events in digests and repair losses; srm: "
        "subscribers repair each other's losses, as paper 000 has it (with publisher_cache, filter_bits and record)",
        "it asks the publisher alone, which takes fewer messages",
        key="scheme",
        goes_with=("recovery", ("end-to-end",)),
    )


def guarantees_of(
    recovery: bool | RecoveryWord | RecoverySettings | SrmSettings, order: Order | LatchSettings
) -> Guarantees:
    return ClientReliability(recovery=recovery, order=order).guarantees


Routing = Literal["subscriptions", "advertisements", "destinations"]


@dataclass(frozen=True)
class Reliability(Settings):
    """What brokers and clients of a network do beyond best effort: what `protocol/stack.py` builds them from."""

    hops: HopSettings = setting(BASIC, "between neighbouring brokers", "most links are TCP")
    guarantees: Guarantees = setting(BEST_EFFORT, "of every client", "more costs delay and memory")
    gossip: GossipSettings | None = setting(None, "of every broker", "it needs every condition at every broker")
    replication: ReplicationSettings | None = setting(
        None, "how brokers replace or relieve their neighbours; None: not at all", "replicas cost machines"
    )
    store: str | None = setting(
        None,
        "retransmission: where live brokers keep what they store, a file for each",
        "runs leave nothing behind",
        expects="a folder in quotes",
        key="store",
        goes_with=("hops", DURABLE),
        otherwise="a folder that is gone after the run",
    )

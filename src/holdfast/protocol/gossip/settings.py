"""The settings of epidemic recovery."""

from dataclasses import dataclass
from typing import Literal

from holdfast.model.settings import Settings, setting

StyleName = Literal["push", "subscriber-pull", "publisher-pull", "combined-pull", "random-pull", "reconcile"]
Transfer = Literal["overlay", "direct"]
_SEARCH_US = 10_000_000  # past that, buffers of the default size have dropped an event
_DIRECT = ("gossip_transfer", ("direct",))
# When little more is to be expected: without a new event, longer than answers take, and a vector to who is silent;
# while an origin has not said that this was all, until it is not asked any more.
SETTLED_US = 1_300_000
SEARCHED_US = 20_000_000
UNSURE = 2  # times that an origin is asked for what came before the first event that we saw: one may be lost


@dataclass(frozen=True)
class GossipSettings(Settings):
    """How brokers get back from each other what they have lost."""

    style: StyleName = setting("reconcile", "who asks whom for what; docs/gossip.md has all of them", "fewest bytes")
    interval_us: int = setting(
        30_000, "gossip: between two rounds of a broker", "as in paper 001", key="gossip_interval_s"
    )
    buffer: int = setting(
        1_500,
        "gossip: events that a broker keeps for others; the oldest is dropped first",
        "as in paper 001",
        unit="events",
        at_most=10_000_000,
        key="gossip_buffer",
    )
    forward_ratio: float = setting(
        0.85,
        "gossip: chance that a digest is forwarded to one more neighbour",
        "fitted, because paper 001 does not give it",
        key="gossip_forward",
    )
    source_ratio: float = setting(
        0.5,
        "combined-pull: share of rounds that ask towards the publisher",
        "fitted, because paper 001 does not give it",
        key="gossip_source",
        goes_with=("gossip", ("combined-pull",)),
    )
    lost_us: int | None = setting(
        None,
        "gossip: how long a broker looks for a lost event; then it is given up, with an incident",
        "past that, buffers of this size have dropped it; an origin that is asked alone may be behind six lossy links",
        key="gossip_lost_s",
        otherwise='10; "reconcile": 60, as long as an origin keeps it',
    )
    adaptive: bool = setting(
        False,
        "gossip: rounds become rarer while they find nothing",
        "paper 001 only suggests it",
        key="gossip_adaptive",
    )
    transfer: Transfer = setting(
        "overlay",
        "gossip: how brokers without a link talk; overlay: along links; direct: by unicast, as in paper 001",
        "brokers may not reach each other directly",
        key="gossip_transfer",
    )
    transfer_delay_us: int = setting(
        1_000,
        "direct: how long it takes, in the simulator",
        "two machines in one city",
        at_least=0,
        at_most=3_600_000_000,
        key="gossip_transfer_ms",
        goes_with=_DIRECT,
    )
    transfer_loss_ratio: float = setting(
        0.0,
        "direct: share of messages lost, in the simulator",
        "paper 001 does not give it",
        key="gossip_transfer_loss",
        goes_with=_DIRECT,
    )
    kept_us: int = setting(
        60_000_000, "age after which an event is not repaired any more", "lets gossip end when all is quiet"
    )
    fading_us: int = setting(
        10_000_000, "how long a class is numbered without subscribers", "the path to them may be broken"
    )
    lost_max: int = setting(
        20_000, "lost events looked for", "13 times the buffer, so what is beyond is nowhere; 2 MB", unit="events"
    )
    streams_max: int = setting(
        200_000, "origins times classes whose sequence numbers are followed", "40 MB", unit="streams"
    )
    places_max: int = setting(
        400_000,
        "sequence numbers of kept events",
        "260 classes for each event of a full buffer; 100 MB",
        unit="sequence numbers",
    )
    origins_max: int = setting(4_096, "brokers known by name", "as many as a message may name", unit="brokers")
    digest_max: int = setting(
        1_000, "events that one message announces or asks for", "10 kB; the newest count most", unit="events"
    )
    stretch_max: int = setting(
        16, "adaptive: the longest interval between rounds, in usual intervals", "half a second", unit="intervals"
    )

    @property
    def search_us(self) -> int:
        """How long a broker looks for a lost event."""
        if self.lost_us is not None:
            return self.lost_us
        return self.kept_us if self.style == "reconcile" else _SEARCH_US


@dataclass(frozen=True)
class ReconcilingSettings(Settings):
    """Of the style that sends origins vectors of sequence numbers."""

    origins_at_once: int = setting(
        4, "vectors in one round", "as many as keep up with a tenth of all events being lost", unit="vectors"
    )
    settle_us: int = setting(
        200_000, "age below which an event may still be on its way", "twice the repair of a broken link"
    )
    retry_us: int = setting(120_000, "until an origin is asked again, doubled each time", "several round-trip times")
    retry_us_max: int = setting(1_000_000, "the longest of these waits", "a dozen tries before a loss is given up")
    tries_origin: int = setting(
        2, "vectors in vain before other brokers that hold the class are asked", "one may be lost", unit="vectors"
    )
    sync_us: int = setting(
        1_000_000, "silence after which an origin gets a vector; then after four times that", "a heartbeat"
    )
    sync_tries: int = setting(
        20, "vectors without an answer", "18 s; one in two of them or of the answers may be lost", unit="vectors"
    )
    sync_us_max: int = setting(16_000_000, "the longest silence before the next vector", "two steps of four times")
    before_us: int = setting(
        10_000_000, "how old events may be that a broker asks for when it starts", "it may have been down"
    )

"""The numbers of epidemic recovery, each with its reason."""

from dataclasses import dataclass
from typing import Literal

StyleName = Literal["push", "subscriber-pull", "publisher-pull", "combined-pull", "random-pull", "reconcile"]
Transfer = Literal["overlay", "direct"]


@dataclass(frozen=True)
class GossipSettings:
    """How brokers get back from each other what they have lost."""

    style: StyleName = "reconcile"  # docs/gossip.md has all of them
    interval_us: int = 30_000  # between rounds; as in paper 001
    buffer: int = 1_500  # events that a broker keeps for others, the oldest goes first; as in paper 001
    forward_ratio: float = 0.85  # that a digest is sent on to one more neighbour; fitted, paper 001 does not say
    source_ratio: float = 0.5  # combined pull: rounds that ask towards the publisher; fitted as well
    lost_us: int = 10_000_000  # how long a lost event is looked for: past that, buffers of this size have dropped it
    adaptive: bool = False  # rounds become rarer while they are of no use; paper 001 suggests it
    transfer: Transfer = "overlay"  # how brokers far from each other talk: along links, or by unicast beside them
    transfer_delay_us: int = 1_000  # by unicast, in the simulator,
    transfer_loss_ratio: float = 0.0  # and what it loses; paper 001 does not say
    kept_us: int = 60_000_000  # an event older than this is of no use to anybody; lets gossip end when all is quiet
    fading_us: int = 10_000_000  # how long a class is numbered that nobody seems to want: its way may be broken
    lost_max: int = 20_000  # lost events looked for: 13 times the buffer, so what is beyond is nowhere; 2 MB
    streams_max: int = 200_000  # origins times classes whose numbers are followed; 40 MB
    places_max: int = 400_000  # numbers of kept events: 260 classes for each of a full buffer; 100 MB
    origins_max: int = 4_096  # brokers known by name: as many as a message may name
    digest_max: int = 1_000  # events that one message tells of or asks for: 10 kB; the newest count most
    stretch_max: int = 16  # adaptive: the longest interval between rounds is so many times the usual one


@dataclass(frozen=True)
class ReconcilingSettings:
    """Of the style that asks origins by vectors of numbers."""

    origins_at_once: int = 4  # vectors in one round: as many as keep up with a tenth of all events being lost
    settle_us: int = 200_000  # an event younger than this may be on its way still: twice the repair of a broken link
    retry_us: int = 120_000  # until an origin is asked again: several times the way there and back; doubled each time
    retry_us_max: int = 1_000_000  # so that a dozen tries go before a loss is given up
    tries_origin: int = 2  # after so many vectors in vain the others who want the class are asked as well
    sync_us: int = 1_000_000  # a vector goes to an origin that was not heard of for so long; then after four times that
    sync_tries: int = 20  # vectors without an answer: 18 s; one in two of them or of the answers may be lost
    sync_us_max: int = 16_000_000
    before_us: int = 10_000_000  # a broker that has just begun wants what came so long before: it may have been down

"""How events pass from broker to broker, and the numbers of each way, with their reasons."""

from dataclasses import dataclass
from typing import Literal

Hops = Literal["basic", "nack", "retransmission", "multipath", "hybrid"]
DURABLE = ("retransmission", "hybrid")  # brokers store events, and clients take part


@dataclass(frozen=True)
class NackSettings:
    """How links notice and repair their own losses."""

    ring: int = 1_024  # events kept for each link, to send once more: a second of it at a thousand a second
    idle_us: int = 25_000  # silence after which the sender says what its last number was
    beats: int = 10  # that it says so, each time after twice the silence: 25 s in all, then it rests
    tries: int = 30  # requests for an event: two are enough for most, a burst on a quiet link ends only with messages
    wait_max_us: int = 500_000  # between two of them: all are over in 15 s
    first_wait_us: int = 50_000  # for an answer, until one was measured: a link across a continent
    slack_us: int = 2_000  # above the measured time of an answer: a busy broker's turn


@dataclass(frozen=True)
class HandoverSettings:
    """How brokers store events and hand them over."""

    window: int = 256  # messages under way to one neighbour: fills a link of 100 ms at 2,500 a second, more with runs
    first_wait_us: int = 200_000  # for an answer, until one was measured: a disk that is slow to sync
    slack_us: int = 20_000  # above the measured time of an answer: syncs vary
    wait_max_us: int = 2_000_000  # between two tries while a neighbour is down; it is tried at once when it speaks
    stored_max: int = 200_000  # events in a broker's store, some 100 MB; then it takes no more until some are done
    keep_us: int = 3_600_000_000  # for an event without a lifetime, or a client that is gone: the lifetime of paper 004
    away_max: int = 20_000  # events kept for a client that is away: a minute at 300 a second, no more than its part
    away_us: int = 10_000_000  # after which one that is gone is away: restarts and reconnections take less
    untaken_max: int = 1_000  # events that a client's application has and is not done with; a broker keeps the others
    sweep_us: int = 1_000_000  # how often it is looked for what has expired, and what is done with is erased
    published_max: int = 20_000  # events of a client that no broker has taken; then it publishes no more


@dataclass(frozen=True)
class WatchSettings:
    """How brokers watch each other."""

    beat_us: int = 200_000  # how often they say that they are there
    phi: float = 8.0  # a neighbour is down when its silence has a chance of 10**-phi, by how regular it was before
    doubt_ratio: float = 0.25  # of a beat: how irregular it counts at least, or a regular one would be doubted at once
    samples: int = 100  # silences that are remembered
    recent_max: int = 4_096  # events sent to a neighbour since it was last heard of: they are sent another way


@dataclass(frozen=True)
class HopSettings:
    """What a network has chosen."""

    hops: Hops = "basic"  # docs/hops.md has all of them
    nack: NackSettings = NackSettings()  # for "nack"
    handover: HandoverSettings = HandoverSettings()  # for "retransmission" and "hybrid"
    watch: WatchSettings = WatchSettings()  # for "multipath", "hybrid" and replication

    @property
    def durable(self) -> bool:
        """Whether brokers store events, and clients take part."""
        return self.hops in DURABLE


BASIC = HopSettings()

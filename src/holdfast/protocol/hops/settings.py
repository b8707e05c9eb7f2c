"""How events pass from broker to broker, and the settings of each way."""

from dataclasses import dataclass
from typing import Literal

from holdfast.model.limits import BATCH_EVENTS_MAX
from holdfast.model.settings import Settings, setting

Hops = Literal["basic", "nack", "retransmission", "multipath", "hybrid"]
DURABLE = ("retransmission", "hybrid")  # brokers store events, and clients take part
ANNOUNCED = 5  # nack: times that the last number was said: all of them lost once in a hundred thousand at loss 0.1
BACKOFF = 1.5  # nack: each wait for an answer to the one before it: ten requests stay within 60 round trips
FORGOTTEN_MAX = 64  # nack: a stream that a receiver meets above this number began before it did
_HOUR_US = 3_600_000_000  # a heartbeat or probe that comes more rarely detects nothing in time


@dataclass(frozen=True)
class NackSettings(Settings):
    """How links detect and repair their own losses."""

    ring: int = setting(
        1_024,
        "nack: events kept for each link, to retransmit them",
        "a second at a thousand events a second",
        unit="events",
        at_most=1_000_000,
        key="link_ring",
    )
    idle_us: int = setting(
        25_000,
        "nack: silence on a link after which its sender repeats its last sequence number",
        "the loss of the last event before a pause is detected after so long",
        at_most=_HOUR_US,
        key="link_idle_ms",
    )
    beats: int = setting(
        10, "how often it repeats that, each time after twice the silence", "25 s in all", unit="times"
    )
    tries: int = setting(
        30,
        "nack: requests for an event before it is given up",
        "two are enough for most; a burst on a quiet link ends only with further messages",
        unit="requests",
        at_most=100,
        key="link_tries",
    )
    wait_max_us: int = setting(500_000, "longest wait between two requests", "all of them are over in 15 s")
    first_wait_us: int = setting(
        50_000, "how long an answer takes, until one was measured", "a link across a continent"
    )
    slack_us: int = setting(2_000, "added to the measured round-trip time", "a busy broker's turn")


@dataclass(frozen=True)
class HandoverSettings(Settings):
    """How brokers store events and hand them over."""

    window: int = setting(
        256,
        "retransmission: unacknowledged messages to one neighbour",
        "fills a link of 100 ms at 2,500 messages a second, each of which may be a batch",
        unit="messages",
        at_most=4_096,
        key="window",
    )
    first_wait_us: int = setting(
        200_000, "how long an acknowledgement takes, until one was measured", "a disk that is slow to sync"
    )
    slack_us: int = setting(20_000, "added to the measured round-trip time", "syncs vary")
    wait_max_us: int = setting(
        2_000_000,
        "longest wait between two retransmissions to a neighbour that is down",
        "it is tried at once when it is heard of",
    )
    stored_max: int = setting(
        200_000,
        "retransmission: events in a broker's store; a full one accepts no more until some are acknowledged",
        "some 100 MB",
        unit="events",
        at_most=100_000_000,
        key="stored",
    )
    keep_us: int = setting(
        3_600_000_000,
        "retransmission: how long an event without a lifetime is kept for a broker or client that is down",
        "the lifetime of paper 004",
        key="keep_s",
    )
    away_max: int = setting(
        20_000,
        "retransmission: events kept for a client that is away, and all such clients share a quarter of the store; the "
        "oldest of more are given up, and the client learns of it",
        "a minute at 300 events a second",
        unit="events",
        at_most=100_000_000,
        key="away",
    )
    away_us: int = setting(
        10_000_000,
        "how long a client is gone before it counts as away; 0: at once",
        "restarts and reconnections take less",
        at_least=0,
    )
    untaken_max: int = setting(
        1_000,
        "events that a client's application has and has not acknowledged; a broker keeps the others",
        "a second at a thousand events a second comes again after a crash",
        unit="events",
    )
    sweep_us: int = setting(
        1_000_000, "how often expired and acknowledged events are erased", "one transaction a second is cheap"
    )
    published_max: int = setting(
        20_000,
        "retransmission: events that a client keeps until its broker has stored them; publishing then waits",
        "some 10 MB",
        unit="events",
        at_most=100_000_000,
        key="published",
    )

    @property
    def handed_out_max(self) -> int:
        """Events that an application may have and not be done with: one message may come on top of the limit."""
        return self.untaken_max + BATCH_EVENTS_MAX


@dataclass(frozen=True)
class WatchSettings(Settings):
    """How brokers detect that a neighbour is down."""

    beat_us: int = setting(
        200_000,
        "multipath and hybrid: how often brokers send each other a heartbeat",
        "a failure is detected within a second",
        at_most=_HOUR_US,
        key="beat_ms",
        goes_with=("hops", ("multipath", "hybrid")),
    )
    phi: float = setting(
        8.0,
        "multipath, hybrid, replication: a neighbour is down when its silence has a chance of 10 to minus this, by how "
        "regular its heartbeats were",
        "about one false alarm a year at five heartbeats a second",
        at_least=1,
        at_most=30,
        key="phi",
    )
    doubt_ratio: float = setting(
        0.25,
        "of a heartbeat: the least irregularity that is assumed",
        "a perfectly regular neighbour would be suspected at once",
        above=0,
    )
    samples: int = setting(100, "silences that are remembered", "20 s of heartbeats", unit="silences")
    recent_max: int = setting(
        4_096,
        "events sent to a neighbour since it was last heard of, which are sent another way when it is down",
        "two seconds at 2,000 events a second",
        unit="events",
    )


@dataclass(frozen=True)
class HopSettings(Settings):
    """What a network has chosen."""

    hops: Hops = setting("basic", "between neighbouring brokers; docs/hops.md has all of them", "most links are TCP")
    nack: NackSettings = setting(NackSettings(), 'for "nack"', "as declared there")
    handover: HandoverSettings = setting(HandoverSettings(), 'for "retransmission" and "hybrid"', "as declared there")
    watch: WatchSettings = setting(WatchSettings(), 'for "multipath", "hybrid" and replication', "as declared there")

    @property
    def durable(self) -> bool:
        """Whether brokers store events, and clients take part."""
        return self.hops in DURABLE


BASIC = HopSettings()

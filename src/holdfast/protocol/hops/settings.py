"""How events pass from broker to broker, and the numbers of each way, with their reasons."""

from dataclasses import dataclass
from typing import Literal

Hops = Literal["basic", "nack", "retransmission", "multipath", "hybrid"]


@dataclass(frozen=True)
class NackSettings:
    ring: int = 1_024  # events kept for each link, to send once more: a second of it at a thousand a second
    idle_us: int = 25_000  # silence after which the sender says what its last number was
    beats: int = 10  # that it says so, each time after twice the silence: 25 s in all, then it rests
    tries: int = 10  # requests for an event: at a loss of a tenth, request or answer fails once in 10**7 losses
    first_wait_us: int = 50_000  # for an answer, until one was measured: a link across a continent
    slack_us: int = 2_000  # above the measured time of an answer: a busy broker's turn


@dataclass(frozen=True)
class HopSettings:
    """What a network has chosen."""

    hops: Hops = "basic"
    nack: NackSettings = NackSettings()


BASIC = HopSettings()

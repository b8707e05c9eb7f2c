"""One direction of a link: what becomes of a message that is sent on it.

It may be lost (independently, or in bursts after Gilbert and Elliott), wait for the line when the link has a capacity,
be dropped when too many wait, take a random extra while, be overtaken, or arrive twice. Each direction has its
own dice, so that one more message elsewhere changes nothing here; for events they are keyed dice, unless losses come
in bursts, which have a memory.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from holdfast.network.schema import LinkSpec
from holdfast.network.settings import CarrierSettings
from holdfast.sim.keyed_dice import BELOW_FRACTION, GOLDEN, MIX_1, MIX_2, UNIT, WORD, KeyedDice, key_of, mix

REORDERED_MAX = 5  # an overtaken message is late by up to this many link delays
FREE_US, BYTES_PER_S, QUEUE_MAX = range(3)  # of a line: when it has sent everything that waits; what it can do
LINE_SIZE = 3
_WIDE = [0] * LINE_SIZE  # the line of all links without a capacity


class LineFull(Exception):
    """A message of a machine is late or dropped, on a line that compiled code shares and cannot say that of."""


def _no_dice() -> float:
    raise AssertionError("a link that is sure leaves nothing to chance")


def ways_of(carrier: CarrierSettings | None, broker: str, client: str) -> tuple[LinkSpec, LinkSpec]:
    """From a broker to its client and back: at once, or what `[carrier]` says of the ways to a bus."""
    if carrier is None:
        near = LinkSpec(broker, client, delay_us=0)
        return near, near
    takes_us = round(1_000_000 / carrier.takes_per_s) if carrier.takes_per_s else 0
    down = LinkSpec(broker, client, carrier.down_delay_us, loss_ratio=carrier.down_loss_ratio)
    down = replace(down, queue_max=carrier.queue_max, message_us=takes_us)
    return down, LinkSpec(broker, client, carrier.up_delay_us, loss_ratio=carrier.up_loss_ratio)


class SimLink:
    __slots__ = (
        "_bad",
        "_is_forgetful",
        "_jitter_us",
        "_line",
        "_lost_below",
        "_plain",
        "_random",
        "_reorder_below",
        "_wait_max_us",
        "delay_us",
        "is_sure",
        "key",
        "spec",
        "up",
    )

    def __init__(self, spec: LinkSpec, seed: int, sender: str, receiver: str) -> None:
        self.up = True
        self.spec = spec
        name = f"{seed}/{sender}->{receiver}/link"
        self.key = key_of(name)
        self._bad = False  # in a burst of losses
        has_capacity = spec.bytes_per_s is not None or spec.message_us
        self._line: list[int] | memoryview = [0, spec.bytes_per_s or 0, spec.queue_max] if has_capacity else _WIDE
        self._wait_max_us: int | None = None  # what machines send may wait so long, or the line is full
        forgetful = spec.burst is None and spec.bytes_per_s is None and not spec.duplicate_ratio and not spec.message_us
        self._is_forgetful = forgetful  # an event arrives once or never, whatever was sent before
        self._plain = plain = forgetful and not spec.reorder_ratio and not spec.jitter_us  # and always takes as long
        self.is_sure = plain and not spec.loss_ratio  # while it is up, it arrives
        self.delay_us, self._jitter_us = spec.delay_us, spec.jitter_us
        # Dice take 3 kB, and a million links to clients throw none: a link that is sure stays so.
        self._random = _no_dice if self.is_sure else Random(name).random
        self._lost_below = spec.loss_ratio / UNIT
        self._reorder_below = spec.reorder_ratio / UNIT

    def draw_from(self, draw: Callable[[], float]) -> Callable[[], float]:
        """From now on, take random numbers from there; returns where they came from before."""
        before, self._random = self._random, draw
        return before

    def share_line(self, line: memoryview, wait_max_us: int) -> None:
        """From now on, keep there what waits: compiled code sends on this line, too, and machines only what has to
        arrive and may wait so long.
        """
        for column, value in enumerate(self._line):
            line[column] = value
        self._line, self._wait_max_us = line, wait_max_us

    def heal(self) -> None:
        """From now on nothing is lost, doubled or overtaken; the delay stays."""
        self._line[BYTES_PER_S] = 0
        self.up = self._is_forgetful = self._plain = self.is_sure = True
        self._lost_below = self._reorder_below = 0.0
        self._jitter_us = 0
        self.spec = LinkSpec(self.spec.a, self.spec.b, self.spec.delay_us)

    def arrivals_us(self, size: int, now_us: int, may_be_lost: bool, luck: int | None = None) -> tuple[int, ...]:
        """When the message arrives: once, never, or twice. `luck` is that of the event that it carries."""
        if not self.up:
            return ()
        if luck is not None and self._is_forgetful:
            return self._arrival_us(now_us, luck)
        spec, draw = self.spec, self._random
        if self._plain:
            lost = may_be_lost and not self.is_sure and draw() < spec.loss_ratio
            return () if lost else (now_us + self.delay_us,)
        if luck is not None and spec.burst is None:
            draw = KeyedDice(self.key, luck).random
        departs_us = self._departure_us(size, now_us)
        if departs_us is None or (may_be_lost and self._loses(draw)):
            return ()
        arrives_us = departs_us + self._delay_us(draw)
        if spec.duplicate_ratio and draw() < spec.duplicate_ratio:
            return arrives_us, departs_us + self._delay_us(draw)
        return (arrives_us,)

    def _arrival_us(self, now_us: int, luck: int) -> tuple[int, ...]:
        """The same for an event where nothing depends on what was sent before; `mix` is spelled out to be quick."""
        state, arrives_us = self.key ^ luck, now_us + self.delay_us
        if self._lost_below:
            state = state + GOLDEN & WORD
            state = (state ^ state >> 30) * MIX_1 & WORD
            state = (state ^ state >> 27) * MIX_2 & WORD
            state ^= state >> 31
            if state >> BELOW_FRACTION < self._lost_below:
                return ()
        if self._jitter_us:
            state = state + GOLDEN & WORD
            state = (state ^ state >> 30) * MIX_1 & WORD
            state = (state ^ state >> 27) * MIX_2 & WORD
            state ^= state >> 31
            arrives_us += int((2 * ((state >> BELOW_FRACTION) * UNIT) - 1.0) * self._jitter_us)
        if self._reorder_below:
            state = mix(state + GOLDEN & WORD)
            if state >> BELOW_FRACTION < self._reorder_below:
                state = mix(state + GOLDEN & WORD)
                arrives_us += int((state >> BELOW_FRACTION) * UNIT * REORDERED_MAX * self.delay_us)
        return (max(now_us, arrives_us),)

    def _departure_us(self, size: int, now_us: int) -> int | None:
        """When the last byte has left; None when too many messages wait already."""
        line, sending_us = self._line, self.spec.message_us
        if line[BYTES_PER_S]:
            sending_us = max(1, size * 1_000_000 // line[BYTES_PER_S])
        elif not sending_us:
            return now_us
        waiting_us = max(0, line[FREE_US] - now_us)
        is_dropped = waiting_us > sending_us * line[QUEUE_MAX]
        if self._wait_max_us is not None and (is_dropped or waiting_us > self._wait_max_us):
            raise LineFull
        if is_dropped:
            return None
        line[FREE_US] = leaves_us = now_us + waiting_us + sending_us
        return leaves_us

    def _loses(self, draw: Callable[[], float]) -> bool:
        burst = self.spec.burst
        if burst is None:
            return self.spec.loss_ratio > 0 and draw() < self.spec.loss_ratio
        if draw() < (burst.to_good_ratio if self._bad else burst.to_bad_ratio):
            self._bad = not self._bad
        return draw() < (burst.loss_ratio if self._bad else self.spec.loss_ratio)

    def _delay_us(self, draw: Callable[[], float]) -> int:
        spec = self.spec
        delay_us = spec.delay_us
        if spec.jitter_us:
            delay_us += int((2 * draw() - 1) * spec.jitter_us)
        if spec.reorder_ratio and draw() < spec.reorder_ratio:
            delay_us += int(draw() * REORDERED_MAX * spec.delay_us)
        return max(0, delay_us)

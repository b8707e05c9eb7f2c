"""One direction of a link: what becomes of a message that is sent on it.

It may be lost (independently, or in bursts after Gilbert and Elliott), wait for the line when the link has a capacity,
be dropped when too many wait, take a random extra while, be overtaken, or arrive twice. Each direction has its
own dice, so that one more message elsewhere changes nothing here.
"""

from random import Random

from holdfast.network.schema import LinkSpec

_REORDERED_MAX = 5  # an overtaken message is late by up to this many link delays


class Link:
    def __init__(self, spec: LinkSpec, seed: int, sender: str, receiver: str) -> None:
        self.up = True
        self._spec = spec
        self._random = Random(f"{seed}/{sender}->{receiver}/link").random
        self._bad = False  # in a burst of losses
        self._free_us = 0  # when the line has sent everything that waits
        self._plain = spec.burst is None and spec.bytes_per_s is None and not spec.duplicate_ratio
        self._plain = self._plain and not spec.reorder_ratio and not spec.jitter_us

    def heal(self) -> None:
        """From now on nothing is lost, doubled or overtaken; the delay stays."""
        self.up = self._plain = True
        self._spec = LinkSpec(self._spec.a, self._spec.b, self._spec.delay_us)

    def arrivals_us(self, size: int, now_us: int, may_be_lost: bool) -> tuple[int, ...]:
        """When the message arrives: once, never, or twice."""
        if not self.up:
            return ()
        spec = self._spec
        if self._plain:
            if may_be_lost and spec.loss_ratio and self._random() < spec.loss_ratio:
                return ()
            return (now_us + spec.delay_us,)
        departs_us = self._departure_us(size, now_us)
        if departs_us is None or (may_be_lost and self._loses()):
            return ()
        arrives_us = departs_us + self._delay_us()
        if spec.duplicate_ratio and self._random() < spec.duplicate_ratio:
            return arrives_us, departs_us + self._delay_us()
        return (arrives_us,)

    def _departure_us(self, size: int, now_us: int) -> int | None:
        """When the last byte has left; None when too many messages wait already."""
        rate = self._spec.bytes_per_s
        if rate is None:
            return now_us
        sending_us = max(1, size * 1_000_000 // rate)
        waiting_us = max(0, self._free_us - now_us)
        if waiting_us > sending_us * self._spec.queue_max:
            return None
        self._free_us = now_us + waiting_us + sending_us
        return self._free_us

    def _loses(self) -> bool:
        burst, draw = self._spec.burst, self._random
        if burst is None:
            return self._spec.loss_ratio > 0 and draw() < self._spec.loss_ratio
        if draw() < (burst.to_good_ratio if self._bad else burst.to_bad_ratio):
            self._bad = not self._bad
        return draw() < (burst.loss_ratio if self._bad else self._spec.loss_ratio)

    def _delay_us(self) -> int:
        spec, draw = self._spec, self._random
        delay_us = spec.delay_us
        if spec.jitter_us:
            delay_us += int((2 * draw() - 1) * spec.jitter_us)
        if spec.reorder_ratio and draw() < spec.reorder_ratio:
            delay_us += int(draw() * _REORDERED_MAX * spec.delay_us)
        return max(0, delay_us)

"""The delay difference as measured: no law is assumed, but for an exponential tail beyond the sample.

Like the fitted law it promises no rate: what notices a missing message is the fastest of those behind it, and the
sample pairs it with any. `./run bench fifo` shows how much more is missed than asked for.
"""

from collections.abc import Sequence
from math import ceil

from holdfast.protocol.order.bernstein import counted_tail
from holdfast.protocol.order.sample_window import exponential_tail


class Measured:
    def __init__(self, differences: Sequence[float]) -> None:
        self._sizes = sorted(abs(x) for x in differences)
        self.reach_us = self._sizes[-1]

    def tail(self, t_us: float) -> float:
        return counted_tail(self._sizes, t_us)

    def exceeded_with(self, probability: float) -> float:
        count = len(self._sizes)
        rank = ceil((1 - 2 * probability) * (count + 1))
        if rank <= count:
            return self._sizes[max(rank, 1) - 1]
        return exponential_tail(self._sizes, 2 * probability)

"""When to stop waiting for a missing message: the question that every estimator answers, one per source.

The latch tells it of every original that arrives, asks it once for each gap, and says how the gap ended, also where
brokers have brought back what was lost. A deadline may lie in the past (do not wait) or far away; the latch bounds it.
"""

from typing import Protocol


class Estimator(Protocol):
    def on_arrival(self, seq: int, departure_us: int, arrival_us: int) -> None:
        """An original has arrived, in order or not."""

    def on_found(self, age_us: int, late_us: int, violated: bool, now_us: int) -> None:
        """A missing one came after all, so long after it left and was noticed; `violated`: after a later one."""

    def deadline_us(self, missing_departure_us: int, departure_us: int, now_us: int) -> float:
        """Until when to wait for the missing one, which a message that has just arrived has shown to be missing."""

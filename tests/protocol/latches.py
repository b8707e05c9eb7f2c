"""Latches for tests: with an estimator whose word is fixed and that remembers what it was told."""

from collections.abc import Sequence
from typing import Any

from holdfast.protocol.order.latch import Dropped, Latch, Release
from holdfast.protocol.order.sample_window import SampleWindow
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.steering import Steering

WAIT_US = 1_000


class Fixed:
    """Every gap is waited for a millisecond."""

    def __init__(self, wait_us: float) -> None:
        self._wait_us = wait_us
        self.arrived: list[int] = []
        self.found: list[tuple[int, int, bool]] = []  # age, lateness, violated

    def on_arrival(self, seq: int, departure_us: int, arrival_us: int) -> None:
        self.arrived.append(seq)

    def on_found(self, age_us: int, late_us: int, violated: bool, now_us: int) -> None:
        self.found.append((age_us, late_us, violated))

    def deadline_us(self, missing_departure_us: int, departure_us: int, now_us: int) -> float:
        return now_us + self._wait_us


class Rig:
    """A latch and its estimator; messages leave a tenth of a millisecond apart, `item` is the number."""

    def __init__(self, wait_us: float = WAIT_US, **settings: Any) -> None:
        self.estimator = Fixed(wait_us)
        self.latch: Latch[int] = Latch(LatchSettings(**settings), self._same)

    def _same(self, settings: LatchSettings, travels: SampleWindow, shared: Steering) -> Fixed:
        return self.estimator

    def gets(self, seq: int, at_us: int, missing: Sequence[int] = (), source: str = "a", **more: Any) -> list[object]:
        """What comes out when this number arrives and says that those are missing."""
        departure_us = more.pop("departure_us", 100 * seq)
        gaps = [(each, 100 * each) for each in missing]
        return said(self.latch.on_message(source, seq, departure_us, at_us, gaps, seq, **more))

    def waits_until(self, now_us: int) -> list[object]:
        return said(self.latch.on_timer(now_us))


def said(effects: Sequence[Release[int] | Dropped[int]]) -> list[object]:
    """Numbers; late ones and dropped ones with the word."""
    words: list[object] = []
    for each in effects:
        if isinstance(each, Dropped):
            words.append((each.item, "dropped"))
        else:
            words.append((each.item, "late") if each.late else each.item)
    return words

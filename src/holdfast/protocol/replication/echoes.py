"""How long messages wait for a broker: at every heartbeat it is sent one that it answers with its time.

The message waits where events do, on our side and in the broker. What the quickest one took, by two clocks, is the way
itself and the difference of the clocks; what a later one takes more is waiting. The way back does not count: an answer
waits for us, and that would be our own load. Clocks drift apart, so the quickest is forgotten as fast as they may.
"""

from collections.abc import Collection
from dataclasses import dataclass

_DRIFT = 10_000  # of so many microseconds one: twice as much as the clocks of ordinary machines


@dataclass
class _Answered:
    least_us: int
    sent_us: int  # the latest
    waited_us: int = 0


class Echoes:
    def __init__(self) -> None:
        self._of: dict[str, _Answered] = {}

    def on_answer(self, name: str, sent_us: int, came_us: int) -> None:
        took_us = came_us - sent_us
        known = self._of.setdefault(name, _Answered(took_us, sent_us))
        if sent_us < known.sent_us:
            return  # it was overtaken
        known.least_us = min(took_us, known.least_us + (sent_us - known.sent_us) // _DRIFT)
        known.sent_us, known.waited_us = sent_us, took_us - known.least_us

    def waited_us(self, name: str) -> int:
        known = self._of.get(name)
        return 0 if known is None else known.waited_us

    def forget(self, names: Collection[str]) -> None:
        """All but these."""
        self._of = {name: known for name, known in self._of.items() if name in names}

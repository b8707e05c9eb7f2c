"""How long to wait before dialling again: twice as long each time, with dice so that many do not dial at once."""

from random import Random

FIRST_S = 0.05  # a broker that restarts is back within a second; the first attempts should find it soon
MAX_S = 1.0  # as often as a heartbeat: a broker that is back after minutes is found within a second


class Backoff:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._next_s = FIRST_S

    def reset(self) -> None:
        self._next_s = FIRST_S

    def delay_s(self) -> float:
        """The next pause: between half of the full length and all of it."""
        full, self._next_s = self._next_s, min(MAX_S, self._next_s * 2)
        return full * (0.5 + self._rng.random() / 2)

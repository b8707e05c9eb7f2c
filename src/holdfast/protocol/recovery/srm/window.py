"""When to ask or to answer: at random within a window that is a multiple of a distance, and learns from duplicates.

SRM's adjustment, alike for requests (C1, C2) and repairs (D1, D2). Duplicates widen the window, slowness
narrows it, and whoever is nearest and so asks or answers first draws its window in: the others hear it in time.
"""

from random import Random

from holdfast.protocol.recovery.srm.moving_average import WEIGHT, MovingAverage

_DUPLICATES = 1.0  # that are tolerated for each loss, on average
_DELAY = 1.0  # that is tolerated, in round trips
_SLACK = 0.1  # below the tolerated number the window may shrink
_NEARLY_NONE = 0.25  # so few duplicates that one may also begin earlier
_FARTHER = 1.5  # times our own distance: who is that much farther away does not count as near


class FactorBounds:
    """How small and large the two factors may become; the group's size sets the upper ones."""

    def __init__(self, wait_least: float, wait_most: float | None, spread_least: float) -> None:
        self.wait_least = wait_least
        self._wait_most = wait_most
        self.spread_least = spread_least

    def wait_most(self, log_group: float) -> float:
        return log_group if self._wait_most is None else self._wait_most


REQUESTS = FactorBounds(0.5, 2.0, 1.0)
REPAIRS = FactorBounds(0.5, None, 1.0)  # up to the logarithm of the group's size


class Window:
    def __init__(self, wait: float, spread: float, bounds: FactorBounds, adaptive: bool) -> None:
        self.wait = wait
        self.spread = spread
        self._bounds = bounds
        self._adaptive = adaptive
        self._duplicates = 0  # since the last loss
        self._mean_duplicates = 0.0
        self._mean_delay = MovingAverage(0.0)
        self.is_closest = False

    @property
    def middle(self) -> float:
        return self.wait + self.spread / 2

    def draw_us(self, rng: Random, distance_us: float) -> int:
        return max(1, int(rng.uniform(self.wait, self.wait + self.spread) * distance_us))

    def on_new_loss(self, group: float, log_group: float) -> None:
        """Before the first timer for something that is lost: learn from the loss before."""
        if self._adaptive:
            if self._mean_delay.known:
                self._learn()
            self._keep_within(group, log_group)
        self._duplicates = 0

    def _learn(self) -> None:
        self._mean_duplicates += WEIGHT * (self._duplicates - self._mean_duplicates)
        duplicates = self._mean_duplicates
        if self.is_closest:
            self.spread -= 0.1
            self.is_closest = False
        elif duplicates >= _DUPLICATES:
            self.wait += 0.1
            self.spread += 0.5
        elif duplicates < _DUPLICATES - _SLACK:
            if self._mean_delay.value > _DELAY:
                self.spread -= 0.1
            if duplicates < _NEARLY_NONE:
                self.wait -= 0.05
        else:
            self.wait += 0.05

    def _keep_within(self, group: float, log_group: float) -> None:
        """The lower bound wins: in a group of three the logarithm is below it (ns-2 swings between the two)."""
        bounds = self._bounds
        self.wait = max(bounds.wait_least, min(self.wait, bounds.wait_most(log_group)))
        self.spread = max(bounds.spread_least, min(self.spread, group))

    def on_first(self, took_us: int, distance_us: float) -> None:
        """The first request or repair was sent or heard so long after the loss was known."""
        self._mean_delay.add(took_us / max(1.0, 2 * distance_us))

    def on_sent(self) -> None:
        """In the first round, by us."""
        self.is_closest = True
        if self._adaptive:
            self.wait = max(self._bounds.wait_least, self.wait - 0.1)

    def on_duplicate(self, others_us: float, own_us: float) -> None:
        """Another one did the same, from another distance, after we had."""
        self._duplicates += 1
        self.is_closest = others_us > _FARTHER * own_us

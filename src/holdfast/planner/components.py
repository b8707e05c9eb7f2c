"""Something that is up and down by turns: a broker or a link (paper 004).

Times up and times down are exponential. The share of the time up is `mean up / (mean up + mean down)`; the paper's
slides have it upside down, which `slides.py` keeps for comparison. What has no mean time up never fails."""

from dataclasses import dataclass

US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class Component:
    up_s: float = 0.0  # mean time up; 0 stands for ever
    down_s: float = 0.0

    @property
    def fails(self) -> bool:
        return self.up_s > 0 and self.down_s > 0

    @property
    def availability(self) -> float:
        return self.up_s / (self.up_s + self.down_s) if self.fails else 1.0

    @property
    def unavailability(self) -> float:
        return self.down_s / (self.up_s + self.down_s) if self.fails else 0.0

    @property
    def failure_rate(self) -> float:
        return 1 / self.up_s if self.fails else 0.0

    @property
    def recovery_rate(self) -> float:
        return 1 / self.down_s if self.fails else 0.0

    def with_availability(self, availability: float) -> "Component":
        """Failing as often as before, but up for another share of the time; what never failed keeps a day's cycle."""
        cycle_s = self.up_s + self.down_s if self.fails else 86_400.0
        return with_share(availability, cycle_s)


NEVER_FAILS = Component()


def with_share(availability: float, cycle_s: float) -> Component:
    """Up for this share of cycles of this mean length."""
    return NEVER_FAILS if availability >= 1 else Component(availability * cycle_s, (1 - availability) * cycle_s)


def from_us(mtbf_us: int | None, mttr_us: int | None) -> Component:
    """From the network file's mean times up and down."""
    return Component(mtbf_us / US_PER_S, mttr_us / US_PER_S) if mtbf_us and mttr_us else NEVER_FAILS

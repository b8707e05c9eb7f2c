"""The settings of the latch, each with the reason for its default."""

from dataclasses import dataclass
from typing import Literal

from holdfast.model.errors import MisuseError
from holdfast.protocol.checked import complaints

EstimatorName = Literal["age-conformal", "late-conformal", "parametric", "bernstein", "quantile"]


@dataclass(frozen=True)
class LatchSettings:
    """How long an event waits for an earlier one. A client with recovery keeps its order strictly in either mode."""

    mode: Literal["fifo", "strict"] = "fifo"  # while an earlier one is likely to come, or until it has come or is lost
    late: Literal["deliver", "drop"] = "deliver"  # what comes after its successor; with "drop" order is never violated
    estimator: EstimatorName = "age-conformal"  # fifo: how the time to wait is found out
    target: float = 0.005  # fifo: share of the violations that may remain: what paper 002 reports (99.5 % removed)
    of: Literal["missing", "all"] = "missing"  # the share is of messages noticed missing, or (paper 002) of all

    hold_us_max: int = 2_000_000  # a wrong estimate, or a delay law without a tail, costs this and no more
    cold_hold_us: int = 150_000  # before there are samples: one that is overtaken on an ocean's link is that much late
    strict_hold_us_max: int = 70_000_000  # past the last request for a lost one; then it is given up, and named

    held_max: int = 200_000  # messages in all: at 1 kB each 200 MB
    held_per_source_max: int = 65_536  # of one source, as many as a publisher keeps for those who miss earlier ones
    gaps_max: int = 10_000  # missing numbers in all, likewise
    gaps_per_source_max: int = 1_000  # and of one source
    sources_max: int = 2_000  # with a full window each (40 kB) 80 MB

    window: int = 1_000  # travel times a source: the 0.5 % quantile has five samples beyond it
    window_us: int = 120_000_000  # and not older: the drift of two clocks (50 ppm) moves them by 6 ms in that time
    differences: int = 400  # delay differences a source: short, so that a change of load shows soon
    refit_every: int = 100  # messages between two fits: a fit sorts the window, which takes a tenth of a millisecond
    neighbours: int = 64  # messages among which a newly arrived one finds its neighbours by number
    steering_gain: float = 0.2  # nats a violation, of a source and once more for all: two lower the level by half

    def __post_init__(self) -> None:
        wrong = complaints(self)
        if isinstance(self.target, int | float) and self.target >= 0.5:
            wrong.insert(0, f"target must be below 0.5, found {self.target}")
        if wrong:
            raise MisuseError("; ".join(wrong))

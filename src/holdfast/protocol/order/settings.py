"""The settings of the latch, which holds back events that come before earlier ones."""

from dataclasses import dataclass
from typing import Literal

from holdfast.model.settings import Settings, setting

EstimatorName = Literal["age-conformal", "late-conformal", "parametric", "bernstein", "quantile"]
_FIFO = ("order", ("fifo",))


@dataclass(frozen=True)
class LatchSettings(Settings):
    """How long an event waits for an earlier one. A client with recovery keeps its order strictly in either mode."""

    mode: Literal["fifo", "strict"] = setting(
        "fifo",
        "wait while an earlier event is likely to come, or until it has come or is lost",
        "it adds the least delay",
    )
    late: Literal["deliver", "drop"] = setting(
        "deliver",
        "what becomes of an event that comes after a later one was delivered; with drop order is never violated",
        "an event out of order is worth more than none",
        key="late",
    )
    estimator: EstimatorName = setting(
        "age-conformal",
        "fifo: how the time to wait is estimated",
        "it stays closest to its target",
        key="order_estimator",
        goes_with=_FIFO,
    )
    target: float = setting(
        0.005,
        "fifo: share of the order violations that may remain once twenty events of a source have come, and two seconds",
        "99.5 % are removed, as in paper 002",
        above=0,
        below=0.5,
        key="order_target",
        goes_with=_FIFO,
    )
    of: Literal["missing", "all"] = setting(
        "missing",
        "fifo: the share that may remain is of events noticed missing, or of all events, as in paper 002",
        "a share of all events says little where few come late",
        key="order_of",
        goes_with=_FIFO,
    )

    hold_us_max: int = setting(2_000_000, "fifo: the longest wait", "a wrong estimate costs this and no more")
    cold_hold_us: int = setting(
        150_000, "fifo: the wait before there are samples", "an event that is overtaken on an ocean's link is that late"
    )
    strict_hold_us_max: int = setting(
        70_000_000,
        "strict: the longest wait, after which the missing event is given up",
        "past the last request for it",
    )

    held_max: int = setting(200_000, "events held back in all", "200 MB at 1 kB each", unit="events")
    held_per_source_max: int = setting(
        65_536, "events of one source held back", "as many as a publisher keeps for repairs", unit="events"
    )
    gaps_max: int = setting(
        10_000, "missing sequence numbers in all", "to bound memory, as for held events", unit="sequence numbers"
    )
    gaps_per_source_max: int = setting(
        1_000, "missing sequence numbers of one source", "a tenth of all", unit="sequence numbers"
    )
    sources_max: int = setting(2_000, "sources followed", "80 MB with a full window of 40 kB each", unit="sources")

    window: int = setting(
        1_000, "travel times kept for a source", "the 0.5 % quantile has five samples beyond it", unit="samples"
    )
    window_us: int = setting(
        120_000_000, "age of the oldest travel time kept", "the drift of two clocks (50 ppm) moves them by 6 ms"
    )
    differences: int = setting(
        400, "delay differences kept for a source", "few, so that a change of load shows soon", unit="samples"
    )
    refit_every: int = setting(
        100, "events between two fits", "a fit sorts the window, which takes a tenth of a millisecond", unit="events"
    )
    neighbours: int = setting(
        64,
        "events among which a new one finds its neighbours by sequence number",
        "reordering reaches less far",
        unit="events",
    )
    steering_gain: float = setting(
        0.2, "nats by which a violation lowers the level, for its source and for all", "two violations halve it"
    )

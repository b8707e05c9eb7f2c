"""What the runs of the end-to-end study are called, and what its claims and figures both take from them."""

from math import sqrt

from holdfast.pipeline.sweep.check import VARIANT
from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.estimates import Estimate, estimate, ratio_of_sums
from holdfast_papers.study import Row, Runs

BEST_EFFORT, PAPER, WITH_CACHE, OURS = "best effort", "R = 10", "R = 10, publisher repairs", "ours"
SRM = {"reliability.recovery": "end-to-end", "reliability.scheme": "srm"}
VARIANTS: dict[str, dict[str, object]] = {
    BEST_EFFORT: {"reliability.recovery": "none"},
    "R = 1": {**SRM, "reliability.record": 1},
    "R = 5": {**SRM, "reliability.record": 5},
    PAPER: {**SRM, "reliability.record": 10},
    WITH_CACHE: {**SRM, "reliability.record": 10, "reliability.publisher_cache": True},
    OURS: {"reliability.recovery": "end-to-end"},
}
SMALL, LARGE = 12, 46
NETWORKS = {SMALL: "wan-12", LARGE: "wan-46"}
LONG, ROUGH = "-long", "-rough"  # the same networks, run for longer, and at five times the loss
GROWING_S = (2.0, 4.0, 8.0, 16.0, 30.0)  # the same run, stopped after so long: how caches grow
DIGEST_S = (0.1, 0.2, 0.4, 1.0)


def recovery_s(runs: Runs, quantile: str) -> Estimate:
    return estimate([each / 1e6 for each in runs.column(f"recovery_delay_us.{quantile}")])


def cached(runs: Runs) -> Estimate:
    kept, followed = (runs.column(f"recovery.{name} at the end") for name in (c.KEPT, c.FOLLOWED))
    return ratio_of_sums(kept, followed)


def detected_share(row: Row) -> tuple[float, float, int, float]:
    """A point of the grid: match probability, loss, R, and the share of the losses that was detected."""
    match, loss, record = str(row[VARIANT]).split()
    detected = (row.get(f"recovery.{c.DETECTED}") or 0) - (row.get(f"recovery.{c.CAME_LATE}") or 0)
    return float(match), float(loss), int(record), detected / row["lost"]


def standard_error(share: float, row: Row) -> float:
    return sqrt(max(0.0, share * (1 - share)) / row["lost"])  # false alarms may bring a share above 1

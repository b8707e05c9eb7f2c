"""From the name of an estimator to the estimator."""

from collections.abc import Callable

from holdfast.protocol.order.bernstein import Bernstein
from holdfast.protocol.order.conformal import AgeConformal, LateConformal
from holdfast.protocol.order.delay_difference import DelayDifference
from holdfast.protocol.order.empirical import Measured
from holdfast.protocol.order.estimator import Estimator
from holdfast.protocol.order.parametric import fit_equal_rates
from holdfast.protocol.order.sample_window import SampleWindow
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.steering import Steering

NewEstimator = Callable[[LatchSettings, SampleWindow, Steering], Estimator]


def new_estimator(settings: LatchSettings, travels: SampleWindow, shared: Steering) -> Estimator:
    """For one source. `travels` is its window of arrival - departure, which the latch fills."""
    match settings.estimator:
        case "age-conformal":
            return AgeConformal(settings, travels, shared)
        case "late-conformal":
            return LateConformal(settings, shared)
        case "parametric":
            return DelayDifference(settings, fit_equal_rates)
        case "bernstein":
            return DelayDifference(settings, Bernstein)
        case "quantile":
            return DelayDifference(settings, Measured)

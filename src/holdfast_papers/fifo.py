"""Paper 002, probabilistic FIFO: violations that remain, and the delay that it costs, for every estimator.

The paper's brokers reorder because they match in parallel; here links do, by jitter, and in the second network by
holding up one message in ten for up to five times its delay. Each point is run twice, for half a minute and for longer:
what differs between the two is what happens once the latches have learned, and that is counted.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.protocol.order.settings import EstimatorName
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import Estimate, ratio, ratio_of_sums, spot
from holdfast_papers.study import Runs, Scale, Study
from holdfast_papers.verdicts import Allowed, about, at_least, at_most

_ESTIMATORS = get_args(EstimatorName)
_DEFAULT = "age-conformal"
_CONFORMAL = ("age-conformal", "late-conformal")  # these steer the share of violations to the target
_BOUND = "bernstein"  # and this one stays below it; the others promise no rate
_LAW = "parametric"  # the law that the paper fits to delays
_TARGETS = (0.05, 0.005)
_NONE = "best effort"
_WARM_S = 30.0
_SECONDS: dict[Scale, float] = {"quick": 250.0, "paper": 630.0}
_SEEDS: dict[Scale, int] = {"quick": 5, "paper": 5}
_LINKS: dict[str, dict[str, object]] = {
    "jitter": {"delay_ms": 10, "jitter_ms": 8, "loss": 0.01},
    "held up": {"delay_ms": 10, "jitter_ms": 4, "loss": 0.01, "reorder": 0.1},
}


def _network(links: dict[str, object]) -> dict[str, Any]:
    """Eight brokers as in the paper, with fewer clients: two publish 100 events a second each, half match anybody."""
    return {
        "routing": "subscriptions",
        "topology": {"kind": "tree", "brokers": 8, "degree": 3},
        "links": links,
        "clients": {"per_broker": 1, "publishers": 2, "subscribers": "others"},
        "workload": {"kind": "rates", "rates_per_s": [100, 100], "match": [0.5, 0.5]},
    }


def _variant(estimator: str, target: float) -> str:
    return f"{estimator}, {target:g}"


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    variants: dict[str, dict[str, object]] = {_NONE: {"reliability.order": "none"}}
    for target in _TARGETS:
        for estimator in _ESTIMATORS:
            variants[_variant(estimator, target)] = {
                "reliability.order": "fifo",
                "reliability.order_estimator": estimator,
                "reliability.order_target": target,
            }
    grid = {"duration_s": [_WARM_S, _SECONDS[scale]]}
    return {name: plan(_network(links), grid, variants=variants, seeds=_SEEDS[scale]) for name, links in _LINKS.items()}


def _after_warming(runs: Runs, variant: str, metric: str) -> list[float]:
    """By seed: what a long run has more than a short one with the same beginning."""
    mine = runs.of(variant=variant)
    short = mine.of(duration_s=_WARM_S)
    long = Runs([row for row in mine.rows if row["duration_s"] != _WARM_S])
    return [a - b for a, b in zip(long.column(metric), short.column(metric), strict=True)]


def _remaining(runs: Runs, variant: str) -> Estimate:
    """The share of the violations that remains."""
    return ratio_of_sums(
        _after_warming(runs, variant, "fifo_violations"), _after_warming(runs, _NONE, "fifo_violations")
    )


def _added_ms(runs: Runs, variant: str) -> Estimate:
    return ratio_of_sums(_held_ms(runs, variant), _after_warming(runs, variant, "delivered"))


def _held_ms(runs: Runs, variant: str) -> list[float]:
    return [each / 1_000 for each in _after_warming(runs, variant, "held_total_us")]


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for name, found in runs.items():
        yield from _of_paper(name, found)
        yield from _of_ours(name, found)


def _settings(name: str, found: Runs) -> str:
    seeds = len({row["seed"] for row in found.rows})
    return f"{name}: 8 brokers, loss 0.01, {max(row['duration_s'] for row in found.rows):g} s, seeds 1 to {seeds}"


def _of_paper(name: str, found: Runs) -> Iterator[Claim]:
    """The paper's law, and our default beside it."""
    for estimator in (_LAW, _DEFAULT):
        suffix = "" if estimator == _DEFAULT else f"-{estimator}"
        yield Claim(
            f"002-removed{suffix}-{name}",
            f"{estimator}: share of the violations that is removed at the target 0.005",
            "up to 0.995" if estimator == _LAW else "0.995, the target, is wanted",
            _remaining(found, _variant(estimator, 0.005)).through(lambda share: 1 - share),
            at_least(0.995),
            "paper" if estimator == _LAW else "ours",
            _settings(name, found),
        )


def _promise(estimator: str, target: float) -> tuple[str, Allowed | None]:
    if estimator in _CONFORMAL:
        return "within 10 % of it is wanted", about(target)
    if estimator == _BOUND:
        return "at most that is wanted", at_most(target)
    return "promises no rate", None


def _of_ours(name: str, found: Runs) -> Iterator[Claim]:
    for target in _TARGETS:
        for estimator in _ESTIMATORS:
            variant = _variant(estimator, target)
            words, allowed = _promise(estimator, target)
            yield Claim(
                f"002-{estimator}-{target:g}-{name}",
                f"{estimator}, target {target:g}: share of the violations that remains",
                words,
                _remaining(found, variant),
                allowed,
                "ours",
                _settings(name, found),
                f"adds {_added_ms(found, variant).value:.2f} ms to the mean delay",
            )
    ours, bound = (_variant(each, 0.05) for each in (_DEFAULT, _BOUND))
    remain = _remaining(found, ours).value, _remaining(found, bound).value
    yield Claim(
        f"ours-added-{name}",
        f"added delay of {_DEFAULT} for each of Bernstein's, target 0.05",
        "at most 0.6 is wanted",
        ratio(*(_mean_held_ms(found, each) for each in (ours, bound))),
        at_most(0.6),
        "ours",
        _settings(name, found),
        f"not at equal violations: {remain[0]:.2g} of them remain, with Bernstein's {remain[1]:.2g}",
    )


def _mean_held_ms(found: Runs, variant: str) -> list[float]:
    """By seed."""
    return [a / b for a, b in zip(_held_ms(found, variant), _after_warming(found, variant, "delivered"), strict=True)]


def _figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    for name, found in runs.items():
        for title, label, measure in (
            ("Violations that remain", "share of the violations", _remaining),
            ("Added delay", "mean over all deliveries (ms)", _added_ms),
        ):
            yield LineChart(
                f"{title} by target, {name} (paper 002)",
                "target (share of the violations that may remain)",
                label,
                tuple(Line(estimator, tuple(_spots(found, estimator, measure))) for estimator in _ESTIMATORS),
                x_log=True,
            )


def _spots(found: Runs, estimator: str, measure: Callable[[Runs, str], Estimate]) -> Iterator[Spot]:
    for target in sorted(_TARGETS):
        yield spot(target, measure(found, _variant(estimator, target)))


STUDY = Study("fifo", "Probabilistic FIFO (paper 002)", _plans, _claims, _figures)

"""Paper 000, end-to-end recovery: its scheme beside ours, in its two networks.

The paper's own scheme is `scheme = "srm"` with the settings of its experiments; "publisher repairs" adds a cache at the
publisher, which the paper leaves out. Ours is the default. All see the same publications and the same losses of
events; payloads are 500 bytes, which the paper does not say.

At the paper's scale runs last its 300 s. What does not fit in two hours on two cores has fewer seeds, never shorter
runs: all lengths of records with one seed, the others with five; the larger network with two.
"""

from collections.abc import Mapping

from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan, preset_document
from holdfast_papers.end_to_end.claims import claims
from holdfast_papers.end_to_end.figures import figures
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    CALM,
    CONTENT,
    DIGEST_S,
    EPIDEMIC,
    LARGE,
    NETWORKS,
    OTHER_VARIANTS,
    OURS,
    PAPER,
    ROUGH,
    SMALL,
    SRM,
    WITH_CACHE,
    record,
)
from holdfast_papers.study import Scale, Study

_SECONDS: dict[Scale, dict[int, float]] = {"quick": {SMALL: 30.0, LARGE: 8.0}, "paper": {SMALL: 300.0, LARGE: 300.0}}
_SEEDS: dict[Scale, dict[int, int]] = {"quick": {SMALL: 5, LARGE: 5}, "paper": {SMALL: 5, LARGE: 2}}
_LENGTHS: dict[Scale, tuple[int, ...]] = {"quick": (2, 5), "paper": tuple(range(2, 10))}  # beside 1 and 10
_LENGTHS_S: dict[Scale, float] = {"quick": 30.0, "paper": 300.0}
_ROUGH_S: dict[Scale, dict[int, float]] = {"quick": {SMALL: 10.0, LARGE: 3.0}, "paper": {SMALL: 60.0, LARGE: 60.0}}
_EPIDEMIC: dict[Scale, tuple[int, float]] = {"quick": (40, 3.0), "paper": (100, 10.0)}  # brokers and seconds
_SLICES = 30  # of a run, for what is drawn over time


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    plans: dict[str, SweepPlan] = {}
    few = {name: OTHER_VARIANTS[name] for name in (BEST_EFFORT, OURS)} | dict(map(record, (1, 10)))
    for size, preset in NETWORKS.items():
        seconds_ = _SECONDS[scale][size]
        variants = few if size == LARGE and scale == "quick" else few | {WITH_CACHE: OTHER_VARIANTS[WITH_CACHE]}
        settings = {**CONTENT[size], "duration_s": seconds_, "slices_s": seconds_ / _SLICES}
        plans[preset] = plan(preset_document(preset), variants=variants, seeds=_SEEDS[scale][size], settings=settings)
    lengths = dict(map(record, _LENGTHS[scale]))
    settings = {**CONTENT[SMALL], "duration_s": _LENGTHS_S[scale]}
    plans["lengths"] = plan(
        preset_document(NETWORKS[SMALL]), variants=lengths, seeds=5 if scale == "quick" else 1, settings=settings
    )
    calm = {BEST_EFFORT: few[BEST_EFFORT], PAPER: few[PAPER]}
    settings = {**CONTENT[LARGE], "duration_s": _SECONDS[scale][LARGE], "links.loss": 0.001}
    plans[NETWORKS[LARGE] + CALM] = plan(
        preset_document(NETWORKS[LARGE]), variants=calm, seeds=_SEEDS[scale][LARGE], settings=settings
    )
    both = {name: OTHER_VARIANTS[name] for name in (BEST_EFFORT, OURS)}
    for size, preset in NETWORKS.items():
        settings = {**CONTENT[size], "duration_s": _ROUGH_S[scale][size], "links.loss": 0.05}
        plans[preset + ROUGH] = plan(
            preset_document(preset), variants=both, seeds=_SEEDS[scale][size], settings=settings
        )
    plans["digests"] = plan(
        preset_document(NETWORKS[SMALL]),
        {"reliability.digest_s": list(DIGEST_S)},
        seeds=1,
        settings={**CONTENT[SMALL], **OTHER_VARIANTS[OURS], "duration_s": _ROUGH_S[scale][SMALL]},
    )
    plans[EPIDEMIC] = _epidemic(*_EPIDEMIC[scale])
    plans["detection"] = _detection(60.0 if scale == "quick" else 600.0)
    plans["detection, rare"] = _rare_losses(60.0 if scale == "quick" else 600.0)
    return plans


def _epidemic(brokers: int, duration_s: float) -> SweepPlan:
    """The network of paper 001: every broker publishes, and a tenth of the messages is lost on every link."""
    variants = {name: OTHER_VARIANTS[name] for name in (BEST_EFFORT, OURS)} | dict([record(10)])
    settings = {"duration_s": duration_s, "topology.brokers": brokers, "workload.start_s": 0.5}
    return plan(preset_document("epidemic-100"), variants=variants, seeds=5, settings=settings)


def _one_link() -> dict[str, object]:
    """One publisher, one subscriber and one lossy link, without anybody who could repair: only detection counts."""
    return {
        "topology": {"kind": "line", "brokers": 2},
        "links": {"delay_ms": 10, "loss": 0.1, "lossy_control": False},
        "clients": {"per_broker": 1, "publishers": 1, "subscribers": "others"},
        "workload": {"kind": "rates", "rates_per_s": [500, 500], "match": [0.1, 0.1]},
        # Wide filters, or false alarms would be counted among the losses.
        "reliability": {**{key.partition(".")[2]: value for key, value in SRM.items()}, "filter_bits": 2_048},
    }


def _point(match: float, loss: float, length: int) -> tuple[str, dict[str, object]]:
    settings = {"workload.match": [match, match], "links.loss": loss, "reliability.record": length}
    return f"{match} {loss} {length}", settings


def _detection(duration_s: float) -> SweepPlan:
    points = (_point(match, loss, length) for match in (0.1, 0.3) for loss in (0.05, 0.2) for length in (1, 5, 10))
    return plan(_one_link(), variants=dict(points), seeds=1, settings={"duration_s": duration_s})


def _rare_losses(duration_s: float) -> SweepPlan:
    """The point of Fig. 2a that the text names; at 2,000 events/s, or losses would be too few."""
    settings = {"duration_s": duration_s, "workload.rates_per_s": [2_000, 2_000]}
    return plan(_one_link(), variants=dict([_point(0.05, 0.01, 10)]), seeds=5, settings=settings)


STUDY = Study("end-to-end", "End-to-end recovery (paper 000)", _plans, claims, figures)

"""Paper 000, end-to-end recovery: its scheme beside ours, in its two networks.

The paper's own scheme is `scheme = "srm"` with the settings of its experiments; "publisher repairs" adds a cache at the
publisher, which the paper leaves out. Ours is the default. All see the same publications and the same losses of
events; payloads are 500 bytes, which the paper does not say.

With 46 brokers our workload's popular events carry up to a hundred attributes, not the paper's ten, and would fill its
filters, so that nearly everybody asked for them: there the filters have 2,048 bits, and their bytes are not compared.
Ours is run for longer as well, beside best effort alone, until 99.99 % means something.
"""

from collections.abc import Mapping

from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan, preset_document
from holdfast_papers.end_to_end.claims import claims
from holdfast_papers.end_to_end.figures import figures
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    DIGEST_S,
    GROWING_S,
    LARGE,
    LONG,
    NETWORKS,
    OURS,
    PAPER,
    ROUGH,
    SMALL,
    SRM,
    VARIANTS,
)
from holdfast_papers.study import Scale, Study

_FILTER_BITS = {SMALL: 256, LARGE: 2_048}
_SECONDS: dict[Scale, dict[int, float]] = {"quick": {12: 30.0, 46: 20.0}, "paper": {12: 300.0, 46: 300.0}}
_LONG_S: dict[Scale, dict[int, float]] = {"quick": {12: 220.0, 46: 75.0}, "paper": {12: 300.0, 46: 300.0}}
_SEEDS: dict[Scale, int] = {"quick": 2, "paper": 5}
_PAYLOAD = {"workload.payload_bytes": 500}
_SLICE_S: dict[Scale, float] = {"quick": 2.0, "paper": 10.0}
_GRID = {"match": (0.1, 0.3), "loss": (0.05, 0.2), "record": (1, 5, 10)}  # of Eq. 1


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    seeds = _SEEDS[scale]
    plans: dict[str, SweepPlan] = {}
    for size, preset in NETWORKS.items():
        network = preset_document(preset)
        fixed = {**_PAYLOAD, "duration_s": _SECONDS[scale][size], "reliability.filter_bits": _FILTER_BITS[size]}
        fixed["slices_s"] = _SLICE_S[scale]
        plans[preset] = plan(network, variants=VARIANTS, seeds=seeds, settings=fixed)
        both = {name: VARIANTS[name] for name in (BEST_EFFORT, OURS)}
        for name, loss, share in ((LONG, 0.01, 1.0), (ROUGH, 0.05, 0.2)):  # so that both see as many losses
            fixed = {**_PAYLOAD, "duration_s": share * _LONG_S[scale][size], "links.loss": loss}
            plans[preset + name] = plan(network, variants=both, seeds=seeds, settings=fixed)
    calm = {name: VARIANTS[name] for name in (BEST_EFFORT, PAPER)}
    fixed = {"duration_s": _SECONDS[scale][LARGE], "links.loss": 0.001}
    fixed["reliability.filter_bits"] = _FILTER_BITS[LARGE]
    plans["wan-46-calm"] = plan(preset_document("wan-46"), variants=calm, seeds=seeds, settings=fixed)
    plans["caches"] = plan(
        preset_document("wan-12"),
        {"duration_s": list(GROWING_S)},
        seeds=seeds,
        settings={**_PAYLOAD, **VARIANTS[PAPER]},
    )
    plans["digests"] = plan(
        preset_document("wan-12"),
        {"reliability.digest_s": list(DIGEST_S)},
        seeds=seeds,
        settings={**_PAYLOAD, **VARIANTS[OURS], "duration_s": _SECONDS[scale][12]},
    )
    plans["detection"] = _detection(100.0 if scale == "quick" else 1_000.0)
    return plans


def _detection(seconds: float) -> SweepPlan:
    """One publisher, one subscriber and one lossy link, without anybody who could repair: only detection counts."""
    network = {
        "topology": {"kind": "line", "brokers": 2},
        "links": {"delay_ms": 10, "loss": 0.1, "lossy_control": False},
        "clients": {"per_broker": 1, "publishers": 1, "subscribers": "others"},
        "workload": {"kind": "rates", "rates_per_s": [500, 500], "match": [0.1, 0.1]},
        # Wide filters, or false alarms would be counted among the losses.
        "reliability": {**{key.partition(".")[2]: value for key, value in SRM.items()}, "filter_bits": 2_048},
    }
    variants = {
        f"{match} {loss} {record}": {
            "workload.match": [match, match],
            "links.loss": loss,
            "reliability.record": record,
        }
        for match in _GRID["match"]
        for loss in _GRID["loss"]
        for record in _GRID["record"]
    }
    return plan(network, variants=variants, seeds=1, settings={"duration_s": seconds})


STUDY = Study("end-to-end", "End-to-end recovery (paper 000)", _plans, claims, figures)

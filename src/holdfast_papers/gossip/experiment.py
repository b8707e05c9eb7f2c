"""Paper 001, epidemic recovery in brokers: its five styles, ours, and ours together with links that repair themselves.

The paper leaves open the shape of its tree, the chance that gossip is sent on, how often combined pull asks towards the
publisher, and what unicast between dispatchers loses. The tree is the one that gives its three baselines; the two
chances are fitted; unicast loses nothing here. Delivery is measured over events that are published well after the
start and well before the end of a run, so that neither empty buffers nor missing time count.
"""

from collections.abc import Mapping

from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan, preset_document
from holdfast_papers.gossip.claims import claims
from holdfast_papers.gossip.figures import figures
from holdfast_papers.gossip.measures import (
    COMBINED,
    FEW,
    NACK,
    NONE,
    OURS,
    PRESET,
    PUSH,
    STYLES,
)
from holdfast_papers.study import Scale, Study

_SECONDS: dict[Scale, float] = {"quick": 7.0, "paper": 25.0}
_CALM_S: dict[Scale, float] = {
    "quick": 12.0,
    "paper": 25.0,
}  # at 5 publications a second a loss takes long to be noticed
_SEEDS: dict[Scale, int] = {"quick": 1, "paper": 3}
_BUFFERS: dict[Scale, tuple[int, ...]] = {"quick": (500, 4_000), "paper": (500, 1_000, 2_000, 3_000, 4_000)}
_INTERVALS: dict[Scale, tuple[float, ...]] = {"quick": (0.015, 0.055), "paper": (0.01, 0.02, 0.04, 0.055)}
_SIZES: dict[Scale, tuple[int, ...]] = {"quick": (40, 200), "paper": (40, 70, 130, 160, 200)}
_PATTERNS: dict[Scale, tuple[int, ...]] = {"quick": (1, 6), "paper": (1, 4, 6, 10, 20, 30)}
_LOSSES = (0.01, 0.05)
_LAYERS: dict[str, dict[str, object]] = {
    NACK: {"reliability.hops": NACK},
    f"{NACK} and {OURS}": {"reliability.hops": NACK, "reliability.gossip": OURS},
    "end-to-end": {"reliability.recovery": "end-to-end"},
    f"end-to-end and {COMBINED}": {"reliability.recovery": "end-to-end", "reliability.gossip": COMBINED},
}
_BURSTS: dict[str, object] = {  # a tenth of all messages as well, but eight in a row on average
    "links.loss": 0.0,
    "links.burst": {"to_bad": 1 / 72, "to_good": 1 / 8, "loss": 1.0},
}
_CRASHES: dict[str, object] = {
    "links.loss": 0.0,
    "brokers.availability": 0.99,  # a broker is up for a minute, then down for 0.6 s:
    "brokers.cycle_s": 60,  # of a hundred, every 0.6 s another one
    "protocol.heartbeat_s": 0.2,
    "protocol.lease_s": 0.7,
}


def _styles(*names: str) -> dict[str, dict[str, object]]:
    return {name: {"reliability.gossip": "none" if name == NONE else name} for name in names}


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    network, seeds, seconds = preset_document(PRESET), _SEEDS[scale], _SECONDS[scale]
    fixed: dict[str, object] = {
        "duration_s": seconds,
        "workload.start_s": 0.1,
        "workload.stop_s": seconds,
        "slices_s": 0.5,
        "links.lossy_control": False,  # the paper's subscriptions are stable
        "reliability.gossip_transfer": "direct",
    }
    calm = {**fixed, "duration_s": _CALM_S[scale], "workload.stop_s": _CALM_S[scale], "workload.rate_per_s": 5}
    rebuilt = {**fixed, "links.loss": 0.0, "slices_s": 0.1}

    def made(
        variants: Mapping[str, Mapping[str, object]], settings: Mapping[str, object], **grid: tuple[object, ...]
    ) -> SweepPlan:
        axes = {key.replace("__", "."): list(values) for key, values in grid.items()}
        return plan(network, axes, variants=variants, seeds=seeds, settings=settings)

    sizes = {
        f"{name}, {size}": {**changed, "topology.brokers": size, "reliability.gossip_buffer": 15 * size}
        for name, changed in _styles(*FEW).items()
        for size in _SIZES[scale]
    }
    quick = scale == "quick"
    ours = {name: _LAYERS[name] for name in (NACK, f"{NACK} and {OURS}")}
    return {
        "baseline": made(_styles(NONE), fixed, links__loss=(0.01, 0.05, 0.1)),
        "delivery": made(_styles(*STYLES), fixed, links__loss=(0.05, 0.1)),
        "layers": made(_LAYERS, fixed),
        "rebuilt": made(_styles(NONE, PUSH, COMBINED, OURS), rebuilt, reconfiguration__every_s=(0.03, 0.2)),
        "crashes": made({**_styles(NONE, COMBINED, OURS), **ours}, {**fixed, **_CRASHES}),
        "bursts": made({**_styles(NONE, COMBINED, OURS), **ours}, {**fixed, **_BURSTS}),
        "buffers": made(_styles(*FEW), fixed, reliability__gossip_buffer=_BUFFERS[scale]),
        "intervals": made(_styles(*FEW), fixed, reliability__gossip_interval_s=_INTERVALS[scale]),
        "both": made(
            _styles(COMBINED),
            fixed,
            reliability__gossip_buffer=_BUFFERS[scale],
            reliability__gossip_interval_s=_INTERVALS[scale],
        ),
        "sizes": made(sizes, fixed),
        "patterns": made(
            _styles(*FEW), {**fixed, "reliability.gossip_buffer": 4_000}, workload__per_client=_PATTERNS[scale]
        ),
        "patterns, calm": made(
            _styles(*FEW), {**calm, "reliability.gossip_buffer": 4_000}, workload__per_client=_PATTERNS[scale]
        ),
        "calm": made(_styles(*FEW), calm, links__loss=_LOSSES),
        **({} if quick else {"losses": made(_styles(*FEW), fixed, links__loss=_LOSSES)}),
    }


STUDY = Study("gossip", "Epidemic recovery (paper 001)", _plans, claims, figures)

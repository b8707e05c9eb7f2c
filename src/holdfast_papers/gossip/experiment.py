"""Paper 001, epidemic recovery in brokers: its five styles, ours, and ours together with links that repair themselves.

The paper leaves open the shape of its tree, the chance that gossip is sent on, how often combined pull asks towards the
publisher, and what unicast between dispatchers loses. The tree is the one that gives its three baselines; the two
chances are fitted; unicast loses nothing here, except where ours is compared: there everything goes over the lossy
links of the overlay. Links have the paper's 10 Mbit/s.

A run lasts as long as the paper's, or, at the quick scale, until events have been published for a second of which each
has had its time in a full buffer. What decides a claim has five seeds; the other styles and points of a figure have one
(the sweeps called "more"). The quick scale has 40 brokers and smaller buffers in proportion wherever a claim is about
an order and not about a value: rows say so.
"""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.pipeline.sweep.check import plan
from holdfast.pipeline.sweep.plan import SweepPlan, preset_document
from holdfast_papers.gossip.claims import claims
from holdfast_papers.gossip.figures import figures
from holdfast_papers.gossip.measures import (
    BUFFER,
    COMBINED,
    FEW,
    MORE,
    NACK,
    NONE,
    OURS,
    PAPERS,
    PRESET,
    PUBLISHER,
    PUSH,
    RANDOM,
    STYLES,
    SUBSCRIBER,
    persistence_s,
)
from holdfast_papers.study import Scale, Study

_WARM_AND_MEASURED_S = 1.5
_SEEDS = 5
_LEADING = (*FEW, SUBSCRIBER)


class _Size(NamedTuple):
    """How large the sweeps about orders are."""

    brokers: int
    seconds: float | None  # None: as short as may be
    ours_s: float  # runs about our own designs, which have no length of the paper
    points: bool  # whether figures get points between the ends


_SIZES: dict[Scale, _Size] = {"quick": _Size(40, None, 4.0, False), "paper": _Size(100, 25.0, 10.0, True)}
_BUFFERS, _MORE_BUFFERS = (500, 4_000), (1_000, 2_500)  # of 100 brokers
_INTERVALS, _MORE_INTERVALS = (0.015, 0.055), (0.01, 0.04)
_PATTERNS, _MORE_PATTERNS = (2, 6), (10, 30)
_ERROR_RATES: dict[Scale, tuple[float, ...]] = {"quick": (0.01,), "paper": (0.01, 0.05)}
_CALM_S: dict[Scale, float] = {"quick": 20.0, "paper": 25.0}  # at 5 publications/s a loss takes long to be noticed
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
_DIRECT = {"reliability.gossip_transfer": "direct"}
_OVERLAY = {"reliability.gossip_transfer": "overlay"}


def _styles(*names: str) -> dict[str, dict[str, object]]:
    return {name: {"reliability.gossip": "none" if name == NONE else name} for name in names}


class _Plans:
    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._size = _SIZES[scale]
        self._document = preset_document(PRESET)

    @property
    def has_points(self) -> bool:
        return self._size.points

    def scaled(self, buffer: int) -> int:
        """A buffer of the paper, which has 100 brokers, in proportion."""
        return buffer * self._size.brokers // 100

    def settings(self, more: Mapping[str, object], brokers: int | None = None) -> dict[str, object]:
        """Of runs with so many brokers, as long as they have to be."""
        brokers = brokers or self._size.brokers
        settings: dict[str, object] = {
            "topology.brokers": brokers,
            "reliability.gossip_buffer": BUFFER * brokers // 100,
            "workload.start_s": 0.1,
            "slices_s": 0.5,
            "links.lossy_control": False,  # the paper's subscriptions are stable
            "links.bytes_per_s": 1_250_000,
            **_DIRECT,
            **more,
        }
        if "duration_s" not in settings:
            settings["duration_s"] = self._size.seconds or _WARM_AND_MEASURED_S + persistence_s(settings)
        settings["workload.stop_s"] = settings["duration_s"]
        return settings

    def of(
        self,
        variants: Mapping[str, Mapping[str, object]],
        more: Mapping[str, object],
        seeds: int = _SEEDS,
        brokers: int | None = None,
        **grid: tuple[object, ...],
    ) -> SweepPlan:
        axes = {key.replace("__", "."): list(values) for key, values in grid.items()}
        settings = self.settings(more, brokers)
        return plan(self._document, axes, variants=variants, seeds=seeds, settings=settings)

    def varied(self, name: str, values: tuple[object, ...], styles: tuple[str, ...], seeds: int) -> SweepPlan:
        """One plan for each value, as variants of one: runs of different values last differently long."""
        variants = {}
        for value in values:
            settings = self.settings({name: self.scaled(value) if name.endswith("buffer") else value})  # type: ignore[arg-type]
            for style, of_style in _styles(*styles).items():
                variants[f"{style}, {value}"] = {**settings, **of_style}
        return plan(self._document, variants=variants, seeds=seeds)


def _plans(scale: Scale) -> Mapping[str, SweepPlan]:
    made, quick = _Plans(scale), scale == "quick"
    found = {
        "baseline": _baseline(scale),
        "delivery": made.of(_styles(*(_LEADING if quick else STYLES)), {}, brokers=100),
        "delivery, 0.05": made.of(_styles(*FEW), {"links.loss": 0.05}, brokers=100),
        "rebuilt": made.of(
            _styles(NONE, PUSH, COMBINED, OURS),
            {"links.loss": 0.0, "slices_s": 0.1},
            brokers=100,
            reconfiguration__every_s=(0.03, 0.2),
        ),
    }
    if quick:
        found["styles"] = made.of(_styles(*STYLES), {})
    found |= _tuning(made)
    found |= _sizes(scale, made)
    found |= _patterns(scale, made)
    found |= _ours(scale, made)
    return found


def _baseline(scale: Scale) -> SweepPlan:
    """Without recovery and without a capacity, which no link comes near: then runs take a tenth of the time."""
    settings = {"duration_s": 6.0 if scale == "quick" else 25.0, "slices_s": 0.5, "links.lossy_control": False}
    return plan(
        preset_document(PRESET), {"links.loss": [0.01, 0.05, 0.1]}, variants=_styles(NONE), seeds=10, settings=settings
    )


def _tuning(made: _Plans) -> dict[str, SweepPlan]:
    found: dict[str, SweepPlan] = {}
    others = (PUBLISHER, RANDOM)
    for key, name, ends, between in (
        ("buffers", "reliability.gossip_buffer", _BUFFERS, _MORE_BUFFERS),
        ("intervals", "reliability.gossip_interval_s", _INTERVALS, _MORE_INTERVALS),
    ):
        found[key] = made.varied(name, ends, _LEADING, _SEEDS)
        found[key + MORE] = made.varied(name, ends, others, 1)
        if made.has_points:
            found[key + " between" + MORE] = made.varied(name, between, PAPERS, 1)
    corners = {}
    for buffer in _BUFFERS:  # with the default, that of the sweep over intervals
        for interval in _INTERVALS:
            more = {"reliability.gossip_buffer": made.scaled(buffer), "reliability.gossip_interval_s": interval}
            corners[f"{buffer}, {interval}"] = made.settings(more) | _styles(COMBINED)[COMBINED]
    found["both"] = plan(preset_document(PRESET), variants=corners, seeds=_SEEDS)
    return found


def _sizes(scale: Scale, made: _Plans) -> dict[str, SweepPlan]:
    """Buffers grow with the brokers, so that events stay as long."""
    quick = scale == "quick"
    ends = (40,) if quick else (40, 200)  # the quick scale has 40 in "styles" and 100 in "delivery"
    found: dict[str, SweepPlan] = {}
    for size in () if quick else ends:
        seconds = {"duration_s": 12.5} if size == 200 else {}
        found[f"brokers, {size}"] = made.of(_styles(*FEW), seconds, brokers=size)
        found[f"brokers, {size}{MORE}"] = made.of(_styles(PUBLISHER, RANDOM, SUBSCRIBER), seconds, 1, size)
    return found


def _patterns(scale: Scale, made: _Plans) -> dict[str, SweepPlan]:
    large = {"reliability.gossip_buffer": made.scaled(4_000)}
    calm = {**large, "workload.rate_per_s": 5, "duration_s": _CALM_S[scale]}
    found = {
        "patterns": made.of(_styles(*FEW), large, workload__per_client=_PATTERNS),
        "patterns, calm": made.of(_styles(*FEW), calm, workload__per_client=_PATTERNS),
        "patterns, calm" + MORE: made.of(
            _styles(SUBSCRIBER, PUBLISHER, RANDOM), calm, 1, workload__per_client=_PATTERNS
        ),
        "patterns" + MORE: made.of(_styles(SUBSCRIBER, PUBLISHER, RANDOM), large, 1, workload__per_client=_PATTERNS),
        "calm": made.of(
            _styles(*FEW),
            {"workload.rate_per_s": 5, "duration_s": _CALM_S[scale], "reliability.gossip_lost_s": 60},
            links__loss=_ERROR_RATES[scale],
        ),
    }
    if made.has_points:
        found["patterns between" + MORE] = made.of(_styles(*FEW), large, 1, workload__per_client=_MORE_PATTERNS)
        found["patterns between, calm" + MORE] = made.of(_styles(*FEW), calm, 1, workload__per_client=_MORE_PATTERNS)
        found["losses" + MORE] = made.of(_styles(*FEW), {}, 1, links__loss=_ERROR_RATES[scale])
    return found


def _ours(scale: Scale, made: _Plans) -> dict[str, SweepPlan]:
    """Our own designs, over the overlay: digests, vectors, requests and events cross the same lossy links."""
    fixed = {**_OVERLAY, "duration_s": _SIZES[scale].ours_s}
    links = {name: _LAYERS[name] for name in (NACK, f"{NACK} and {OURS}")}
    few = _styles(NONE, COMBINED, OURS)
    return {
        "overlay": made.of(_styles(*FEW, OURS), fixed),
        "layers": made.of(_LAYERS, fixed),
        "crashes": made.of({**few, **links}, {**fixed, **_CRASHES}),
        "bursts": made.of({**few, **links}, {**fixed, **_BURSTS}),
    }


STUDY = Study("gossip", "Epidemic recovery (paper 001)", _plans, claims, figures)

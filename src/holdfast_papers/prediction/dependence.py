"""What the schemes' reliability depends on: the last slide of paper 004 names quality, lifetime and connectivity.

Exact predictions of random graphs, with one of the two changed: how long events live, and how many links there are.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.pipeline.charts.lines import Line, LineChart
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import difference, estimate, spot
from holdfast_papers.models import Cell
from holdfast_papers.prediction.failures import SCHEMES
from holdfast_papers.prediction.networks import CLASSES, LIFETIME_S, READINGS, PredictionSetting, exact_misses
from holdfast_papers.study import Runs, Scale
from holdfast_papers.verdicts import about, more_than

_DEGREE = 4.0
_LIFETIMES_S = (600.0, 3_600.0, 36_000.0)
_DEGREES = (2.5, 4.0, 6.0)
_SEEDS: dict[Scale, int] = {"quick": 12, "paper": 60}


def cells(scale: Scale) -> list[Cell]:
    points = [(lifetime_s, _DEGREE) for lifetime_s in _LIFETIMES_S]
    points += [(LIFETIME_S, degree) for degree in _DEGREES if degree != _DEGREE]
    return [
        {"quality": quality, "seed": seed, "lifetime_s": lifetime_s, "mean_degree": degree}
        for quality in CLASSES
        for lifetime_s, degree in points
        for seed in range(1, _SEEDS[scale] + 1)
    ]


def measure(cell: Cell) -> dict[str, Any]:
    return exact_misses(PredictionSetting("graphs", worlds=0, **cell))


def dependence_claims(runs: Runs) -> Iterator[Claim]:
    for reading in READINGS:
        for quality in CLASSES:
            yield from _of_lifetime(runs.of(quality=quality), quality, reading)
            yield from _of_links(runs.of(quality=quality), quality, reading)


def _misses(runs: Runs, reading: str, scheme: str, lifetime_s: float, degree: float) -> list[float]:
    return runs.of(lifetime_s=lifetime_s, mean_degree=degree).column(f"{reading}/{scheme}")


def _settings(runs: Runs) -> str:
    return f"graphs: 10 brokers, seeds 1 to {len(runs.by_seed())}, exact predictions"


def _of_lifetime(runs: Runs, quality: str, reading: str) -> Iterator[Claim]:
    short_s, long_s = _LIFETIMES_S[0], _LIFETIMES_S[-1]
    before = f"{quality} graphs, ends {reading}: "
    for scheme, words, allowed in (
        ("retransmission", "depends on lifetime", more_than(0)),
        ("hybrid", "depends on lifetime", more_than(0)),
        ("multipath", "0: it never waits", about(0, 1e-9)),
    ):
        yield Claim(
            f"004-lifetime-{scheme}-{quality}-{reading}",
            f"{before}reliability that {scheme} gains when events live {long_s:g} s instead of {short_s:g}",
            words,
            difference(*(_misses(runs, reading, scheme, each, _DEGREE) for each in (short_s, long_s))),
            allowed,
            "paper",
            _settings(runs),
        )
    for lifetime_s, ahead, behind in (
        (short_s, "multipath", "retransmission"),
        (long_s, "retransmission", "multipath"),
    ):
        yield Claim(
            f"004-lifetime-{lifetime_s:g}-{quality}-{reading}",
            f"{before}reliability that {ahead} is ahead of {behind} when events live {lifetime_s:g} s",
            "schemes perform differently by lifetime",
            difference(*(_misses(runs, reading, each, lifetime_s, _DEGREE) for each in (behind, ahead))),
            more_than(0),
            "paper",
            _settings(runs),
            "the order turns with the lifetime where both of these rows hold",
        )


def _of_links(runs: Runs, quality: str, reading: str) -> Iterator[Claim]:
    few, many = _DEGREES[0], _DEGREES[-1]
    gains = {
        scheme: [
            a - b
            for a, b in zip(*(_misses(runs, reading, scheme, LIFETIME_S, each) for each in (few, many)), strict=True)
        ]
        for scheme in SCHEMES
    }
    before = f"{quality} graphs, ends {reading}: "
    for scheme in SCHEMES:
        yield Claim(
            f"004-degree-{scheme}-{quality}-{reading}",
            f"{before}reliability that {scheme} gains with a mean degree of {many:g} instead of {few:g}",
            "depends on connectivity",
            estimate(gains[scheme]),
            more_than(0),
            "paper",
            _settings(runs),
        )
    yield Claim(
        f"004-degree-more-{quality}-{reading}",
        f"{before}how much more multipath gains by it than retransmission",
        "schemes perform differently by connectivity",
        difference(gains["multipath"], gains["retransmission"]),
        more_than(0),
        "paper",
        _settings(runs),
    )


def dependence_figures(runs: Runs) -> Iterator[LineChart]:
    for key, label, points in (
        ("lifetime_s", "lifetime of events (s)", [(each, _DEGREE) for each in _LIFETIMES_S]),
        ("mean_degree", "mean degree of the graph", [(LIFETIME_S, each) for each in _DEGREES]),
    ):
        for quality in CLASSES:
            mine = runs.of(quality=quality)
            at = 0 if key == "lifetime_s" else 1
            lines, unseen = [], 0
            for scheme in SCHEMES:
                found = [(each[at], estimate(_misses(mine, "counted", scheme, *each))) for each in points]
                seen = [spot(*each) for each in found if each[1].value > 0]
                unseen += len(found) - len(seen)
                if seen:
                    lines.append(Line(scheme, tuple(seen)))
            title = f"Share missed by {label}, {quality} graphs, end brokers counted (paper 004)"
            note = f"{unseen} points where nothing was missed are left out" if unseen else ""
            x_log = key == "lifetime_s"
            yield LineChart(title, label, "share missed", tuple(lines), x_log=x_log, y_log=True, note=note)

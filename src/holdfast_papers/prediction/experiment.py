"""Paper 004, prediction: simulated reliability of every subscriber against the predicted one, and the slides' claims.

The slides do not say whether the brokers of publisher and subscriber may fail. Both readings are shown: the order of
schemes that they report for low-end graphs only comes out when the end brokers are up. Retransmission "a magnitude"
better than basic is a statement about unreliability, the share of events that are missed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from math import inf, sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist, fmean, median
from time import process_time
from typing import TYPE_CHECKING, Any

from holdfast.network.topology import random_graph
from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast.planner.components import with_share
from holdfast.planner.connectivity import diagram_between
from holdfast.planner.overlay import Overlay, OverlayLink
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import Estimate, Interval, difference, estimate, exact, extreme, ratio_of_sums
from holdfast_papers.models import Cell, measured
from holdfast_papers.prediction import dependence, protocol
from holdfast_papers.prediction.dependence import dependence_claims, dependence_figures
from holdfast_papers.prediction.failures import SCHEMES
from holdfast_papers.prediction.live import LIVE_SEEDS, live_claims, live_rows
from holdfast_papers.prediction.losses import loss_claims, loss_plans
from holdfast_papers.prediction.networks import (
    CLASSES,
    READINGS,
    TOPOLOGIES,
    PredictionSetting,
    exact_misses,
    hop_errors,
    rows_of,
)
from holdfast_papers.prediction.protocol import protocol_claims
from holdfast_papers.study import Row, Runs, Scale, Study, WatchParts
from holdfast_papers.verdicts import about, at_least, at_most, less_than, more_than

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NETWORKS: dict[Scale, int] = {"quick": 12, "paper": 30}  # of each kind and quality
_WORLDS: dict[Scale, int] = {"quick": 150_000, "paper": 2_000_000}
_GRAPHS: dict[Scale, int] = {"quick": 10, "paper": 200}  # of each quality, predicted without a simulation
_FALSE_ALARM = 0.01  # chance that any of all comparisons is wrongly said to be off
_ERROR_MAX = 0.005  # of the mean absolute difference


def _settings_of(scale: Scale) -> list[PredictionSetting]:
    return [
        PredictionSetting(topology, quality, seed, _WORLDS[scale])
        for topology in TOPOLOGIES
        for quality in CLASSES
        for seed in range(1, _NETWORKS[scale] + 1)
    ]


def _graphs_of(scale: Scale) -> list[Cell]:
    """Graphs differ more from each other than schemes do, so their order needs many; the exact numbers are quick."""
    return [{"quality": quality, "seed": seed} for quality in CLASSES for seed in range(1, _GRAPHS[scale] + 1)]


_MODELS = {"dependence": (dependence.cells, dependence.measure), "protocol": (protocol.cells, protocol.measure)}


def _cells(scale: Scale) -> Mapping[str, int]:
    live = len(SCHEMES) * LIVE_SEEDS[scale]
    sizes = {name: len(cells(scale)) for name, (cells, _) in _MODELS.items()}
    return {"subscribers": len(_settings_of(scale)), "orders": len(_graphs_of(scale)), **sizes, "live": live}


def _measured(spark: "SparkSession", scale: Scale, out: Path, part: WatchParts) -> Mapping[str, Runs]:
    """One task a network; the tables are kept, so that claims and figures can be made again without them."""
    settings, tables = _settings_of(scale), out / "tables"
    with part("subscribers") as watch:
        cells = [asdict(each) for each in settings]
        found = measured(spark, cells, _subscribers, tables / "subscribers.parquet", watch)
    with part("orders") as watch:
        orders = measured(spark, _graphs_of(scale), _order, tables / "orders.parquet", watch)
    others = {}
    for name, (cells_of, measure) in _MODELS.items():
        with part(name) as watch:
            others[name] = Runs(measured(spark, cells_of(scale), measure, tables / f"{name}.parquet", watch))
    with part("live") as watch:
        live = live_rows(scale, out, watch)
    return {
        "subscribers": Runs([row for each in found for row in each["rows"]]),
        "exact": Runs(list(_exact_times())),
        "shared": Runs([row for setting in settings if setting.seed == 1 for row in hop_errors(setting)]),
        "orders": Runs(orders),
        **others,
        "live": live,
    }


def _subscribers(cell: Cell) -> dict[str, Any]:
    return {"rows": list(rows_of(PredictionSetting(**cell)))}


def _order(cell: Cell) -> dict[str, Any]:
    return exact_misses(PredictionSetting("graphs", cell["quality"], cell["seed"], 0))


def _exact_times() -> Iterator[dict[str, float]]:
    """Processor time for the exact value between two of 30 brokers, everything included."""
    for seed in range(11):
        dice = Random(seed)
        overlay = Overlay(
            tuple(f"b{at + 1}" for at in range(30)),
            tuple(with_share(dice.uniform(0.9, 0.95), 60_000.0) for _ in range(30)),
            tuple(OverlayLink(a, b, with_share(0.99, 60_000.0)) for a, b in random_graph(30, 4, dice)),
        )
        began = process_time()
        diagram = diagram_between(overlay, 0, 29)
        value = diagram.reliability(overlay.availabilities) if diagram else -1.0
        if seed:  # the first one may have to compile
            yield {"seed": seed, "seconds": process_time() - began, "reliability": value}


# Claims -----------------------------------------------------------------------------------------


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    rows = runs["subscribers"]
    for reading in READINGS:
        for quality in CLASSES:
            yield _magnitude(rows, quality, reading)
        yield from _low_end(runs["orders"], reading)
        yield from _high_end(runs["orders"], reading)
    yield from dependence_claims(runs["dependence"])
    yield from protocol_claims(runs["protocol"])
    yield from _errors(rows)
    yield from _of_slides(rows)
    yield from loss_claims(runs["losses"])
    yield from live_claims(runs["live"])
    yield _shared(runs["shared"])
    yield _exact_value(runs["exact"])


def _exact_value(rows: Runs) -> Claim:
    known = min(rows.column("reliability")) >= 0
    return Claim(
        "ours-exact-30",
        "seconds of processor time for the exact multipath reliability between two of 30 brokers, the longest of 10",
        "under 1 is wanted",
        extreme(max(rows.column("seconds")) if known else inf, len(rows.rows)),
        less_than(1, "every"),
        "ours",
        "random graphs of degree 4, seeds 1 to 10",
        "a time on this machine; the slides have a lower bound instead",
    )


def _shared(rows: Runs) -> Claim:
    return Claim(
        "ours-shared-brokers",
        "largest error of taking the waits of hops that share a broker as independent",
        "0 is wanted",
        exact(max(rows.column("error"))),
        at_most(1e-9),
        "ours",
        f"{len(rows.rows)} paths: trees and graphs, both qualities, both readings, seed 1",
        "P(late) by convolution against the chain of all components of the path together",
    )


def _of(rows: Runs, topology: str, quality: str, reading: str, scheme: str) -> list[Row]:
    return list(rows.of(topology=topology, quality=quality, endpoints=reading, scheme=scheme).rows)


def _missed(rows: Iterable[Row], column: str = "simulated") -> float:
    return fmean(1 - row[column] for row in rows)


def _settings(rows: Runs, what: str) -> str:
    seeds = max(row["seed"] for row in rows.rows)
    return f"{what}: 10 brokers, seeds 1 to {seeds}, {rows.rows[0]['worlds']:,} worlds each"


def _by_network(rows: Iterable[Row], measure: Callable[[Row], float]) -> list[float]:
    """The mean over a network's subscribers, by seed: networks are independent, the subscribers of one are not."""
    return [fmean(map(measure, each.rows)) for each in Runs(list(rows)).by_seed()]


def _misses(orders: Runs, quality: str, reading: str, scheme: str) -> list[float]:
    return orders.of(quality=quality).column(f"{reading}/{scheme}")


def _compared(orders: Runs, quality: str, reading: str, worse: str, better: str) -> tuple[Estimate, str]:
    """How much less `better` misses, over graphs, and in how many graphs it is ahead."""
    misses = [_misses(orders, quality, reading, scheme) for scheme in (worse, better)]
    ahead = sum(a > b for a, b in zip(*misses, strict=True))
    note = f"ahead in {ahead} of {len(misses[0])} graphs; the median graph misses {median(misses[0]):.2g} with {worse} "
    return difference(*misses), note + f"and {median(misses[1]):.2g} with {better}"


def _graphs_settings(orders: Runs) -> str:
    return f"graphs: 10 brokers, seeds 1 to {int(max(orders.column('seed')))}, exact predictions"


def _magnitude(rows: Runs, quality: str, reading: str) -> Claim:
    basic, kept = (
        _by_network(_of(rows, "trees", quality, reading, scheme), lambda row: 1 - row["simulated"])
        for scheme in ("basic", "retransmission")
    )
    note = f"misses {fmean(basic):.4g} with basic, {fmean(kept):.4g} with retransmission"
    if fmean(basic) < 10 * fmean(kept):
        note += "; not ours to mend: outages of low-end brokers last 3,000 to 6,000 s on average and events live "
        note += "3,600 s, so waiting mends only some; the slides' words are true of high-end brokers"
    return Claim(
        f"004-trees-{quality}-{reading}",
        f"{quality} trees, ends {reading}: times that basic misses more than retransmission",
        "a magnitude",
        ratio_of_sums(kept, basic).through(_inverse),  # this way the rare misses are not what is divided by
        at_least(10),
        "paper",
        _settings(rows, "trees"),
        note,
    )


def _inverse(share: float) -> float:
    """Of an interval's end, too, that chance has moved below 0."""
    return 1 / share if share > 0 else inf


def _low_end(orders: Runs, reading: str) -> Iterator[Claim]:
    order = ("basic", "retransmission", "multipath", "hybrid")
    for worse, better in pairwise(order):
        gap, note = _compared(orders, "low-end", reading, worse, better)
        if gap.value < 0:
            note += (
                "; not ours to mend: no path helps while an end broker is down, and waiting does; the slides' order "
            )
            note += "needs the ends up, and they do not say that they are"
        yield Claim(
            f"004-low-{worse}-{better}-{reading}",
            f"low-end graphs, ends {reading}: reliability that {better} adds to {worse}",
            "more than 0",
            gap,
            more_than(0),
            "paper",
            _graphs_settings(orders),
            note,
        )


def _high_end(orders: Runs, reading: str) -> Iterator[Claim]:
    gap, note = _compared(orders, "high-end", reading, "multipath", "retransmission")
    yield Claim(
        f"004-high-order-{reading}",
        f"high-end graphs, ends {reading}: reliability that retransmission adds to multipath",
        "more than 0",
        gap,
        more_than(0),
        "paper",
        _graphs_settings(orders),
        note,
    )
    more, _ = _compared(orders, "high-end", reading, "retransmission", "hybrid")
    yield Claim(
        f"004-high-hybrid-{reading}",
        f"high-end graphs, ends {reading}: reliability that hybrid adds to retransmission",
        "not very much",
        more,
        less_than(0.001),
        "paper",
        _graphs_settings(orders),
        "not very much is taken as less than a thousandth",
    )
    kept, both = (_misses(orders, "high-end", reading, scheme) for scheme in ("retransmission", "hybrid"))
    yield Claim(
        f"004-high-hybrid-misses-{reading}",
        f"high-end graphs, ends {reading}: times that retransmission misses more than hybrid",
        "not very much",
        ratio_of_sums(both, kept).through(_inverse),
        less_than(2),
        "paper",
        _graphs_settings(orders),
        'the same on the scale on which "a magnitude" is judged: not very much is taken as less than twice',
    )


def _errors(rows: Runs) -> Iterator[Claim]:
    everything = list(rows.rows)
    settings = _settings(rows, "trees and graphs, both qualities, both readings")
    for scheme in (*SCHEMES, None):
        mine = [row for row in everything if scheme in (None, row["scheme"])]
        yield Claim(
            f"004-error-{scheme or 'all'}",
            f"mean absolute difference between predicted and simulated reliability, {scheme or 'all schemes'}",
            f"at most {_ERROR_MAX} is wanted",
            estimate(_by_network(mine, _off)),
            at_most(_ERROR_MAX),
            "ours",
            settings,
            f"the largest is {max(map(_off, mine)):.2g}; standard errors are {fmean(row['error'] for row in mine):.2g} "
            "on average",
        )
    sure = NormalDist().inv_cdf(1 - _FALSE_ALARM / (2 * len(everything)))
    networks = len(rows.by_seed())
    odd = [row for row in everything if _off(row) > sure * _error(row)]
    yield Claim(
        "004-within-error",
        "simulated values that are off the exact prediction",
        "none",
        extreme(len(odd), networks),
        at_most(0, "every"),
        "paper",
        settings,
        f"of {len(everything):,}; off is by more than {sure:.2f} standard errors, so that even one false alarm "
        f"among them all has a chance of {_FALSE_ALARM:.0%}",
    )
    bounds = [row for row in everything if row["bound"] is not None]
    below = [row for row in bounds if row["simulated"] < row["bound"] - sure * _error(row)]
    yield Claim(
        "004-bound",
        "simulated multipath values below the bound of disjoint paths",
        "none",
        extreme(len(below), networks),
        at_most(0, "every"),
        "ours",
        settings,
        f"of {len(bounds):,}, by as many standard errors; on average the bound misses "
        f"{_missed(bounds, 'bound') / max(_missed(bounds), 1e-12):.3g} times what is missed",
    )


def _off(row: Row) -> float:
    return abs(float(row["predicted"]) - float(row["simulated"]))


def _error(row: Row) -> float:
    """The standard error that the prediction implies, where the simulation saw too few misses to know its own."""
    share = min(max(row["predicted"], 0.0), 1.0)
    return max(float(row["error"]), sqrt(max(share * (1 - share), 1 / row["worlds"]) / row["worlds"]))


def _of_slides(rows: Runs) -> Iterator[Claim]:
    for scheme in ("basic", "multipath", "hybrid"):
        for quality in CLASSES:
            mine = _of(rows, "graphs", quality, "counted", scheme)
            why = "it counts the shared end brokers once for each path"
            if scheme == "basic":
                why = "its availability is the share of the time down"
            share = fmean(row["slides"] > row["simulated"] for row in mine)
            yield Claim(
                f"slides-{scheme}-{quality}",
                f"{quality} graphs, ends counted: how far the slides' {scheme} formula is above what happens",
                "a lower bound" if scheme == "multipath" else "0",
                estimate(_by_network(mine, lambda row: row["slides"] - row["simulated"])),
                at_most(0) if scheme == "multipath" else about(0, 0.001),
                "paper",
                _settings(rows, "graphs"),
                f"an error of the slides, kept for comparison: {why}; above for {share:.0%} of the subscribers; "
                f"ours is off by {fmean(map(_off, mine)):.2g} on average",
            )


# Figures ----------------------------------------------------------------------------------------


def _figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    rows = runs["subscribers"]
    for title, topology, qualities in (
        ("Trees", "trees", ("low-end", "high-end")),
        ("Low-end graphs", "graphs", ("low-end",)),
        ("High-end graphs", "graphs", ("high-end",)),
    ):
        for reading in READINGS:
            yield _scatter(rows, f"{title}, end brokers {reading} (paper 004)", topology, qualities, reading)
    yield from dependence_figures(runs["dependence"])


def _scatter(rows: Runs, title: str, topology: str, qualities: tuple[str, ...], reading: str) -> LineChart:
    """Shares missed, so that schemes that miss little can be told apart; subscribers without a miss are left out."""
    lines, unseen = [], 0
    for scheme in SCHEMES:
        mine = [row for quality in qualities for row in _of(rows, topology, quality, reading, scheme)]
        seen = sorted(
            (row for row in mine if row["simulated"] < 1 > row["predicted"]), key=lambda row: row["predicted"]
        )
        unseen += len(mine) - len(seen)
        spots = tuple(Spot(1 - row["predicted"], 1 - row["simulated"], *_band(row)) for row in seen)
        if spots:
            lines.append(Line(scheme, spots, joined=False))
    ends = [x for line in lines for x in (min(each.x for each in line.spots), max(each.x for each in line.spots))]
    lines.append(Line("as predicted", (Spot(min(ends), min(ends)), Spot(max(ends), max(ends)))))
    return LineChart(
        title,
        "share missed, predicted",
        "share missed, simulated, with 95 % intervals",
        tuple(lines),
        x_log=True,
        y_log=True,
        note=f"{unseen} points where nothing was missed are left out" if unseen else "",
    )


def _band(row: Row) -> Interval:
    missed, half = 1 - row["simulated"], 1.96 * _error(row)
    return max(missed - half, missed / 10), missed + half


STUDY = Study("prediction", "Prediction of reliability (paper 004)", loss_plans, _claims, _figures, _measured, _cells)

"""The figures of paper 000 by their own numbers, drawn again from our runs, and what ours costs beside it."""

from collections.abc import Iterator, Mapping

from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    DIGEST_S,
    EPIDEMIC,
    LARGE,
    NETWORKS,
    OURS,
    PAPER,
    SMALL,
    WITH_CACHE,
    detected_share,
    distribution,
    lengths_of,
    matching,
    of_length,
    over_time,
    recovery_s,
    standard_error,
)
from holdfast_papers.end_to_end.records import detection_probability, shared_detection_probability
from holdfast_papers.estimates import estimate, ratio_of_sums, spot
from holdfast_papers.study import Runs

_RECORDS = (1, 2, 5, 10, 20, 50, 100)  # lengths of records for the closed forms
_MISSING = "share of the owed deliveries that are missing"
_QUANTILES = ((50, "p50"), (90, "p90"), (99, "p99"))


def figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    yield from _detection(runs)
    yield from _workload()
    for network in NETWORKS.values():
        yield _rates(runs[network], network)
    yield LineChart(
        "Lost deliveries by the length of the record (paper 000, figure 5)",
        "publications that each one tells of (R)",
        _MISSING,
        (
            Line("wan-12", tuple(_lost(Runs([*runs["wan-12"].rows, *runs["lengths"].rows])))),
            Line("wan-46", tuple(_lost(runs["wan-46"]))),
        ),
        note="bands: 95 % confidence",
    )
    for network in NETWORKS.values():
        yield from _of_network(runs[network], network)
    yield from _ours(runs)


def _detection(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    lines: dict[str, list[Spot]] = {}
    for row in [*runs["detection"].rows, *runs["detection, rare"].rows[:1]]:
        match, loss, length, share = detected_share(row)
        half = 1.96 * standard_error(share, row)
        lines.setdefault(f"match {match:g}, loss {loss:g}", []).append(Spot(length, share, share - half, share + half))
    for match in (0.001, 0.01, 0.05, 0.1):
        lines[f"Eq. 1: {match:g}, 0.01"] = [Spot(each, detection_probability(match, 0.01, each)) for each in _RECORDS]
    yield LineChart(
        "Probability to detect a loss (paper 000, figure 2a)",
        "publications that each one tells of (R)",
        "share of the losses that is detected",
        tuple(Line(name, tuple(spots)) for name, spots in lines.items()),
    )
    shared = [
        Line(
            f"match {match:g}, {others + 1} nodes",
            tuple(Spot(each, shared_detection_probability(match, 0.01, each, others)) for each in _RECORDS),
        )
        for match in (0.01, 0.05)
        for others in (1, 2, 4)
    ]
    yield LineChart(
        "Probability that one of several nodes detects a loss they share (paper 000, figure 2b)",
        "publications that each one tells of (R)",
        "probability",
        tuple(shared),
        note="a closed form of ours: the paper gives none; conditions overlap by half",
    )


def _workload() -> Iterator[LineChart]:
    drawn = {network: matching(size) for size, network in NETWORKS.items()}
    yield LineChart(
        "Receivers of an event (paper 000, figure 3a)",
        "receivers",
        "share of the events with so many at most",
        tuple(
            Line(name, tuple(Spot(*each) for each in distribution(found.receivers))) for name, found in drawn.items()
        ),
    )
    yield LineChart(
        "Match probability of a subscriber and a publisher (paper 000, figure 3b)",
        "match probability",
        "share of the pairs with so much at most",
        tuple(Line(name, tuple(Spot(*each) for each in distribution(found.shares))) for name, found in drawn.items()),
    )


def _per_second(runs: Runs, what: str, by_growth: bool = False) -> tuple[Spot, ...]:
    slice_s = runs.rows[0]["slices_s"]
    return tuple(
        spot(point.at_s, estimate([each / slice_s for each in point.by_seed]))
        for point in over_time(runs, what, by_growth)
    )


def _rates(runs: Runs, network: str) -> LineChart:
    before = Runs(runs.of(variant=BEST_EFFORT).rows[:1])
    return LineChart(
        f"Publications and deliveries without recovery, {network} (paper 000, figure 4)",
        "time (s)",
        "a second, of all publishers and subscribers",
        (
            Line("publications", _per_second(before, "published")),
            Line("deliveries", _per_second(before, "delivered")),
        ),
        note="seed 1",
    )


def _lost(runs: Runs) -> Iterator[Spot]:
    for length in lengths_of(runs):
        found = of_length(runs, length)
        if found.rows:
            yield spot(length, ratio_of_sums(found.column("lost"), found.column("owed")))


def _of_network(runs: Runs, network: str) -> Iterator[LineChart]:
    paper = runs.of(variant=PAPER)
    yield LineChart(
        f"Lost deliveries over time, {network} (paper 000, figure 6)",
        "published before (s)",
        _MISSING,
        tuple(Line(name, tuple(_missing(runs.of(variant=name)))) for name in (BEST_EFFORT, PAPER, OURS)),
    )
    yield LineChart(
        f"Delays of events, of repairs, and from request to repair, {network} (paper 000, figure 7)",
        "share (%)",
        "seconds",
        (
            Line("events as published", _seconds(runs.of(variant=BEST_EFFORT), "delay_us", (50, 90, 99))),
            Line("recovered events", _seconds(paper, "recovery_delay_us", (50, 90, 99))),
            Line("until the loss is detected", _seconds(paper, f"phases_us.{c.DETECTION}", (50, 80, 99))),
            Line("from detection to request", _seconds(paper, f"phases_us.{c.REQUEST}", (50, 80, 99))),
            Line("from request to repair, as sent", _seconds(paper, f"phases_us.{c.REPAIR}", (50, 80, 99))),
            Line("from request to repair, as it arrives", _seconds(paper, f"phases_us.{c.ANSWER}", (50, 80, 99))),
        ),
        note="R = 10",
    )
    first = Runs(paper.rows[:1])
    yield LineChart(
        f"Publications, requests and repairs, {network} (paper 000, figure 8)",
        "time (s)",
        "a second, of all nodes",
        (
            Line("publications", _per_second(first, "published")),
            Line("requests", _per_second(first, c.ASKED, by_growth=True)),
            Line("repairs", _per_second(first, c.REPAIRED, by_growth=True)),
        ),
        note="R = 10, seed 1",
    )
    yield LineChart(
        f"Delivery delay with and without recovery, {network} (paper 000, figure 9)",
        "share of the deliveries (%)",
        "seconds",
        tuple(Line(name, _seconds(runs.of(variant=name), "delay_us", (50, 90, 99))) for name in (BEST_EFFORT, PAPER)),
        note="the work of brokers on longer messages costs nothing here",
    )
    yield LineChart(
        f"Hit ratio, {network} (paper 000, figure 10)",
        "time (s)",
        "share of the requested events that somebody repairs",
        (Line(PAPER, tuple(_hits(paper))),),
    )
    yield LineChart(
        f"Lengths of caches, {network} (paper 000, figure 11)",
        "time (s)",
        "events of one publisher (K)",
        tuple(
            Line(name, tuple(spot(point.at_s, estimate(point.by_seed)) for point in points))
            for name, points in (
                ("shortest", over_time(paper, f"{c.SHORTEST} at the end")),
                ("longest", over_time(paper, f"{c.LONGEST} at the end")),
            )
        )
        + (Line("mean", tuple(_mean_lengths(paper))),),
    )


def _missing(runs: Runs) -> Iterator[Spot]:
    for owed, got in zip(over_time(runs, "owed"), over_time(runs, "delivered"), strict=True):
        yield spot(owed.at_s, ratio_of_sums(got.by_seed, owed.by_seed).through(lambda share: 1 - share))


def _seconds(runs: Runs, metric: str, percents: tuple[int, ...]) -> tuple[Spot, ...]:
    return tuple(spot(each, estimate([us / 1e6 for us in runs.column(f"{metric}.p{each}")])) for each in percents)


def _hits(paper: Runs) -> Iterator[Spot]:
    wanted = {point.at_s: point.by_seed for point in over_time(paper, c.WANTED, by_growth=True)}
    for point in over_time(paper, c.ANSWERED, by_growth=True):
        if all(wanted.get(point.at_s, [0])):
            yield spot(point.at_s, ratio_of_sums(point.by_seed, wanted[point.at_s]))


def _mean_lengths(paper: Runs) -> Iterator[Spot]:
    followed = {point.at_s: point.by_seed for point in over_time(paper, f"{c.FOLLOWED} at the end")}
    for point in over_time(paper, f"{c.LENGTHS} at the end"):
        yield spot(point.at_s, ratio_of_sums(point.by_seed, followed[point.at_s]))


# Ours ------------------------------------------------------------------------------------------------------------


def _ours(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    for name in (NETWORKS[SMALL], NETWORKS[LARGE], EPIDEMIC):
        found = runs[name]
        variants = [each for each in (PAPER, WITH_CACHE, OURS) if found.of(variant=each).rows]
        yield LineChart(
            f"How long a recovered event takes, {name}",
            "share of the recovered events (%)",
            "from publishing to delivery (s)",
            tuple(
                Line(each, tuple(spot(x, recovery_s(found.of(variant=each), quantile)) for x, quantile in _QUANTILES))
                for each in variants
            ),
        )
        yield LineChart(
            f"What recovery costs and brings, {name}",
            "bytes beyond best effort (%)",
            f"{_MISSING} (%)",
            tuple(Line(each, (_cost(found, each),)) for each in (BEST_EFFORT, *variants)),
        )
    yield LineChart(
        "Ours: bytes against the time to recover, wan-12",
        "bytes of a second",
        "median time from publishing to the recovered delivery (s)",
        (Line("a digest every 0.1, 0.2, 0.4 and 1 s", tuple(_tradeoff(runs["digests"]))),),
        note="one seed",
    )


def _cost(runs: Runs, variant: str) -> Spot:
    before, found = runs.of(variant=BEST_EFFORT), runs.of(variant=variant)
    return Spot(
        100 * (found.total("bytes") / before.total("bytes") - 1), 100 * found.total("lost") / found.total("owed")
    )


def _tradeoff(runs: Runs) -> Iterator[Spot]:
    for digest_s in DIGEST_S:
        found = runs.of(reliability__digest_s=digest_s)
        yield spot(found.total("bytes") / found.total("duration_s"), recovery_s(found, "p50"))

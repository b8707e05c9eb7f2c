"""The figures of paper 000, drawn again from our runs, and what ours costs beside it."""

from collections.abc import Iterator, Mapping

from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    DIGEST_S,
    GROWING_S,
    NETWORKS,
    OURS,
    PAPER,
    VARIANTS,
    WITH_CACHE,
    cached,
    detected_share,
    recovery_s,
    standard_error,
)
from holdfast_papers.end_to_end.records import detection_probability
from holdfast_papers.estimates import ratio_of_sums, spot
from holdfast_papers.study import Runs


def figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    yield LineChart(
        "False negatives by the length of the record (paper 000, figure 6)",
        "publications that each one tells of (R)",
        "share of the owed deliveries that are missing",
        tuple(Line(network, tuple(_false_negatives(runs[network]))) for network in NETWORKS.values()),
        note="the scheme of paper 000; bands: 95 % confidence",
    )
    yield LineChart(
        "False negatives over time (paper 000, figure 7), wan-12",
        "published after (s)",
        "share of the owed deliveries that are missing",
        tuple(Line(variant, tuple(_over_time(runs["wan-12"], variant))) for variant in (BEST_EFFORT, PAPER, OURS)),
    )
    yield LineChart(
        "The hit ratio climbs (paper 000, figure 10), wan-12",
        "time (s)",
        "share of the requested events that somebody repairs, since the time before",
        (Line(PAPER, tuple(_hit_ratios(runs["caches"]))),),
    )
    yield LineChart(
        "Caches (paper 000, figure 11), wan-12",
        "time (s)",
        "events of one publisher in a subscriber's cache, mean",
        (Line(PAPER, tuple(spot(each, cached(runs["caches"].of(duration_s=each))) for each in GROWING_S)),),
    )
    for network in NETWORKS.values():
        yield LineChart(
            f"How long a recovered event takes, {network}",
            "share of the recovered events (%)",
            "from publishing to delivery (s)",
            tuple(
                Line(variant, tuple(_quantiles(runs[network].of(variant=variant))))
                for variant in (PAPER, WITH_CACHE, OURS)
            ),
        )
        yield LineChart(
            f"What recovery costs and brings, {network}",
            "bytes beyond best effort (%)",
            "share of the owed deliveries that are missing (%)",
            tuple(Line(variant, (_cost(runs[network], variant),)) for variant in VARIANTS),
        )
    yield LineChart(
        "Ours: bytes against the time to recover, wan-12",
        "bytes beyond best effort (%)",
        "median time from publishing to the recovered delivery (s)",
        (
            Line("a digest every 0.1, 0.2, 0.4 and 1 s", tuple(_tradeoff(runs))),
            Line(PAPER, (_tradeoff_paper(runs),)),
        ),
    )
    yield _detection_chart(runs["detection"])


def _false_negatives(runs: Runs) -> Iterator[Spot]:
    for x, variant in ((0, BEST_EFFORT), (1, "R = 1"), (5, "R = 5"), (10, PAPER)):
        found = runs.of(variant=variant)
        yield spot(x, ratio_of_sums(found.column("lost"), found.column("owed")))


def _over_time(runs: Runs, variant: str) -> Iterator[Spot]:
    found = runs.of(variant=variant)
    seconds = found.rows[0]["slices_s"]
    names = {name.rpartition(".")[2] for row in found.rows for name in row if name.startswith("slices.owed.")}
    for name in sorted(names):
        owed, delivered = (found.column(f"slices.{what}.{name}") for what in ("owed", "delivered"))
        if all(owed):
            lost = ratio_of_sums(delivered, owed).through(lambda share: 1 - share)
            yield spot((int(name) + 0.5) * seconds, lost)


def _hit_ratios(runs: Runs) -> Iterator[Spot]:
    before = [0.0, 0.0]
    for seconds in GROWING_S:
        now = [runs.of(duration_s=seconds).total(f"recovery.{name}") for name in (c.ANSWERED, c.WANTED)]
        answered, wanted = (a - b for a, b in zip(now, before, strict=True))
        if wanted > 0:
            yield Spot(seconds, answered / wanted)
        before = now


def _quantiles(runs: Runs) -> Iterator[Spot]:
    for x, name in ((50, "p50"), (90, "p90"), (99, "p99")):
        yield spot(x, recovery_s(runs, name))


def _cost(runs: Runs, variant: str) -> Spot:
    before, found = runs.of(variant=BEST_EFFORT), runs.of(variant=variant)
    return Spot(
        100 * (found.total("bytes") / before.total("bytes") - 1), 100 * found.total("lost") / found.total("owed")
    )


def _tradeoff(runs: Mapping[str, Runs]) -> Iterator[Spot]:
    before = runs["wan-12"].of(variant=BEST_EFFORT).total("bytes")
    for digest_s in DIGEST_S:
        found = runs["digests"].of(reliability__digest_s=digest_s)
        yield spot(100 * (found.total("bytes") / before - 1), recovery_s(found, "p50"))


def _tradeoff_paper(runs: Mapping[str, Runs]) -> Spot:
    before, found = (runs["wan-12"].of(variant=variant) for variant in (BEST_EFFORT, PAPER))
    return spot(100 * (found.total("bytes") / before.total("bytes") - 1), recovery_s(found, "p50"))


def _detection_chart(runs: Runs) -> LineChart:
    lines: dict[str, list[Spot]] = {}
    for row in runs.rows:
        match, loss, record, share = detected_share(row)
        half = 1.96 * standard_error(share, row)
        lines.setdefault(f"match {match:g}, loss {loss:g}", []).append(Spot(record, share, share - half, share + half))
        expected = Spot(record, detection_probability(match, loss, record))
        lines.setdefault(f"Eq. 1: {match:g}, {loss:g}", []).append(expected)
    return LineChart(
        "Probability to detect a loss (paper 000, figure 2)",
        "publications that each one tells of (R)",
        "share of the losses that is detected",
        tuple(Line(name, tuple(spots)) for name, spots in lines.items()),
    )

"""The claims of paper 000, from the runs of the study, by the number of the figure or section that makes them."""

from collections.abc import Iterator, Mapping
from statistics import fmean

from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.claims import Claim, shown
from holdfast_papers.end_to_end import ours
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    CALM,
    LARGE,
    NETWORKS,
    PAPER,
    SMALL,
    WITH_CACHE,
    cached,
    detected_share,
    factor,
    hit_ratios,
    matching,
    over_time,
    phase_s,
    record,
    recovery_s,
    seconds,
    standard_error,
)
from holdfast_papers.end_to_end.records import detection_probability, shared_detection_probability
from holdfast_papers.estimates import Estimate, difference, estimate, exact, extreme, ratio, ratio_of_sums
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import Allowed, about, at_most, less_than, more_than

_EARLY, _LATE = (1 / 3, 2 / 3), (2 / 3, 1.0)  # parts of a run in which a hit ratio that has settled is the same


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _detection(runs)
    yield from _workload()
    yield from _effectiveness(runs)
    for size, network in NETWORKS.items():
        found = runs[network].of(variant=PAPER)
        settings = settings_of(network, found)
        yield from _over_time(runs[network], size, settings)
        yield from _delays(found, size, settings)
        yield from _messages(found, size, settings)
        yield from _cost(runs[network], size, settings)
        yield from _caches(found, size, settings)
    yield from _between_networks(runs)
    yield from ours.claims(runs)


def settings_of(network: str, runs: Runs) -> str:
    row = runs.rows[0]
    seeds = len({each["seed"] for each in runs.rows})
    return f"{network}, {row['duration_s']:g} s, {'seed 1' if seeds == 1 else f'seeds 1 to {seeds}'}"


# Section 3.5: how likely a loss is detected ----------------------------------------------------------------------


def _detection(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    worst, where = 0.0, ""
    for row in runs["detection"].rows:
        match, loss, length, share = detected_share(row)
        expected = detection_probability(match, loss, length)
        error = abs(share - expected) / standard_error(expected, row)
        if error > worst:
            worst, where = error, f"match {match:g}, loss {loss:g}, R = {length}: {share:.4f}, not {expected:.4f}"
    points = len(runs["detection"].rows)
    yield Claim(
        "000-eq1",
        "probability to detect a loss: largest distance from Eq. 1, in standard errors",
        "none, that is at most 3",
        extreme(worst, points),
        at_most(3, "every"),
        "paper",
        f"{points} points, 500 events/s for {runs['detection'].rows[0]['duration_s']:g} s",
        where,
    )
    rare = runs["detection, rare"]
    shares = [detected_share(row)[3] for row in sorted(rare.rows, key=lambda row: row["seed"])]
    yield Claim(
        "000-2a",
        "share of the losses that is detected at match probability 0.05, loss 0.01 and R = 10",
        "0.4",
        estimate(shares),
        about(0.4),
        "paper",
        f"2,000 events/s for {rare.rows[0]['duration_s']:g} s, seeds 1 to {len(shares)}",
        f"Eq. 1: {detection_probability(0.05, 0.01, 10):.4f}",
    )
    yield Claim(
        "000-2a-rare",
        "the same at match probability 0.001, by Eq. 1",
        "very inefficient",
        exact(detection_probability(0.001, 0.01, 10)),
        less_than(0.05),
        "paper",
        "closed form",
    )
    few, many = (shared_detection_probability(0.01, 0.01, 10, others) for others in (1, 4))
    yield Claim(
        "000-2b",
        "a loss that 5 nodes share is detected more often than one that 2 share, at R = 10 and match probability 0.01",
        "grows faster with more nodes",
        exact(many / few),
        more_than(1),
        "paper",
        "closed form of ours, because the paper gives none",
        f"{few:.3f} with 2 nodes, {many:.3f} with 5; at match probability 0.05 it is "
        + " and ".join(f"{shared_detection_probability(0.05, 0.01, 10, others):.3f}" for others in (1, 4)),
    )


# Figure 3: the workload is drawn so ------------------------------------------------------------------------------


def _workload() -> Iterator[Claim]:
    for size, network in NETWORKS.items():
        drawn = [matching(size, seed) for seed in range(1, 6)]
        yield Claim(
            f"000-3a-{size}",
            f"share of the events with two receivers at most, {size} brokers",
            "0.5",
            estimate([sum(each <= 2 for each in found.receivers) / len(found.receivers) for found in drawn]),
            about(0.5),
            "fitted",
            f"{network}, seeds 1 to 5",
            f"{fmean(fmean(found.receivers) for found in drawn):.1f} receivers on average",
        )
        yield Claim(
            f"000-3b-{size}",
            f"share of the pairs with a match probability below 0.08, {size} brokers",
            "0.8",
            estimate([sum(each < 0.08 for each in found.shares) / len(found.shares) for found in drawn]),
            about(0.8),
            "fitted",
            f"{network}, seeds 1 to 5",
        )
        yield Claim(
            f"000-3b-max-{size}",
            f"the highest match probability of a pair, {size} brokers",
            "not higher than 0.1",
            extreme(max(max(found.shares) for found in drawn), 5),
            at_most(0.1, "every"),
            "fitted",
            f"{network}, seeds 1 to 5",
        )


# Section 4.2: what is recovered ----------------------------------------------------------------------------------


def _effectiveness(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for id_, network, first, paper, allowed in (
        ("000-5-12", "wan-12", record(1)[0], "halves", about(2)),
        ("000-5-46", "wan-46", record(1)[0], "a factor of 3, approximately", about(3)),
        ("000-6-12", "wan-12", BEST_EFFORT, "almost 2", about(2)),
        ("000-6-46", "wan-46", BEST_EFFORT, "3", about(3)),
        ("000-c", "wan-46" + CALM, BEST_EFFORT, "more than 8", more_than(8)),
    ):
        found = runs[network]
        before, after = found.of(variant=first), found.of(variant=PAPER)
        repaired = found.of(variant=WITH_CACHE)
        note = f"{before.total('lost'):,.0f} losses were seen"
        if repaired.rows and repaired.total("lost"):
            note += f"; with a publisher that repairs too: {shown(before.total('lost') / repaired.total('lost'))}"
        loss = " at loss 0.001" if network.endswith(CALM) else ""
        words = f"R = 10 instead of {first}" if first != BEST_EFFORT else "R = 10"
        claim = f"{words} divides lost deliveries{loss} by, {network.removesuffix(CALM)}"
        yield Claim(id_, claim, paper, factor(before, after), allowed, "paper", settings_of(network, after), note)
    found = runs["wan-46"]
    yield Claim(
        "000-recovered",
        "share of the losses that is recovered in the unstable network",
        "more than 0.7",
        ratio_of_sums(found.of(variant=PAPER).column("recovered.repair"), found.of(variant=BEST_EFFORT).column("lost")),
        more_than(0.7),
        "paper",
        settings_of("wan-46", found),
    )


def _over_time(found: Runs, size: int, settings: str) -> Iterator[Claim]:
    """Figure 6: the losses of each sixth of a run, with recovery and without, but the first, when caches are empty."""
    lost: dict[str, list[float]] = {}
    for name in (BEST_EFFORT, PAPER):
        owed, got = (over_time(found.of(variant=name), what) for what in ("owed", "delivered"))
        missing = [sum(a.by_seed) - sum(b.by_seed) for a, b in zip(owed, got, strict=True)]
        part = max(1, len(missing) // 6)
        lost[name] = [sum(missing[at : at + part]) for at in range(part, len(missing) - part + 1, part)]
    factors = [a / b for a, b in zip(lost[BEST_EFFORT], lost[PAPER], strict=True) if b]
    yield Claim(
        f"000-6-{size}-always",
        f"R = 10 divides lost deliveries in every sixth of the run, but the first, by at least, {size} brokers",
        "persistent during the whole course",
        extreme(min(factors, default=float("nan")), len(found.of(variant=PAPER).rows)),
        more_than(1, "every"),
        "paper",
        settings,
        ", ".join(f"{each:.2f}" for each in factors),
    )


def _delays(paper: Runs, size: int, settings: str) -> Iterator[Claim]:
    """Figure 7."""
    most_s = {SMALL: 0.2, LARGE: 0.35}[size]
    yield Claim(
        f"000-7-{size}",
        f"seconds from a request to the sending of the repair, 80th percentile, {size} brokers",
        f"below {most_s:g}",
        estimate(phase_s(paper, c.REPAIR, "p80")),
        less_than(most_s),
        "paper",
        settings,
        f"to its arrival {fmean(phase_s(paper, c.ANSWER, 'p80')):.2f} s; of requests that the node whose request came "
        "first had answered",
    )
    parts = {phase: fmean(phase_s(paper, phase, "p50")) for phase in (c.DETECTION, c.REQUEST, c.REPAIR, c.ANSWER)}
    detection, total = phase_s(paper, c.DETECTION, "p50"), seconds(paper, "recovery_delay_us.p50")
    yield Claim(
        f"000-7-late-{size}",
        f"median time to the detection of a loss, as a share of the median time to recover, {size} brokers",
        "a large part of the delay is due to late detection",
        ratio(detection, total),
        more_than(0.5),
        "paper",
        settings,
        f"medians: {parts[c.DETECTION]:.2f} s to the detection, {parts[c.REQUEST]:.2f} s more to the request, "
        f"{parts[c.REPAIR]:.2f} s to the sending of the repair and {parts[c.ANSWER] - parts[c.REPAIR]:.2f} s to its "
        "arrival; a large part is taken as more than half",
    )
    yield Claim(
        f"000-7-detection-{size}",
        f"seconds to the detection of a loss, 99th percentile, {size} brokers",
        "up to 1",
        estimate(phase_s(paper, c.DETECTION, "p99")),
        at_most(1),
        "paper",
        settings,
        "R = 10 publications at 20 in a second are half a second, on average; gaps are random",
    )


def _messages(paper: Runs, size: int, settings: str) -> Iterator[Claim]:
    """Figure 8 and section 4.3: what is repeated."""
    least = {SMALL: (0.9, 0.8), LARGE: (0.8, 0.7)}[size]
    for (what, all_, twice), share in zip(
        (("requests", c.ASKED_FIRST, c.ASKED_TWICE), ("repairs", c.REPAIRED, c.REPAIRED_TWICE)), least, strict=True
    ):
        yield Claim(
            f"000-8-{what}-{size}",
            f"share of the {what} that no other repeats, {size} brokers",
            f"more than {share:g}" if size == SMALL else f"{share:g}",
            not_repeated(paper, all_, twice),
            more_than(share) if size == SMALL else about(share),
            "paper",
            settings,
        )
    yield Claim(
        f"000-8-{size}",
        f"requests for each repair, {size} brokers",
        "more than 1",
        ratio_of_sums(paper.column(f"recovery.{c.ASKED}"), paper.column(f"recovery.{c.REPAIRED}")),
        more_than(1),
        "paper",
        settings,
    )


def not_repeated(paper: Runs, all_: str, twice: str) -> Estimate:
    repeated = ratio_of_sums(paper.column(f"recovery.{twice}"), paper.column(f"recovery.{all_}"))
    return repeated.through(lambda share: 1 - share)


def _cost(found: Runs, size: int, settings: str) -> Iterator[Claim]:
    for quantile in ("p50", "p90"):
        yield Claim(
            f"000-9-{quantile}-{size}",
            f"ms that recovery adds to the delivery delay, {quantile}, {size} brokers",
            "25",
            difference(
                *(
                    [1e3 * each for each in seconds(found.of(variant=name), f"delay_us.{quantile}")]
                    for name in (PAPER, BEST_EFFORT)
                )
            ),
            None,
            "paper",
            settings,
            "cannot be tested here: the paper's 25 ms are its brokers' work on longer messages, which costs nothing in "
            "the simulator; what is left are late deliveries",
        )
    if size == SMALL:
        yield Claim(
            "000-i",
            "bytes that the record adds to an event",
            "320",
            difference(*(_mean_bytes(found.of(variant=name)) for name in (PAPER, BEST_EFFORT))),
            Allowed(320, 340),
            "paper",
            settings,
            "ten filters of 32 bytes; the rest are the times of departure, which order needs, and a head",
        )


def _mean_bytes(runs: Runs) -> list[float]:
    """Of an event, by seed."""
    size, sent = (runs.column(f"messages.Publish.{what}") for what in ("bytes", "sent"))
    return [a / b for a, b in zip(size, sent, strict=True)]


def _caches(paper: Runs, size: int, settings: str) -> Iterator[Claim]:
    """Figures 10 and 11."""
    late = hit_ratios(paper, *_LATE)
    yield Claim(
        f"000-10-{size}",
        f"hit ratio in the last third: requested events that somebody repairs, {size} brokers",
        "high",
        estimate(late),
        more_than(0.5),
        "paper",
        settings,
        "the paper gives no value; less than a half is not high",
    )
    yield Claim(
        f"000-10-grows-{size}",
        f"hit ratio in the last third, beyond that of the first sixth, {size} brokers",
        "grows rapidly in the first seconds",
        difference(late, hit_ratios(paper, 0.0, 1 / 6)),
        more_than(0),
        "paper",
        settings,
    )
    yield Claim(
        f"000-10-settles-{size}",
        f"hit ratio in the last third, for that of the middle one, {size} brokers",
        "no large changes during the rest",
        ratio(late, hit_ratios(paper, *_EARLY)),
        about(1, 0.2),
        "paper",
        settings,
        "large is taken as more than a fifth",
    )
    longest = [max(row.get(f"recovery.{c.LONGEST} at the end") or 0, 0) for row in paper.rows]
    shortest = min(row.get(f"recovery.{c.SHORTEST} at the end") or 0 for row in paper.rows)
    yield Claim(
        f"000-11-{size}",
        f"length of a cache (K) for one publisher, mean at the end, {size} brokers",
        "small: most are kept to the minimum, 5",
        cached(paper),
        at_most(10),
        "paper",
        settings,
        f"from {shortest} to {max(longest)}; near the minimum is taken as at most twice",
    )
    yield Claim(
        f"000-11-bound-{size}",
        f"the longest cache of all nodes, {size} brokers",
        "300 at most, by setting, and far above the mean",
        extreme(max(longest), len(longest)),
        at_most(300, "every"),
        "paper",
        settings,
        f"{max(longest) / cached(paper).value:.1f} times the mean",
    )


def _between_networks(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    small, large = (runs[network] for network in NETWORKS.values())
    settings = f"{settings_of('wan-12', small)}; {settings_of('wan-46', large)}"
    by_seed = [
        [b / max(a, 1.0) for a, b in zip(found.of(variant=PAPER).column("lost"), before.column("lost"), strict=True)]
        for found, before in ((large, large.of(variant=BEST_EFFORT)), (small, small.of(variant=BEST_EFFORT)))
    ]
    yield Claim(
        "000-5-order",
        "the factor by which R = 10 divides losses, 46 brokers less 12",
        "more pronounced with 46",
        _unpaired(*by_seed),
        more_than(0),
        "paper",
        settings,
    )
    for what, all_, twice in (
        ("requests", c.ASKED_FIRST, c.ASKED_TWICE),
        ("repairs", c.REPAIRED, c.REPAIRED_TWICE),
    ):
        repeated = [
            [
                twice_ / max(once, 1.0)
                for twice_, once in zip(
                    of.of(variant=PAPER).column(f"recovery.{twice}"),
                    of.of(variant=PAPER).column(f"recovery.{all_}"),
                    strict=True,
                )
            ]
            for of in (large, small)
        ]
        yield Claim(
            f"000-8-{what}-order",
            f"share of the {what} that are repeated, 46 brokers less 12",
            "more with the greater diameter",
            _unpaired(*repeated),
            more_than(0),
            "paper",
            settings,
        )
    calm = runs["wan-46" + CALM].of(variant=PAPER)
    yield Claim(
        "000-7-calm",
        "request to the sending of the repair, 80th percentile, at loss 0.001 for that at 0.01, 46 brokers",
        "almost 50 % smaller",
        _ratio_of_means(phase_s(calm, c.REPAIR, "p80"), phase_s(large.of(variant=PAPER), c.REPAIR, "p80")),
        about(0.5),
        "paper",
        settings_of("wan-46", calm),
    )
    yield Claim(
        "000-7-calm-recovery",
        "median time to recover at loss 0.001 for that at 0.01, 46 brokers",
        "smaller",
        _ratio_of_means(
            seconds(calm, "recovery_delay_us.p50"), seconds(large.of(variant=PAPER), "recovery_delay_us.p50")
        ),
        less_than(1),
        "paper",
        settings_of("wan-46", calm),
        f"{recovery_s(calm, 'p50').value:.2f} s",
    )


def _unpaired(these: list[float], less: list[float]) -> Estimate:
    """Of networks that share no seed in any sense; as many runs of both count."""
    count = min(len(these), len(less))
    return difference(these[:count], less[:count])


def _ratio_of_means(above: list[float], below: list[float]) -> Estimate:
    count = min(len(above), len(below))
    return ratio_of_sums(above[:count], below[:count])

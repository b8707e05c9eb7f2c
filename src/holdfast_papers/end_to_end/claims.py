"""The claims of paper 000 and of ours, from the runs of the study."""

from collections.abc import Iterator, Mapping

from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.claims import Claim, estimate, ratio_of_sums, shown
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    LARGE,
    LONG,
    NETWORKS,
    OURS,
    PAPER,
    ROUGH,
    SMALL,
    WITH_CACHE,
    cached,
    detected_share,
    recovery_s,
    standard_error,
)
from holdfast_papers.end_to_end.records import detection_probability
from holdfast_papers.study import Runs

_LOSSES_MIN = 30_000  # that must be seen before 99.99 % means something


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _factors(runs)
    for size, (requests, repairs) in {SMALL: (0.9, 0.8), LARGE: (0.8, 0.7)}.items():
        yield from _without_duplicates(runs[NETWORKS[size]], size, requests, repairs)
    for size, most_s in {SMALL: 0.2, LARGE: 0.35}.items():
        yield _answers(runs[NETWORKS[size]], size, most_s)
    yield from _others(runs)
    yield _eq_1(runs["detection"])
    for size, overhead in {12: 0.15, 46: 0.35}.items():
        yield from _ours(runs, size, overhead)


def _settings(network: str, runs: Runs) -> str:
    row = runs.rows[0]
    seeds = len({each["seed"] for each in runs.rows})
    return f"{network}, {row['duration_s']:g} s, seeds 1 to {seeds}"


def _factors(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for id_, network, paper, least in (
        ("000-a", "wan-12", "about 2", 2.0),
        ("000-b", "wan-46", "about 3", 3.0),
        ("000-c", "wan-46-calm", "more than 8", 8.0),
    ):
        found = runs[network]
        before, after = found.of(variant=BEST_EFFORT), found.of(variant=PAPER)
        factor, interval = ratio_of_sums(before.column("lost"), after.column("lost"))
        loss = " at loss 0.001" if network.endswith("calm") else ""
        note = ""
        if factor < least:
            repaired = found.of(variant=WITH_CACHE)
            note = (
                f"with a publisher that repairs too: {shown(before.total('lost') / repaired.total('lost'))}"
                if repaired.rows and repaired.total("lost")
                else "few losses were seen"
            )
        yield Claim(
            id_,
            f"R = 10 divides lost deliveries by{loss}",
            paper,
            factor,
            factor >= least,
            _settings(network, after),
            interval,
            note,
        )
    found = runs["wan-46"]
    share, interval = ratio_of_sums(
        found.of(variant=PAPER).column("recovered.repair"), found.of(variant=BEST_EFFORT).column("lost")
    )
    yield Claim(
        "000-recovered",
        "share of the losses that is recovered in the unstable network",
        "over 0.7",
        share,
        share > 0.7,
        _settings("wan-46", found),
        interval,
    )


def _without_duplicates(found: Runs, size: int, requests: float, repairs: float) -> Iterator[Claim]:
    paper = found.of(variant=PAPER)
    for what, all_, twice, least in (
        ("requests", c.ASKED_FIRST, c.ASKED_TWICE, requests),
        ("repairs", c.REPAIRED, c.REPAIRED_TWICE, repairs),
    ):
        many, interval = ratio_of_sums(paper.column(f"recovery.{twice}"), paper.column(f"recovery.{all_}"))
        single = 1 - many
        yield Claim(
            f"000-f-{what}-{size}",
            f"share of the {what} that no other repeats, {size} brokers",
            f"over {least:g}",
            single,
            single > least,
            _settings(NETWORKS[size], paper),
            None if interval is None else (1 - interval[1], 1 - interval[0]),
        )


def _answers(found: Runs, size: int, most_s: float) -> Claim:
    paper = found.of(variant=PAPER)
    seconds, interval = estimate([each / 1e6 for each in paper.column("answer_us.p80")])
    late, _ = recovery_s(paper, "p50")
    return Claim(
        f"000-d-{size}",
        f"seconds from the first request to the repair, 80th percentile, {size} brokers",
        f"below {most_s:g}",
        seconds,
        seconds < most_s,
        _settings(NETWORKS[size], paper),
        interval,
        f"from publishing to the recovered delivery the median is {late:.2f} s: most is spent on noticing",
    )


def _others(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for size, network in NETWORKS.items():
        paper = runs[network].of(variant=PAPER)
        ratio, interval = ratio_of_sums(paper.column(f"recovery.{c.ASKED}"), paper.column(f"recovery.{c.REPAIRED}"))
        settings = _settings(network, paper)
        claim = f"requests for each repair, {size} brokers"
        yield Claim(f"000-g-{size}", claim, "more than 1", ratio, ratio > 1, settings, interval)
        hits, interval = ratio_of_sums(paper.column(f"recovery.{c.ANSWERED}"), paper.column(f"recovery.{c.WANTED}"))
        claim = f"share of the requested events that somebody repairs, {size} brokers"
        yield Claim(f"000-j-{size}", claim, "climbs within seconds; no value", hits, None, settings, interval)
        length, interval = cached(paper)
        claim = f"events of one publisher in a subscriber's cache, {size} brokers"
        yield Claim(f"000-k-{size}", claim, "mean near 5, at most 300", length, length <= 25, settings, interval)
        before, after = (runs[network].of(variant=name).column("delay_us.p50") for name in (BEST_EFFORT, PAPER))
        more, interval = estimate([(b - a) / 1_000 for a, b in zip(before, after, strict=True)])
        claim = f"ms that recovery adds to the median delivery delay, {size} brokers"
        note = "ours counts late deliveries; the paper's 25 ms are its brokers' work on longer messages"
        yield Claim(f"000-h-{size}", claim, "about 25", more, more <= 25, settings, interval, note)
    found = runs["wan-12"]
    each = [
        _mean_bytes(found.of(variant=PAPER), seed) - _mean_bytes(found.of(variant=BEST_EFFORT), seed)
        for seed in range(len(found.of(variant=PAPER).rows))
    ]
    more, interval = estimate(each)
    yield Claim(
        "000-i",
        "bytes that the record adds to an event",
        "320",
        more,
        320 <= more <= 360,
        _settings("wan-12", found),
        interval,
        "ten filters of 32 bytes; the rest are the times of departure, which order needs, and a head",
    )


def _mean_bytes(runs: Runs, seed: int) -> float:
    return runs.column("messages.Publish.bytes")[seed] / runs.column("messages.Publish.sent")[seed]


def _eq_1(runs: Runs) -> Claim:
    """The largest deviation from the formula over the grid, in standard errors."""
    worst, where = 0.0, ""
    for row in runs.rows:
        match, loss, record, share = detected_share(row)
        expected = detection_probability(match, loss, record)
        error = abs(share - expected) / standard_error(expected, row)
        if error > worst:
            found = f"{share:.4f}, not {expected:.4f}"
            worst, where = error, f"match {match:g}, loss {loss:g}, R = {record}: {found}"
    return Claim(
        "000-eq1",
        "probability to detect a loss: largest distance from Eq. 1, in standard errors",
        "at most 3",
        worst,
        worst <= 3,
        f"{len(runs.rows)} points, 500 events/s for {runs.rows[0]['duration_s']:g} s",
        None,
        where,
    )


def _ours(runs: Mapping[str, Runs], size: int, overhead: float) -> Iterator[Claim]:
    network = NETWORKS[size]
    for name, least in ((network + LONG, 0.9999), (network + ROUGH, 0.999)):
        before, after = runs[name].of(variant=BEST_EFFORT), runs[name].of(variant=OURS)
        share, interval = ratio_of_sums(after.column("delivered"), after.column("owed"))
        seen = int(before.total("lost"))
        loss = "0.05" if name.endswith(ROUGH) else "0.01"
        note = f"{seen:,} losses were seen" + ("" if seen >= _LOSSES_MIN else ", too few to prove it")
        yield Claim(
            f"ours-delivered-{size}-{loss}",
            f"ours, share delivered at loss {loss}, {size} brokers",
            f"at least {least:g} is wanted",
            share,
            share >= least,
            _settings(name, after),
            interval,
            note,
        )
    if size == SMALL:
        yield _more_bytes(runs[network], PAPER, f"000-bytes-{size}", _settings(network, runs[network]), None)
    long = runs[network + LONG]
    after = long.of(variant=OURS)
    yield _more_bytes(long, OURS, f"ours-bytes-{size}", _settings(network, long), overhead)
    worst = max(after.column("leaf_recovery_ratio"))
    yield Claim(
        f"ours-leaf-{size}",
        f"ours, bytes about recovery for each byte of events on the worst leaf link, {size} brokers",
        "at most 1 is wanted",
        worst,
        worst <= 1,
        _settings(network, after),
    )


def _more_bytes(runs: Runs, variant: str, id_: str, settings: str, most: float | None) -> Claim:
    before, found = runs.of(variant=BEST_EFFORT), runs.of(variant=variant)
    ratio, interval = ratio_of_sums(found.column("bytes"), before.column("bytes"))
    return Claim(
        id_,
        f"{variant}, bytes beyond best effort, {settings.partition(',')[0]}",
        "about 0.68, by a prototype of it" if most is None else f"at most {most:g} is wanted",
        ratio - 1,
        None if most is None else ratio - 1 <= most,
        settings,
        None if interval is None else (interval[0] - 1, interval[1] - 1),
    )

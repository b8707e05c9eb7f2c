"""The claims of paper 000 and of ours, from the runs of the study."""

from collections.abc import Iterator, Mapping

from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.claims import Claim, shown
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
from holdfast_papers.estimates import difference, estimate, extreme, ratio_of_sums
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import Allowed, about, at_least, at_most, less_than, more_than

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
    for id_, network, paper, allowed in (
        ("000-a", "wan-12", "almost 2", about(2)),
        ("000-b", "wan-46", "3", about(3)),
        ("000-c", "wan-46-calm", "more than 8", more_than(8)),
    ):
        found = runs[network]
        before, after = found.of(variant=BEST_EFFORT), found.of(variant=PAPER)
        loss = " at loss 0.001" if network.endswith("calm") else ""
        repaired = found.of(variant=WITH_CACHE)
        note = f"{before.total('lost'):,.0f} losses were seen"
        if repaired.rows and repaired.total("lost"):
            note = f"with a publisher that repairs too: {shown(before.total('lost') / repaired.total('lost'))}"
        yield Claim(
            id_,
            f"R = 10 divides lost deliveries by{loss}",
            paper,
            ratio_of_sums(before.column("lost"), after.column("lost")),
            allowed,
            "paper",
            _settings(network, after),
            note,
        )
    found = runs["wan-46"]
    yield Claim(
        "000-recovered",
        "share of the losses that is recovered in the unstable network",
        "more than 0.7",
        ratio_of_sums(found.of(variant=PAPER).column("recovered.repair"), found.of(variant=BEST_EFFORT).column("lost")),
        more_than(0.7),
        "paper",
        _settings("wan-46", found),
    )


def _without_duplicates(found: Runs, size: int, requests: float, repairs: float) -> Iterator[Claim]:
    paper = found.of(variant=PAPER)
    for what, all_, twice, least in (
        ("requests", c.ASKED_FIRST, c.ASKED_TWICE, requests),
        ("repairs", c.REPAIRED, c.REPAIRED_TWICE, repairs),
    ):
        repeated = ratio_of_sums(paper.column(f"recovery.{twice}"), paper.column(f"recovery.{all_}"))
        yield Claim(
            f"000-f-{what}-{size}",
            f"share of the {what} that no other repeats, {size} brokers",
            f"more than {least:g}",
            repeated.through(lambda share: 1 - share),
            more_than(least),
            "paper",
            _settings(NETWORKS[size], paper),
        )


def _answers(found: Runs, size: int, most_s: float) -> Claim:
    paper = found.of(variant=PAPER)
    late = recovery_s(paper, "p50").value
    return Claim(
        f"000-d-{size}",
        f"seconds from the first request to the repair, 80th percentile, {size} brokers",
        f"below {most_s:g}",
        estimate([each / 1e6 for each in paper.column("answer_us.p80")]),
        less_than(most_s),
        "paper",
        _settings(NETWORKS[size], paper),
        f"to the repair's arrival, where the paper counts to its sending; from publishing to the recovered delivery "
        f"the median is {late:.2f} s: most is spent on noticing",
    )


def _others(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for size, network in NETWORKS.items():
        yield from _of_network(runs[network], size, _settings(network, runs[network].of(variant=PAPER)))
    found = runs["wan-12"]
    yield Claim(
        "000-i",
        "bytes that the record adds to an event",
        "320",
        difference(*(_mean_bytes(found.of(variant=name)) for name in (PAPER, BEST_EFFORT))),
        Allowed(320, 340),
        "paper",
        _settings("wan-12", found),
        "ten filters of 32 bytes; the rest are the times of departure, which order needs, and a head",
    )


def _of_network(found: Runs, size: int, settings: str) -> Iterator[Claim]:
    paper = found.of(variant=PAPER)
    yield Claim(
        f"000-g-{size}",
        f"requests for each repair, {size} brokers",
        "more than 1",
        ratio_of_sums(paper.column(f"recovery.{c.ASKED}"), paper.column(f"recovery.{c.REPAIRED}")),
        more_than(1),
        "paper",
        settings,
    )
    yield Claim(
        f"000-j-{size}",
        f"share of the requested events that somebody repairs, {size} brokers",
        "high",
        ratio_of_sums(paper.column(f"recovery.{c.ANSWERED}"), paper.column(f"recovery.{c.WANTED}")),
        more_than(0.5),
        "paper",
        settings,
        "the paper gives no value; less than a half is not high",
    )
    yield Claim(
        f"000-k-{size}",
        f"events of one publisher in a subscriber's cache, {size} brokers",
        "mean near 5, the least that a cache may hold",
        cached(paper),
        at_most(10),
        "paper",
        settings,
        "near is taken as at most twice",
    )
    yield Claim(
        f"000-h-{size}",
        f"ms that recovery adds to the median delivery delay, {size} brokers",
        "25",
        difference(
            *([each / 1_000 for each in found.of(variant=name).column("delay_us.p50")] for name in (PAPER, BEST_EFFORT))
        ),
        about(25),
        "paper",
        settings,
        "ours counts late deliveries; the paper's 25 ms are its brokers' work on longer messages, which costs nothing "
        "here",
    )


def _mean_bytes(runs: Runs) -> list[float]:
    """Of an event, by seed."""
    size, sent = (runs.column(f"messages.Publish.{what}") for what in ("bytes", "sent"))
    return [a / b for a, b in zip(size, sent, strict=True)]


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
        "none, that is at most 3",
        extreme(worst, len(runs.rows)),
        at_most(3, "every"),
        "paper",
        f"{len(runs.rows)} points, 500 events/s for {runs.rows[0]['duration_s']:g} s",
        where,
    )


def _ours(runs: Mapping[str, Runs], size: int, overhead: float) -> Iterator[Claim]:
    network = NETWORKS[size]
    for name, least in ((network + LONG, 0.9999), (network + ROUGH, 0.999)):
        before, after = runs[name].of(variant=BEST_EFFORT), runs[name].of(variant=OURS)
        seen = int(before.total("lost"))
        loss = "0.05" if name.endswith(ROUGH) else "0.01"
        yield Claim(
            f"ours-delivered-{size}-{loss}",
            f"ours, share delivered at loss {loss}, {size} brokers",
            f"at least {least:g} is wanted",
            ratio_of_sums(after.column("delivered"), after.column("owed")),
            at_least(least),
            "ours",
            _settings(name, after),
            f"{seen:,} losses were seen" + ("" if seen >= _LOSSES_MIN else ", too few to prove it"),
        )
    if size == SMALL:
        yield _more_bytes(runs[network], PAPER, f"000-bytes-{size}", _settings(network, runs[network]), None)
    long = runs[network + LONG]
    after = long.of(variant=OURS)
    yield _more_bytes(long, OURS, f"ours-bytes-{size}", _settings(network, long), overhead)
    leaves = after.column("leaf_recovery_ratio")
    yield Claim(
        f"ours-leaf-{size}",
        f"ours, bytes about recovery for each byte of events on the worst leaf link, {size} brokers",
        "at most 1 is wanted",
        extreme(max(leaves), len(leaves)),
        at_most(1, "every"),
        "ours",
        _settings(network, after),
    )


def _more_bytes(runs: Runs, variant: str, id_: str, settings: str, most: float | None) -> Claim:
    before, found = runs.of(variant=BEST_EFFORT), runs.of(variant=variant)
    return Claim(
        id_,
        f"{variant}, bytes beyond best effort, {settings.partition(',')[0]}",
        "about 0.68, by a prototype of it" if most is None else f"at most {most:g} is wanted",
        ratio_of_sums(found.column("bytes"), before.column("bytes")).through(lambda ratio: ratio - 1),
        None if most is None else at_most(most),
        "ours",
        settings,
    )

"""Our own design beside the paper's, at equal time, in the paper's networks and in that of paper 001."""

from collections.abc import Iterator, Mapping

from holdfast_papers.claims import Claim
from holdfast_papers.end_to_end.measures import (
    BEST_EFFORT,
    EPIDEMIC,
    NETWORKS,
    OURS,
    PAPER,
    ROUGH,
    SMALL,
    WITH_CACHE,
    more_bytes,
    seconds,
)
from holdfast_papers.estimates import difference, estimate, extreme, ratio, ratio_of_sums
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import at_least, at_most, less_than, more_than

_LOSSES_MIN = 30_000  # that must be seen before 99.99 % means something
_BYTES_MOST = {12: 0.15, 46: 0.35}


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for size, network in NETWORKS.items():
        settings = _settings(network, runs[network])
        yield _delivered(runs[network], f"ours-delivered-{size}-0.01", 0.9999, f"0.01, {size} brokers", settings)
        yield Claim(
            f"ours-bytes-{size}",
            f"ours, bytes beyond best effort, {network}",
            f"at most {_BYTES_MOST[size]:g} is wanted",
            estimate(more_bytes(runs[network], OURS)),
            at_most(_BYTES_MOST[size]),
            "ours",
            settings,
            "the first seconds, in which subscribers learn whom to follow, weigh more in a short run",
        )
        leaves = runs[network].of(variant=OURS).column("leaf_recovery_ratio")
        yield Claim(
            f"ours-leaf-{size}",
            f"ours, bytes about recovery for each byte of events on the worst leaf link, {size} brokers",
            "at most 1 is wanted",
            extreme(max(leaves), len(leaves)),
            at_most(1, "every"),
            "ours",
            settings,
        )
        yield from _beside_srm(runs[network], network, settings)
        settings = _settings(network, runs[network + ROUGH])
        where = f"0.05, {size} brokers"
        yield _delivered(runs[network + ROUGH], f"ours-delivered-{size}-0.05", 0.999, where, settings)
    yield Claim(
        "000-bytes-12",
        f"{PAPER}, bytes beyond best effort, wan-12",
        "",
        estimate(more_bytes(runs[NETWORKS[SMALL]], PAPER)),
        None,
        "ours",
        _settings(NETWORKS[SMALL], runs[NETWORKS[SMALL]]),
    )
    found = runs[EPIDEMIC]
    brokers = found.rows[0]["topology.brokers"]
    settings = _settings(f"paper 001's network, {brokers} brokers, loss 0.1", found)
    yield from _beside_srm(found, EPIDEMIC, settings)


def _settings(network: str, runs: Runs) -> str:
    seeds = len({each["seed"] for each in runs.rows})
    return f"{network}, {runs.rows[0]['duration_s']:g} s, seeds 1 to {seeds}"


def _delivered(runs: Runs, id_: str, least: float, where: str, settings: str) -> Claim:
    before, after = runs.of(variant=BEST_EFFORT), runs.of(variant=OURS)
    seen = int(before.total("lost"))
    return Claim(
        id_,
        f"ours, share delivered at loss {where}",
        f"at least {least:g} is wanted",
        ratio_of_sums(after.column("delivered"), after.column("owed")),
        at_least(least),
        "ours",
        settings,
        f"{seen:,} losses were seen" + ("" if seen >= _LOSSES_MIN else ", too few to prove it"),
    )


def _beside_srm(runs: Runs, network: str, settings: str) -> Iterator[Claim]:
    """Digests against the paper's scheme, over the same seconds and the same losses of events."""
    srm = runs.of(variant=WITH_CACHE) if runs.of(variant=WITH_CACHE).rows else runs.of(variant=PAPER)
    which = str(srm.rows[0]["variant"])
    mine = runs.of(variant=OURS)
    shares = [
        [got / owed for got, owed in zip(found.column("delivered"), found.column("owed"), strict=True)]
        for found in (mine, srm)
    ]
    yield Claim(
        f"ours-srm-delivered-{network}",
        f"{network}: share delivered with ours beyond {which}",
        "more is wanted",
        difference(*shares),
        more_than(0),
        "ours",
        settings,
    )
    for quantile in ("p50", "p90", "p99"):
        times = [seconds(found, f"recovery_delay_us.{quantile}") for found in (mine, srm)]
        yield Claim(
            f"ours-srm-delay-{quantile}-{network}",
            f"{network}: time to recover, {quantile}, ours for that of {which}",
            "less is wanted",
            ratio(*times),
            less_than(1),
            "ours",
            settings,
            f"{sum(times[0]) / len(times[0]):.2f} s and {sum(times[1]) / len(times[1]):.2f} s; ours also recovers what "
            f"{which} does not",
        )
    own, others = more_bytes(runs, OURS), more_bytes(runs, str(srm.rows[0]["variant"]))
    yield Claim(
        f"ours-srm-bytes-{network}",
        f"{network}: bytes beyond best effort, ours for each of {which}",
        "fewer are wanted",
        ratio(own, others),
        less_than(1),
        "ours",
        settings,
        f"{100 * sum(own) / len(own):.0f} % and {100 * sum(others) / len(others):.0f} % of the bytes of best effort",
    )

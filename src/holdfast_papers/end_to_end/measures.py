"""What the runs of the end-to-end study are called, and what its claims and figures both take from them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import sqrt
from typing import NamedTuple

from holdfast.language.parser import parse
from holdfast.pipeline.sweep.check import VARIANT, plan
from holdfast.pipeline.sweep.plan import preset_document
from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.estimates import Estimate, estimate, ratio_of_sums
from holdfast_papers.study import Row, Runs

BEST_EFFORT, PAPER, WITH_CACHE, OURS = "best effort", "R = 10", "R = 10, publisher repairs", "ours"
SRM = {"reliability.recovery": "end-to-end", "reliability.scheme": "srm"}
OTHER_VARIANTS: dict[str, dict[str, object]] = {
    BEST_EFFORT: {"reliability.recovery": "none"},
    WITH_CACHE: {**SRM, "reliability.record": 10, "reliability.publisher_cache": True},
    OURS: {"reliability.recovery": "end-to-end"},
}
SMALL, LARGE = 12, 46
NETWORKS = {SMALL: "wan-12", LARGE: "wan-46"}
CALM, ROUGH = "-calm", "-rough"  # the same networks at a tenth and at five times the loss
EPIDEMIC = "epidemic"  # the network of paper 001
DIGEST_S = (0.1, 0.2, 0.4, 1.0)
# Ten attributes and four tests for each conjunction. In the larger network a few kinds interest many, so that half of
# the events have two receivers at most there as well.
CONTENT: dict[int, dict[str, object]] = {
    SMALL: {"workload.kind": "content", "workload.payload_bytes": 500},
    LARGE: {"workload.kind": "content", "workload.payload_bytes": 500, "workload.popularity": 1.8},
}


def record(length: int) -> tuple[str, dict[str, object]]:
    """The paper's scheme with records of this length: what it is called, and its settings."""
    return f"R = {length}", {**SRM, "reliability.record": length}


def lengths_of(runs: Runs) -> list[int]:
    """The lengths of records that were run, 0 for best effort."""
    names = {str(row[VARIANT]) for row in runs.rows}
    return [0, *(length for length in range(1, 101) if record(length)[0] in names)]


def of_length(runs: Runs, length: int) -> Runs:
    return runs.of(variant=record(length)[0] if length else BEST_EFFORT)


def factor(before: Runs, after: Runs) -> Estimate:
    """By how much losses were divided."""
    return ratio_of_sums(before.column("lost"), after.column("lost"))


def seconds(runs: Runs, metric: str) -> list[float]:
    """A time of every run, by seed."""
    return [each / 1e6 for each in runs.column(metric)]


def recovery_s(runs: Runs, quantile: str) -> Estimate:
    return estimate(seconds(runs, f"recovery_delay_us.{quantile}"))


def phase_s(runs: Runs, phase: str, quantile: str) -> list[float]:
    return seconds(runs, f"phases_us.{phase}.{quantile}")


def more_bytes(runs: Runs, variant: str) -> list[float]:
    """Bytes beyond best effort, as a share of these, by seed."""
    before, found = runs.of(variant=BEST_EFFORT).column("bytes"), runs.of(variant=variant).column("bytes")
    return [b / a - 1 for a, b in zip(before, found, strict=True)]


# Over time -------------------------------------------------------------------------------------------------------


def series(row: Row, what: str) -> dict[int, float]:
    """A count by the number of its slice of time."""
    start = f"slices.{what}."
    return {int(name[len(start) :]): float(count) for name, count in row.items() if name.startswith(start) and count}


def grown(row: Row, what: str) -> dict[int, float]:
    """The same of a count that is told as it stands at the end of each slice: what each slice added."""
    stands = series(row, what)
    return {number: count - stands.get(number - 1, 0.0) for number, count in sorted(stands.items())}


class SlicePoint(NamedTuple):
    at_s: float  # the end of the slice
    by_seed: list[float]


def over_time(runs: Runs, what: str, by_growth: bool = False) -> list[SlicePoint]:
    """The slices that every run has."""
    rows = sorted(runs.rows, key=lambda row: row["seed"])
    found = [(grown if by_growth else series)(row, what) for row in rows]
    common = [number for number in sorted(found[0]) if all(number in each for each in found)]
    slice_s = rows[0]["slices_s"]
    return [SlicePoint((number + 1) * slice_s, [each[number] for each in found]) for number in common]


def hit_ratios(runs: Runs, first: float = 0.0, last: float = 1.0) -> list[float]:
    """Requests that were answered for each that was sent, by seed, between two shares of the run."""
    ratios = []
    for row in sorted(runs.rows, key=lambda row: row["seed"]):
        sums = []
        for what in (c.ANSWERED, c.WANTED):
            count = round(row["duration_s"] / row["slices_s"])
            added = grown(row, what)
            sums.append(sum(each for number, each in added.items() if first * count <= number < last * count))
        ratios.append(sums[0] / sums[1] if sums[1] else float("nan"))
    return ratios


def cached(runs: Runs) -> Estimate:
    """How many events of one publisher a cache may hold (K), mean at the end."""
    return ratio_of_sums(*(runs.column(f"recovery.{name} at the end") for name in (c.LENGTHS, c.FOLLOWED)))


# The workload ----------------------------------------------------------------------------------------------------


class Matching(NamedTuple):
    """Of a drawn network: receivers of each kind of event, and the match probability of each pair."""

    receivers: list[int]
    shares: list[float]


@cache
def matching(size: int, seed: int = 1) -> Matching:
    drawn = plan(preset_document(NETWORKS[size]), seeds=seed, settings=CONTENT[size])
    network = drawn.network_of(drawn.cell(seed - 1))
    kinds = network.workload.kinds  # type: ignore[union-attr]
    publishers = [client.id for client in network.clients if client.works]
    wanted: Counter[object] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    subscribers = [client for client in network.clients if client.subscriptions]
    for client in subscribers:
        for conjunction in parse(client.subscriptions[0].condition).filters:
            wanted[conjunction] += 1
            pairs[client.id, next(each.operand for each in conjunction if each.attribute == "source")] += 1
    nobody = [0] * (kinds * len(publishers) - len(wanted))
    shares = [pairs[client.id, publisher] / kinds for client in subscribers for publisher in publishers]
    return Matching(nobody + sorted(wanted.values()), sorted(shares))


def distribution(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """The share of values up to each that occurs."""
    for value, upto in sorted({each: number for number, each in enumerate(sorted(values), 1)}.items()):
        yield value, upto / len(values)


# Detection -------------------------------------------------------------------------------------------------------


def detected_share(row: Row) -> tuple[float, float, int, float]:
    """A point of the grid: match probability, loss, R, and the share of the losses that was detected."""
    match, loss, length = str(row[VARIANT]).split()
    detected = (row.get(f"recovery.{c.DETECTED}") or 0) - (row.get(f"recovery.{c.CAME_LATE}") or 0)
    return float(match), float(loss), int(length), detected / row["lost"]


def standard_error(share: float, row: Row) -> float:
    return sqrt(max(0.0, share * (1 - share)) / row["lost"])  # false alarms may bring a share above 1

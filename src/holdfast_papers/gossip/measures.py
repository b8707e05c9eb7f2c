"""What the study of epidemic recovery measures, from the rows of its runs."""

from collections.abc import Iterator, Mapping
from math import comb

from holdfast_papers.estimates import Estimate, ratio_of_sums
from holdfast_papers.study import Row, Runs

PRESET = "epidemic-100"
NONE, OURS, NACK = "no recovery", "reconcile", "nack"
PUSH, COMBINED, PUBLISHER, RANDOM, SUBSCRIBER = (
    "push",
    "combined-pull",
    "publisher-pull",
    "random-pull",
    "subscriber-pull",
)
FEW = (PUSH, COMBINED)
PAPERS = (PUSH, COMBINED, PUBLISHER, RANDOM, SUBSCRIBER)
STYLES = (*PAPERS, OURS)
MORE = ", more"  # sweeps with what only figures show
BUFFER, INTERVAL_S = 1_500, 0.03  # the paper's defaults, of 100 brokers
_PATTERNS, _PER_EVENT, _PER_BROKER, _RATE = 70, 3, 2, 50  # also the paper's
_KEPT = 0.9  # of what is owed to a broker is delivered, or nearly, by those that matter
_WARM_S = 0.5  # the first losses are noticed
_LATE_MAX = 0.6  # of a run: buffers that keep events for longer than that never drop one
_DIGESTS = ("GossipDigest", "GossipPull", "GossipVector", "GossipComplete")  # what the paper counts as gossip
_REQUESTS = ("GossipRequest",)
_EVENTS = ("GossipEvent",)


def slices(row: Row) -> Iterator[tuple[float, float, float]]:
    """Of each slice of time: its beginning, what was owed of the events published in it, and what was delivered."""
    for name, owed in row.items():
        if name.startswith("slices.owed.") and owed:
            number = name.rpartition(".")[2]
            yield int(number) * row["slices_s"], owed, row.get(f"slices.delivered.{number}") or 0


def match_probability(per_broker: int) -> float:
    """That an event concerns a broker with so many patterns."""
    return 1 - comb(_PATTERNS - _PER_EVENT, per_broker) / comb(_PATTERNS, per_broker)


def persistence_s(row: Row) -> float:
    """How long a full buffer keeps an event: what a broker publishes and gets drives it out."""
    rate = row.get("workload.rate_per_s") or _RATE
    others = (row["topology.brokers"] - 1) * match_probability(row.get("workload.per_client") or _PER_BROKER)
    return float(row["reliability.gossip_buffer"] / (rate * (1 + _KEPT * others)))


def _steady(row: Row) -> list[tuple[float, float, float]]:
    """Slices with events of which each has had its time in a full buffer, and no more."""
    late_s = min(persistence_s(row), _LATE_MAX * row["duration_s"]) if "reliability.gossip_buffer" in row else _WARM_S
    return [each for each in slices(row) if _WARM_S <= each[0] <= row["duration_s"] - late_s - row["slices_s"]]


def delivered(runs: Runs) -> Estimate:
    """The share of what was owed, over events published in the middle of the runs."""
    sums = [_owed_and_got(each) for each in runs.by_seed()]
    return ratio_of_sums([got for _, got in sums], [owed for owed, _ in sums])


def shares(runs: Runs) -> list[float]:
    """The same by seed."""
    return [got / owed for owed, got in map(_owed_and_got, runs.by_seed())]


def _owed_and_got(runs: Runs) -> tuple[float, float]:
    steady = [each for row in runs.rows for each in _steady(row)]
    return sum(owed for _, owed, _ in steady), sum(got for _, _, got in steady)


def shares_between(runs: Runs, first: float, last: float) -> list[float]:
    """The same of events that were published between two shares of the run."""
    found = []
    for each in runs.by_seed():
        parts = [
            (owed, got)
            for row in each.rows
            for at_s, owed, got in slices(row)
            if first * row["duration_s"] <= at_s < last * row["duration_s"]
        ]
        found.append(sum(got for _, got in parts) / sum(owed for owed, _ in parts))
    return found


def settings_of(found: Runs, more: str = "") -> str:
    row, seeds = found.rows[0], sorted({each["seed"] for each in found.rows})
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{row.get('topology.brokers') or 100} brokers, {row['duration_s']:.3g} s, {which}{more}"


def worst_slice(runs: Runs) -> float:
    return min(got / owed for row in runs.rows for _, owed, got in _steady(row))


# The runs of a point ---------------------------------------------------------------------------------------------


def base(runs: Mapping[str, Runs]) -> Runs:
    """All styles at the defaults, in the network of the sweeps about orders."""
    return runs["styles"] if "styles" in runs else runs["delivery"]


def merged(runs: Mapping[str, Runs], name: str) -> Runs:
    """A sweep with all that figures show besides."""
    return Runs([row for key, found in runs.items() if key.startswith(name) for row in found.rows])


def of_value(runs: Mapping[str, Runs], key: str, style: str, value: object) -> Runs:
    """A point of the sweeps over buffers or intervals."""
    return merged(runs, key).of(variant=f"{style}, {value}")


def values_of(runs: Mapping[str, Runs], key: str) -> list[float]:
    names = {str(row["variant"]).rpartition(", ")[2] for row in merged(runs, key).rows}
    return sorted(float(name) if "." in name else int(name) for name in names)


def of_size(runs: Mapping[str, Runs], style: str, size: int) -> Runs:
    if size == 100:
        return runs["delivery"].of(variant=style)
    return (base(runs) if "styles" in runs else merged(runs, f"brokers, {size}")).of(variant=style)


def sizes_of(runs: Mapping[str, Runs]) -> list[int]:
    known = {int(name.split(", ")[1]) for name in runs if name.startswith("brokers, ")}
    return sorted({100, base(runs).rows[0]["topology.brokers"]} | known)


def _total(runs: Runs, kinds: tuple[str, ...], what: str) -> float:
    return sum(runs.total(f"messages.{kind}.{what}") for kind in kinds)


def sent(runs: Runs, *kinds: str) -> float:
    return _total(runs, kinds, "sent")


def gossip_per_s(runs: Runs, brokers: int) -> float:
    """Gossip messages that a broker sends in a second."""
    seconds = runs.total("duration_s")
    return _total(runs, _DIGESTS, "sent") / seconds / brokers


def gossip_per_event(runs: Runs) -> float:
    """Gossip messages for each message that carries an event from broker to broker."""
    return _total(runs, _DIGESTS, "sent") / runs.total("messages.Publish.sent")


def gossip_bytes(runs: Runs) -> float:
    """Of digests and requests, as they are encoded; not of the events that they bring."""
    return _total(runs, (*_DIGESTS, *_REQUESTS), "bytes")


def bytes_per_delivery(runs: Runs) -> float:
    return runs.total("bytes") / runs.total("delivered")

"""What the study of epidemic recovery measures, from the rows of its runs."""

from collections.abc import Iterator

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
STYLES = (PUSH, COMBINED, PUBLISHER, RANDOM, SUBSCRIBER, OURS)
_WARM_S = 1.0  # buffers fill, and the first losses are noticed
_LATE_S = 3.5  # before the end: as long as a full buffer keeps an event, so that all have had their time, and no more
_DIGESTS = ("GossipDigest", "GossipPull", "GossipVector", "GossipComplete")  # what the paper counts as gossip
_REQUESTS = ("GossipRequest",)
_EVENTS = ("GossipEvent",)


def slices(row: Row) -> Iterator[tuple[float, float, float]]:
    """Of each slice of time: its beginning, what was owed of the events published in it, and what was delivered."""
    for name, owed in row.items():
        if name.startswith("slices.owed.") and owed:
            number = name.rpartition(".")[2]
            yield int(number) * row["slices_s"], owed, row.get(f"slices.delivered.{number}") or 0


def _steady(row: Row) -> list[tuple[float, float, float]]:
    return [each for each in slices(row) if _WARM_S <= each[0] < row["duration_s"] - _LATE_S]


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


def worst_slice(runs: Runs) -> float:
    return min(got / owed for row in runs.rows for _, owed, got in _steady(row))


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

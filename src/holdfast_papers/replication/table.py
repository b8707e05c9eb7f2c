"""Table 1 of paper 003: which protocol keeps which promise, decided on the deliveries of many seeds.

A cross needs a witness, a tick needs that none is found. The runs are small and busy: two brokers with subscribers, a
publisher that goes on while the replica is built, and a faulty broker that is down, or slow.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import get_args

from holdfast.books.replication_promises import EventId, Witness, incomplete, unordered
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast_papers.replication.model import SOURCE, Model, ReplicationSetting, ServiceTimes

PAPER: dict[
    tuple[CopyProtocol, ReplicaUse], tuple[bool, bool]
] = {  # complete, ordered; weak for failover, strong otherwise
    ("basic", "failover"): (False, True),
    ("synchronous", "failover"): (True, True),
    ("incremental", "failover"): (True, False),
    ("basic", "scheduling"): (False, False),
    ("synchronous", "scheduling"): (True, False),
    ("incremental", "scheduling"): (True, False),
    ("basic", "reordering"): (False, True),
    ("synchronous", "reordering"): (True, True),
    ("incremental", "reordering"): (True, True),
}


ALIKE = [(f"c{number}", f"t{number}") for number in range(2)]  # subscribers that want the same, here and there


@dataclass(frozen=True)
class ClaimCell:
    """One protocol and one promise."""

    copying: CopyProtocol
    use: ReplicaUse
    promise: str
    paper: bool | None  # None: the paper does not have the protocol
    seeds: int
    witness: Witness | None
    seed: int | None  # of the witness

    @property
    def kept(self) -> bool:
        return self.witness is None


def busy_setting(copying: CopyProtocol, use: ReplicaUse, seed: int) -> ReplicationSetting:
    """A small run in which much happens at once; what happens depends on the seed."""
    dice = Random(f"{seed}/table")
    return ReplicationSetting(
        copying,
        use,
        subscriptions=dice.randrange(20, 80),
        pending=dice.randrange(5, 40),
        degree=dice.choice((0.1, 0.5, 1.0)),
        neighbours=2,
        seed=seed,
        costs=ServiceTimes(
            message_us=100, scan_us=dice.randrange(10, 200), pace_us=dice.randrange(100, 800), entry_us=5
        ),
        every_us=dice.randrange(300, 1_500),
        more=100,
        congested_us=0 if use == "failover" else dice.randrange(500, 3_000),
        replica_us=dice.choice((0, 1_000)),
        twins=True,
    )


def deliveries_of(setting: ReplicationSetting) -> dict[str, list[EventId]]:
    found = Model(setting).experiment().deliveries
    return {client: [(SOURCE, seq) for seq, _, _ in rows] for client, rows in found.items()}


def table(seeds: Iterable[int]) -> list[ClaimCell]:
    cells = []
    seeds = list(seeds)
    for use in get_args(ReplicaUse):
        for copying in get_args(CopyProtocol):
            found: dict[str, tuple[Witness, int] | None] = {"complete": None, "ordered": None}
            for seed in seeds:
                deliveries = deliveries_of(busy_setting(copying, use, seed))
                for promise, witness in (
                    ("complete", incomplete(deliveries, ALIKE)),
                    ("ordered", unordered(deliveries)),
                ):
                    if witness is not None and found[promise] is None:
                        found[promise] = witness, seed
            for at, (promise, broken) in enumerate(found.items()):
                paper = PAPER.get((copying, use))
                in_paper = None if paper is None else paper[at]
                cells.append(ClaimCell(copying, use, promise, in_paper, len(seeds), *(broken or (None, None))))
    return cells

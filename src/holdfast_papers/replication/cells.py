"""What the study of paper 003 runs: a cell for each point of its figures and each entry of its table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from holdfast.books.replication_promises import EventId, incomplete, unordered
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast_papers.models import Cell
from holdfast_papers.replication.as_written import AsWritten, Reading
from holdfast_papers.replication.model import Model, ReplicationSetting
from holdfast_papers.replication.relief import RELIEVE, measure_relief
from holdfast_papers.replication.table import ALIKE, PAPER, busy_setting, deliveries_of
from holdfast_papers.study import Scale

COPYING: tuple[CopyProtocol, ...] = get_args(CopyProtocol)
COMPARED: tuple[CopyProtocol, ...] = ("synchronous", "incremental", "ordered")
SUBSCRIPTIONS = {"quick": (100, 1_000, 10_000), "paper": (100, 500, 1_000, 2_000, 5_000, 10_000)}
FANOUTS: dict[str, tuple[tuple[float, bool | None], ...]] = {  # from few matches to many: degree, and towards which
    "quick": ((1.0, False), (0.5, None), (1.0, True), (4.0, True)),
    "paper": (
        (2.0, False),
        (1.0, False),
        (0.5, False),
        (0.1, None),
        (0.5, True),
        (1.0, True),
        (2.0, True),
        (4.0, True),
    ),
}
PENDING = {"quick": (100, 1_000), "paper": (100, 200, 400, 600, 800, 1_000)}
NEIGHBOURS = {"quick": (1, 20), "paper": (1, 2, 5, 10, 15, 20)}
CONGESTED_US = {"quick": (1_000, 4_000), "paper": (500, 1_000, 2_000, 4_000, 8_000)}
SEEDS = {"quick": 5, "paper": 20}
TABLE_SEEDS = {"quick": 20, "paper": 200}
_ARRIVALS = 0.4  # of the time that the congested broker takes for an event: it gets 2.5 times what it can do
# What waits for it when the replica comes, and what is published after that: as many again, or so many more that the
# time before does not count.
_BACKLOG, _AS_MANY, _MANY = 500, 500, 5_000


def models(scale: Scale) -> Mapping[str, Sequence[Cell]]:
    seeds = range(1, SEEDS[scale] + 1)
    return {
        "table": list(_table(range(1, TABLE_SEEDS[scale] + 1))),
        "written": list(_written(range(1, TABLE_SEEDS[scale] + 1))),
        "population": [
            {"copying": copying, "subscriptions": count, "seed": seed}
            for count in SUBSCRIPTIONS[scale]
            for copying in COPYING
            for seed in seeds
        ],
        "fanout": [
            {"copying": copying, "degree": degree, "popular": popular, "pending": 500, "seed": seed}
            for degree, popular in FANOUTS[scale]
            for copying in COMPARED
            for seed in seeds
        ],
        "pending": [
            {"copying": copying, "pending": count, "seed": seed}
            for count in PENDING[scale]
            for copying in COMPARED
            for seed in seeds
        ],
        "neighbours": [
            {"copying": copying, "neighbours": count, "subscriptions": each * count or 1_000, "each": each}
            | {"seed": seed}
            for copying in ("incremental", "ordered")
            for each in (0, 500)
            for count in NEIGHBOURS[scale]
            for seed in seeds
        ],
        "congestion": list(_congestion(scale, seeds)),
        "relief": [{"relief": name, "seed": seed} for name in RELIEVE for seed in seeds],
    }


def _table(seeds: Sequence[int]) -> Iterator[Cell]:
    for use in get_args(ReplicaUse):
        for copying in COPYING:
            for seed in seeds:
                yield {"copying": copying, "use": use, "seed": seed, "table": True}


def _written(seeds: Sequence[int]) -> Iterator[Cell]:
    for copying, use in PAPER:
        for reading in get_args(Reading) if use == "reordering" else ("sentence",):
            for seed in seeds:
                yield {"copying": copying, "use": use, "reading": reading, "seed": seed}


def _congestion(scale: Scale, seeds: Sequence[int]) -> Iterator[Cell]:
    for congested_us in CONGESTED_US[scale]:
        load = {
            "congested_us": congested_us,
            "replica_us": congested_us,
            "every_us": round(_ARRIVALS * congested_us),
            "pending": _BACKLOG,
            "subscriptions": 100,
        }
        for more in (_AS_MANY, _MANY):
            for seed in seeds:
                setting = {**load, "more": more, "seed": seed}
                yield {**setting, "use": "scheduling", "copying": "basic", "alone": True}
                for use in ("scheduling", "reordering") if more == _AS_MANY else ("scheduling",):
                    for copying in COPYING:
                        yield {**setting, "use": use, "copying": copying, "alone": False}


def measure(cell: Cell) -> dict[str, Any]:
    if cell.get("table"):
        return _broken(deliveries_of(busy_setting(cell["copying"], cell["use"], cell["seed"])))
    if "relief" in cell:
        return measure_relief(cell["relief"], cell["seed"])
    if "reading" in cell:
        deliveries = AsWritten(**cell).run()
        copies = max(len(events) / len(set(events)) for events in deliveries.values())
        return {**_broken(deliveries), "copies": copies}
    found = Model(ReplicationSetting(**{key: value for key, value in cell.items() if key != "each"})).experiment()
    return {
        "resumption_s": found.resumption_s,
        "ordering": found.ordering,
        "last_s": found.last_s,
        "replication_s": found.replication_s,
        "dropped": found.dropped,
        "fanout": found.fanout,
        "throughput": found.throughput,
        "finished_s": found.finished_s,
        "matching": found.matching,
        "messages": sum(found.messages.values()),
        **{f"sent.{kind}": count for kind, count in found.messages.items()},
    }


def _broken(deliveries: dict[str, list[EventId]]) -> dict[str, Any]:
    broken = {"complete": incomplete(deliveries, ALIKE), "ordered": unordered(deliveries)}
    return {promise: None if witness is None else str(witness) for promise, witness in broken.items()}

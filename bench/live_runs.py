"""Live as fast as in batches: events as Python maps, in runs and one by one, beside the same conditions on a table.

A broker asks which of its neighbours want an event, so each condition belongs to one of twenty and the answer is a set
of them; an application asks for the ids, which are one Python object for each match. Both are measured. The index is
the one that brokers have, compiled as it is after some thousand events. CPU time, best of several rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

from bench.rounds import Disagreement
from bench.workloads import Workload

RUN = 64  # events, as many as an index is asked about at a time
NEIGHBOURS = 20
TIMES = 3.0  # of the batch cost, that an event may take
RUN_US, SINGLE_US = 5.0, 20.0  # or so long


@dataclass(frozen=True)
class LiveRun:
    workload: str
    subscriptions: int
    pairs_per_event: float
    batch_us: float
    run_us: float  # an event in a run: which neighbours want it
    single_us: float  # alone
    run_ids_us: float  # the ids that match
    single_ids_us: float

    @property
    def run_limit_us(self) -> float:
        return max(TIMES * self.batch_us, RUN_US)

    @property
    def single_limit_us(self) -> float:
        return max(TIMES * self.batch_us, SINGLE_US)


def live_run(work: Workload, rounds: int) -> LiveRun:
    from holdfast import parse
    from holdfast.matching.levels import Levels

    index: Levels[int] = Levels()
    for id_, condition in enumerate(work.texts):
        filters = parse(condition).filters
        index.add(id_, filters)
        index.mark(id_, filters, 1 << id_ % NEIGHBOURS)
    index.settle(first=True)
    (level,) = index.levels
    table, events = work.table, work.table.to_pylist()
    runs = [events[at : at + RUN] for at in range(0, len(events), RUN)]
    alone = events[: len(events) // 4]

    def batch() -> int:
        return sum(rows.size for rows, _ in level.columns.match(table))

    def ids_of_runs() -> int:
        return sum([len(each) for run in runs for each in index.match_each(run)])

    pairs = batch()
    if ids_of_runs() != pairs:
        raise Disagreement(f"{work.name}: runs and the table do not match the same")
    for event in alone[:RUN]:
        expected = 0
        for id_ in index.match(event):
            expected |= 1 << id_ % NEIGHBOURS
        if index.marks(event) != expected:
            raise Disagreement(f"{work.name}: the neighbours are not those of the conditions that match")
    best = {
        "batch_us": _best_us(batch, rounds) / len(events),
        "run_us": _best_us(lambda: [index.marks_each(run) for run in runs], rounds) / len(events),
        "single_us": _best_us(lambda: [index.marks(event) for event in alone], rounds) / len(alone),
        "run_ids_us": _best_us(ids_of_runs, rounds) / len(events),
        "single_ids_us": _best_us(lambda: [index.match(event) for event in alone], rounds) / len(alone),
    }
    return LiveRun(work.name, len(work.texts), pairs / len(events), **best)


def _best_us(work: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = process_time()
        work()
        best = min(best, process_time() - began)
    return 1e6 * best

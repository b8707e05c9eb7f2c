"""Many seeds of the swarm, added up in a table with a row for each kind of scenario; a file keeps it as it grows.

Seeds are run in blocks, in as many processes as are asked for, and a block is added to the file when it and all before
it are done. So a campaign that was stopped goes on behind the last block, and its table is the same as if it had not
been: a seed decides everything.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.sim.swarm import SwarmReport

_COUNTS = "scenarios", "faults", "events", "owed", "delivered", "lost", "named", "broken"
_ENDINGS = ("restart", "resume", "link-up")  # of faults that are counted already
_BLOCK = 25  # seeds: a process is done with them in some ten seconds


class BrokenSeed(msgspec.Struct, frozen=True):
    seed: int
    scenario: str
    promises: dict[str, str]  # what broke, and how

    @property
    def again(self) -> str:
        return f"holdfast sim --swarm 1 --seed {self.seed}"


class KindRow(msgspec.Struct):
    """All scenarios of one kind."""

    kind: str
    scenarios: int = 0
    faults: int = 0
    events: int = 0
    owed: int = 0
    delivered: int = 0
    lost: int = 0
    named: int = 0  # of those lost: the subscriber has named it
    broken: int = 0  # scenarios that broke a promise
    fault_kinds: dict[str, int] = msgspec.field(default_factory=dict)
    troubles: dict[str, int] = msgspec.field(default_factory=dict)  # and in how many scenarios

    def add(self, other: "KindRow") -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.fault_kinds = _summed(self.fault_kinds, other.fault_kinds)
        self.troubles = _summed(self.troubles, other.troubles)


def _summed(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted((Counter(one) + Counter(other)).items()))


class SwarmTable(msgspec.Struct):
    first_seed: int
    seeds: int = 0
    rows: list[KindRow] = msgspec.field(default_factory=list)
    broken: list[BrokenSeed] = msgspec.field(default_factory=list)

    def add(self, block: "SwarmTable") -> None:
        self.seeds += block.seeds
        rows = {row.kind: row for row in self.rows}
        for row in block.rows:
            rows.setdefault(row.kind, KindRow(row.kind)).add(row)
        self.rows = [rows[kind] for kind in sorted(rows)]
        self.broken += block.broken

    @property
    def total(self) -> KindRow:
        total = KindRow("all")
        for row in self.rows:
            total.add(row)
        return total

    def as_json(self) -> dict[str, Any]:
        """With sums over all kinds, and the command that shows a broken seed again."""
        total = self.total
        return {
            "first_seed": self.first_seed,
            "seeds": self.seeds,
            "rows": msgspec.to_builtins(self.rows),
            "all": msgspec.to_builtins(total),
            "troubles": [{"trouble": name, "scenarios": count} for name, count in total.troubles.items()],
            "broken": [{**msgspec.to_builtins(each), "again": each.again} for each in self.broken],
        }

    def lines(self) -> list[str]:
        """The table for people."""
        names = [name for name in _COUNTS if name != "delivered"]
        found = [f"{'kind':<24}" + "".join(f"{name:>12}" for name in names)]
        for row in [*self.rows, self.total]:
            found.append(f"{row.kind:<24}" + "".join(f"{getattr(row, name):>12,}" for name in names))
        return found


def grow(table: SwarmTable, until: int, jobs: int, path: Path | None) -> Iterator[SwarmTable]:
    """Run the seeds that are left of so many, and add each block to the table and its file; yields the blocks."""
    first, last = table.first_seed + table.seeds, table.first_seed + until
    blocks = [range(at, min(at + _BLOCK, last)) for at in range(first, last, _BLOCK)]
    # Processes that are stopped clear nothing away: their traces lie in a folder of ours.
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-swarm-") as scratch,
        nullcontext() if jobs == 1 else get_context("spawn").Pool(jobs, _work_in, (scratch,)) as pool,
    ):
        for block in map(run_block, blocks) if pool is None else pool.imap(run_block, blocks):
            table.add(block)
            if path is not None:
                _write(table, path)
            yield block


def _work_in(scratch: str) -> None:
    tempfile.tempdir = scratch


def run_block(seeds: range) -> SwarmTable:
    from holdfast.sim.swarm import run_seed  # noqa: PLC0415  # compiled code: in the processes that run it

    table = SwarmTable(seeds.start)
    for seed in seeds:
        report = run_seed(seed)
        broken = [BrokenSeed(seed, report.scenario.network.name, how)] if (how := _how(report)) else []
        table.add(SwarmTable(seed, 1, [_row(report)], broken))
    return table


def _how(report: "SwarmReport") -> dict[str, str]:
    return {each.promise: f"{each.broken:,} of {each.checked:,}" for each in report.broken}


def _row(report: "SwarmReport") -> KindRow:
    outcome, kinds = report.outcome, Counter[str](fault.kind for fault in report.scenario.network.faults)
    return KindRow(
        report.scenario.kind,
        scenarios=1,
        faults=sum(count for kind, count in kinds.items() if kind not in _ENDINGS),
        events=outcome.published,
        owed=outcome.owed,
        delivered=outcome.delivered,
        lost=outcome.owed - outcome.delivered,
        named=report.named,
        broken=int(bool(report.broken)),
        fault_kinds=dict(kinds),
        troubles=dict.fromkeys(report.scenario.troubles, 1),
    )


def loaded(path: Path | None, first_seed: int) -> SwarmTable:
    """The table that a file has, to be continued; an empty one without a file."""
    if path is None or not path.exists():
        return SwarmTable(first_seed)
    try:
        table = msgspec.json.decode(path.read_bytes(), type=SwarmTable)
    except (msgspec.DecodeError, OSError) as problem:
        raise InputError(f"--save: {path} is no table of a swarm ({problem}); name another file") from None
    if table.first_seed != first_seed:
        begun = f"{path} has the seeds from {table.first_seed} on, not from {first_seed}"
        raise InputError(f"--save: {begun}; give --seed {table.first_seed} to continue, or name another file")
    return table


def _write(table: SwarmTable, path: Path) -> None:
    """At once: a process that is killed leaves the old table or the new one."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_text(json.dumps(table.as_json(), indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    except OSError as problem:
        raise InputError(f"--save: {path}: cannot be written ({problem.strerror or problem})") from None

"""Drawn runs, honest and tampered with, before the judge in one process: what it convicts, by mode, as a table.

`python -m tests.sim.tampering SEEDS` prints the table of docs/promises.md. A run is drawn as the swarm draws it, once
with its faults and once without; then links lose control messages in every second one.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from holdfast.books.promised import order_promised
from holdfast.books.promises import check
from holdfast.books.runs import Run
from holdfast.network.schema import Network
from holdfast.sim.swarm_scenarios import (
    gossiping_scenario,
    hopping_scenario,
    reliable_scenario,
    replicating_scenario,
    scenario,
)
from tests.pipeline.audit_runs import rewrite, simulate

DRAWN: dict[str, Callable[[int], Network]] = {
    "best effort": scenario,
    "recovery": reliable_scenario,
    "gossip": gossiping_scenario,
    "hops": hopping_scenario,
    "replicas": replicating_scenario,
}
Rows = list[dict[str, Any]]
FEW = 20  # deliveries: with fewer a run shows too little


def drawn(seeds: range) -> Iterator[tuple[str, Network]]:
    for kind, draw in DRAWN.items():
        for seed in seeds:
            network = draw(seed)
            yield kind, network
            if kind != "replicas":
                yield f"{kind}, no faults", replace(network, faults=(), lossy_control=bool(seed % 2))


# What somebody may do to the deliveries of a trace --------------------------------------------------------------------


def one_dropped(rows: Rows, dice: Random) -> Rows:
    """One that came by the original way, between others of the pair that got most."""
    pairs = Counter((row["subscriber"], row["source"]) for row in rows if row["via"] == "original")
    (pair, _), *_ = pairs.most_common(1)
    own = [at for at, row in enumerate(rows) if (row["subscriber"], row["source"]) == pair and row["via"] == "original"]
    gone = own[len(own) // 2]
    return rows[:gone] + rows[gone + 1 :]


def repair_dropped(rows: Rows, dice: Random) -> Rows:
    """One that was recovered: no counted message brought it, so that only its absence shows."""
    repairs = [at for at, row in enumerate(rows) if row["via"] == "repair"]
    gone = repairs[len(repairs) // 2]
    return rows[:gone] + rows[gone + 1 :]


def tenth_dropped(rows: Rows, dice: Random) -> Rows:
    return [row for row in rows if dice.random() >= 0.1]


def all_dropped(rows: Rows, dice: Random) -> Rows:
    return []


def duplicated(rows: Rows, dice: Random) -> Rows:
    return [*rows, dice.choice(rows)]


def swapped(rows: Rows, dice: Random) -> Rows:
    """Two events of the pair that got most change places, long after their subscriber has learnt."""
    (pair, _), *_ = Counter((row["subscriber"], row["source"]) for row in rows).most_common(1)
    own = sorted((row["time_us"], at) for at, row in enumerate(rows) if (row["subscriber"], row["source"]) == pair)[-6:]
    one, other = own[0][1], own[-1][1]
    changed = [dict(row) for row in rows]
    changed[one]["seq"], changed[other]["seq"] = rows[other]["seq"], rows[one]["seq"]
    return changed


def early(rows: Rows, dice: Random) -> Rows:
    """One comes before anything was published."""
    changed = [dict(row) for row in rows]
    dice.choice(changed)["time_us"] = -1
    return changed


def foreign(rows: Rows, dice: Random) -> Rows:
    return [*rows, {**dice.choice(rows), "seq": 10**6}]


TAMPERINGS: dict[str, tuple[Callable[[Rows, Random], Rows], str]] = {
    "one dropped": (one_dropped, "P4"),
    "repair dropped": (repair_dropped, "P4"),
    "10 % dropped": (tenth_dropped, "P4"),
    "all dropped": (all_dropped, "P4"),
    "duplicate": (duplicated, "P2"),
    "swapped": (swapped, "P3"),
    "early": (early, "P1"),
    "foreign": (foreign, "P1"),
}


def tampered_copy(run: Path, name: str, folder: Path) -> Path:
    copy = Path(shutil.copytree(run, folder))
    dice = Random(f"{run.name}/{name}")
    change = TAMPERINGS[name][0]
    rewrite(
        copy,
        "deliveries",
        lambda table: pa.Table.from_pylist(change(table.to_pylist(), dice), table.schema),
    )
    return copy


def breaks(run: Path, name: str) -> bool:
    """Whether the run promises what the tampering breaks: few promise order, and not all repair anything."""
    if name == "swapped":
        return order_promised(Run(run).about)[0] == "strict"
    return name != "repair dropped" or "repair" in Run(run).table("deliveries")["via"].to_pylist()


# The table ------------------------------------------------------------------------------------------------------------


def matrix(seeds: range, folder: Path) -> tuple[dict[tuple[str, str], list[int]], list[str]]:
    """By kind of run and tampering: how many were convicted, of how many; and the honest runs that were accused."""
    found: dict[tuple[str, str], list[int]] = {}
    accused = []
    for number, (kind, network) in enumerate(drawn(seeds)):
        run = folder / f"{number}"
        simulate(network, run)
        broken = [name for name, verdict in check(run).items() if not verdict.holds]
        accused += [f"{kind}, seed {network.seed}: {', '.join(broken)}"] if broken else []
        if Run(run).table("deliveries").num_rows >= FEW:
            for name, (_, promise) in TAMPERINGS.items():
                if breaks(run, name):
                    copy = tampered_copy(run, name, folder / "copy")
                    counts = found.setdefault((kind, name), [0, 0])
                    counts[0] += not check(copy)[promise].holds
                    counts[1] += 1
                    shutil.rmtree(copy)
        shutil.rmtree(run)
    return found, accused


def table(found: dict[tuple[str, str], list[int]]) -> str:
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    lines = [f"| | {' | '.join(TAMPERINGS)} |", f"|---|{'---|' * len(TAMPERINGS)}"]
    for kind in kinds:
        cells = [found.get((kind, name)) for name in TAMPERINGS]
        shown = " | ".join(f"{cell[0]} of {cell[1]}" if cell else "" for cell in cells)
        lines.append(f"| {kind} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    first, beyond = map(int, sys.argv[1:3])
    with TemporaryDirectory() as scratch:
        counted, wrongly = matrix(range(first, beyond), Path(scratch))
    print(table(counted))
    print(f"{len(wrongly)} honest runs accused", *wrongly, sep="\n")

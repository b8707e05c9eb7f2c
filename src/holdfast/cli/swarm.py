"""`holdfast sim --swarm N`: run drawn scenarios, say which break a promise, and keep a table of them."""

import json
import sys
from pathlib import Path

import typer

from holdfast.model.errors import InputError

SEED_MAX = 2**62 - 1
_JOBS_MAX = 64


def run_swarm(seeds: int, first_seed: int, jobs: int, save: Path | None, as_json: bool) -> None:
    from holdfast.sim.swarm_table import grow, loaded

    if not 0 <= first_seed <= SEED_MAX:
        raise InputError(f"--seed: expected a whole number from 0 to {SEED_MAX}, found {first_seed}")
    if not 1 <= jobs <= _JOBS_MAX:
        raise InputError(f"--jobs: expected 1 to {_JOBS_MAX} processes, found {jobs}")
    if save is not None and (save.is_dir() or not save.parent.is_dir()):
        raise InputError(f"--save: expected the name of a file in a folder that exists, found {save}")
    table = loaded(save, first_seed)
    if table.seeds and not as_json:
        print(f"{save} has {table.seeds:,} seeds; {max(0, seeds - table.seeds):,} are left", file=sys.stderr)
    for block in grow(table, seeds, jobs, save):
        for each in [] if as_json else block.broken:
            broken = ", ".join(f"{promise} ({how})" for promise, how in each.promises.items())
            print(f"seed {each.seed}: {each.scenario}\n  broken: {broken}\n  again: {each.again}", flush=True)
    if as_json:
        print(json.dumps(table.as_json()))
    else:
        print("\n".join(table.lines()))
        print(f"{table.seeds:,} scenarios from seed {first_seed} on, {len(table.broken):,} with a broken promise")
    if table.broken:
        raise typer.Exit(1)

"""What the runs found, for people and as JSON, and the table of docs/nemesis.md."""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.model.errors import InputError
from holdfast.nemesis.campaign import AttackRun, Campaign
from holdfast.nemesis.modes import MODES

_COLUMNS = (
    ("mode", "mode"),
    ("nemeses", "nemeses"),
    ("minutes", "minutes"),
    ("faults", "faults"),
    ("events", "events"),
    ("owed", "owed"),
    ("delivered", "delivered"),
    ("named", "lost, named"),
    ("unnamed", "lost, unnamed"),
    ("undecided", "undecided"),
    ("twice", "twice"),
    ("disordered", "out of order"),
    ("wrong", "foreign or early"),
)


def rows_of(campaign: Campaign, runs: Iterable[AttackRun]) -> list[dict[str, Any]]:
    """A row for each mode, summed over its runs."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        if run.skipped:
            continue
        verdict = run.verdict
        row = rows.setdefault(run.mode.name, {"mode": run.mode.name, "kinds": {}, "seeds": []})
        row["seeds"].append(run.seed)
        row["kinds"] = dict(Counter(row["kinds"]) + run.struck)
        sums = {
            "nemeses": 1,
            "minutes": campaign.run_us / 60e6,
            "faults": sum(run.struck.values()),
            "events": verdict.events,
            "owed": verdict.owed,
            "delivered": verdict.delivered,
            "named": sum(verdict.named.values()),
            "unnamed": verdict.unnamed,
            "undecided": verdict.undecided,
            "twice": verdict.twice,
            "again": verdict.again,
            "disordered": verdict.disordered,
            "wrong": verdict.foreign + verdict.early,
        }
        for name, value in sums.items():
            row[name] = row.get(name, 0) + value
    return list(rows.values())


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of columns, each as wide as it needs."""
    cells = [[title for _, title in _COLUMNS], *[[_cell(row[name]) for name, _ in _COLUMNS] for row in rows]]
    widths = [max(len(line[place]) for line in cells) for place in range(len(_COLUMNS))]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]]
        )
        for line in cells
    ]


def _cell(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def text(
    campaign: Campaign, runs: Sequence[AttackRun], made: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str:
    """What the runs found; `made` were made before: their commands, and the promises that they broke."""
    lines = [*table(rows_of(campaign, runs)), ""]
    before = [each for each in campaign.commands if each in made]
    if before:
        lines.append(f"{len(before)} runs of this campaign were made before, and are in the file")
    lines += [f"BROKEN  before: {broken}\n        see it again: {each}" for each in before for broken in made[each]]
    for run in runs:
        if run.skipped:
            lines.append(f"{run.mode.name}: left out, because it does not go with the file: {run.skipped}")
    for note, count in Counter(note for run in runs for note in run.notes).items():
        lines.append(f"{note}{f' ({count} times)' if count > 1 else ''}")
    for run in runs:
        for broken in run.verdict.broken:
            lines += [f"BROKEN  {run.mode.name}, seed {run.seed}: {broken}", f"        see it again: {run.again}"]
        kept = [each for each in run.verdict.shown if _is_broken(run, each["what"])]
        lines += [f"        {json.dumps(each)}" for each in kept[:3]]
    if not broken_runs(runs) and not any(made[each] for each in before):
        lines.append("no promise was broken")
    return "\n".join(lines)


def _is_broken(run: AttackRun, what: str) -> bool:
    promised = {"unnamed": run.mode.names_losses, "disordered": run.mode.in_order}
    return promised.get(what, True)


def broken_runs(runs: Iterable[AttackRun]) -> list[AttackRun]:
    return [run for run in runs if run.verdict.broken]


def as_json(campaign: Campaign, runs: Sequence[AttackRun]) -> dict[str, Any]:
    return {
        "file": campaign.file,
        "seed": campaign.seed,
        "minutes": campaign.minutes,
        "modes": rows_of(campaign, runs),
        "runs": [run.as_json() for run in runs if not run.skipped],
        "left_out": {run.mode.name: run.skipped for run in runs if run.skipped},
        "broken": [f"{run.again}: {each}" for run in runs for each in run.verdict.broken],
    }


def saved(path: Path) -> dict[str, Any]:
    """What a file of runs holds; nothing when it does not exist yet."""
    if not path.exists():
        return {"runs": [], "rows": []}
    if path.is_dir():
        raise InputError(f"--save: {path} is a folder; name a file")
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        is_ours = all("again" in each for each in found["runs"]) and all("mode" in row for row in found["rows"])
    except (ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
        raise InputError(f"--save: {path} is no file that holdfast nemesis wrote; name another")
    return found


def save(path: Path, campaign: Campaign, run: AttackRun) -> None:
    """Add a run to a file that keeps the sums of all saved runs, a row for each mode.

    Campaigns that run side by side may share a file: each adds its runs as they end, and replaces the file at once, so
    that a campaign which is stopped goes on where it was.
    """
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        former = saved(path)
        rows = {row["mode"]: row for row in former["rows"]}
        for row in rows_of(campaign, [run]):
            rows[row["mode"]] = _sum(rows[row["mode"]], row) if row["mode"] in rows else row
        made = {"when": datetime.now(UTC).date().isoformat(), "again": run.again, "broken": run.verdict.broken}
        found = {"runs": [*former["runs"], made], "rows": [rows[name] for name in MODES if name in rows]}
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps(found, indent=1) + "\n")
        new.replace(path)
    finally:
        os.close(folder)


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    found = dict(one)
    for name, value in other.items():
        if name == "kinds":
            found[name] = dict(Counter(one[name]) + Counter(value))
        elif name != "mode":
            found[name] = one[name] + value
    return found

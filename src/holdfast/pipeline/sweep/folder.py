"""The folder of a sweep: what was asked, a file for every finished cell, and the tables made from them.

    sweep.json          the plan, so that another one is not mixed in
    cells/00042.json    a finished cell; 00042.failed.json one that failed
    runs/, summary/     Parquet tables, written when all cells are through
    charts/             drawings of the summary
    traces/00042/       a run's trace, if the plan keeps them

A cell's file appears at once and whole (written beside, then renamed), so a sweep that is killed loses only the cells
under way. Tasks write these files themselves: on a cluster, all machines must see the folder.
"""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from holdfast import __version__
from holdfast.model.errors import InputError
from holdfast.pipeline.sweep.cell import CellRecord, record_from
from holdfast.pipeline.sweep.plan import SweepPlan

FORMAT = 1
_FAILED = ".failed.json"
_DONE = ".json"
_CELL = re.compile(r"\d+(\.failed)?\.json")
_SHOWN_CHARACTERS_MAX = 80  # of a changed value, in a message
_PARTS = frozenset({"sweep.json", "cells", "runs", "summary", "charts", "traces", "lock"})


@dataclass(frozen=True)
class SweepFolder:
    path: Path

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def summary(self) -> Path:
        return self.path / "summary"

    @property
    def charts(self) -> Path:
        return self.path / "charts"

    def trace(self, number: int) -> Path:
        return self.path / "traces" / f"{number:05}"

    # Cells ---------------------------------------------------------------------------------------

    def write(self, record: CellRecord) -> None:
        ending = _DONE if record.error is None else _FAILED
        name = f"{record.cell:05}{ending}"
        beside = self._cells / f".{name}.{os.getpid()}"
        with beside.open("w", encoding="utf-8") as file:
            file.write(record.to_json())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._cells / name)

    def record(self, number: int) -> CellRecord | None:
        for ending in (_DONE, _FAILED):
            path = self._cells / f"{number:05}{ending}"
            try:
                return record_from(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            except (TypeError, ValueError):
                raise InputError(f"{path}: damaged; remove it, and the sweep runs that cell again") from None
        return None

    def holds(self, number: int) -> bool:
        return any((self._cells / f"{number:05}{ending}").exists() for ending in (_DONE, _FAILED))

    def done(self) -> set[int]:
        return {int(name.removesuffix(_DONE)) for name in self._names() if not name.endswith(_FAILED)}

    def failed(self) -> set[int]:
        return {int(name.removesuffix(_FAILED)) for name in self._names() if name.endswith(_FAILED)}

    def count(self) -> tuple[int, int]:
        """How many cells are done and how many have failed."""
        names = self._names()
        failed = sum(name.endswith(_FAILED) for name in names)
        return len(names) - failed, failed

    def forget_failures(self) -> None:
        """They are tried again: what made them fail may have been mended."""
        for number in self.failed():
            (self._cells / f"{number:05}{_FAILED}").unlink()

    def must_be_visible(self) -> None:
        if not (self.path / "sweep.json").exists():
            raise InputError(
                f"{self.path}: a task on {os.uname().nodename} does not see this folder; "
                "on a cluster --out must be on storage that the driver and all workers share"
            )

    # Tables --------------------------------------------------------------------------------------

    @property
    def has_tables(self) -> bool:
        """Spark writes _SUCCESS last."""
        return all((table / "_SUCCESS").exists() for table in (self.runs, self.summary))

    def drop_tables(self) -> None:
        for table in (self.summary, self.runs):
            shutil.rmtree(table, ignore_errors=True)

    # The folder itself ---------------------------------------------------------------------------

    @contextmanager
    def locked(self, plan: SweepPlan, overwrite: bool = False) -> Iterator[None]:
        """Make the folder, or go on with the sweep that it holds; nobody else may work in it meanwhile."""
        try:
            there = self._check(overwrite)
            lock = (self.path / "lock").open("a")
        except OSError as problem:
            raise self._unwritable(problem) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.path}: another sweep is running in this folder") from None
            try:
                if overwrite:
                    self._clear(there)
                self._begin(plan)
            except OSError as problem:
                raise self._unwritable(problem) from None
            yield

    def _check(self, overwrite: bool) -> list[str]:
        """What is in the folder; only what is certainly a sweep may be continued or replaced."""
        self.path.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in self.path.iterdir())
        if "sweep.json" not in there and set(there) - {"lock", "cells"}:
            raise InputError(f"{self.path} holds something, but no sweep: {', '.join(there[:3])}; name another folder")
        foreign = [name for name in there if name not in _PARTS]
        if overwrite and foreign:
            raise InputError(
                f"{self.path} holds what is not part of a sweep: {', '.join(foreign[:3])}; not overwritten"
            )
        return there

    def _clear(self, there: list[str]) -> None:
        (self.path / "sweep.json").unlink(missing_ok=True)
        for name in there:
            if name not in ("sweep.json", "lock"):
                shutil.rmtree(self.path / name)

    def _begin(self, plan: SweepPlan) -> None:
        self._cells.mkdir(exist_ok=True)
        for path in self._cells.glob(".*"):  # half-written when somebody was killed
            path.unlink()
        asked = {"format": FORMAT, "version": __version__, "code": _code(), **plan.as_json()}
        plan_file = self.path / "sweep.json"
        if not plan_file.exists():
            beside = self._cells / ".sweep"
            beside.write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")
            beside.replace(plan_file)
            return
        changes = list(_changes(_plan_in(plan_file), asked))
        if changes:
            listed = "\n".join(f"  {each}" for each in changes)
            raise InputError(
                f"{self.path} holds another sweep; name another folder, "
                f"or give --overwrite to start from nothing. What has changed:\n{listed}"
            )

    def _unwritable(self, problem: OSError) -> InputError:
        return InputError(f"{self.path}: cannot be written ({problem.strerror or problem})")

    @property
    def _cells(self) -> Path:
        return self.path / "cells"

    def _names(self) -> list[str]:
        return [name for name in os.listdir(self._cells) if _CELL.fullmatch(name)]


_DECIDING = ("model", "language", "matching", "protocol", "wire", "network", "sim")


@cache  # what a process has begun with is what it runs
def _code() -> str:
    """A digest of the sources that decide an outcome: two simulators must not share a table."""
    digest = sha256()
    for package in _DECIDING:
        for source in _sources(files(f"holdfast.{package}")):
            digest.update(source)
    return digest.hexdigest()[:16]


def _sources(folder: Traversable) -> Iterator[bytes]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each.read_bytes()


def _plan_in(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}: damaged; name another folder, or give --overwrite to start from nothing")
    return found


def _changes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """What differs between two plans, in words for people."""
    if before.get("format") != now["format"]:
        yield f"the folder is of format {before.get('format')}, this version writes {now['format']}"
        return
    if before["version"] != now["version"]:
        yield f"it was started by holdfast {before['version']}, this is {now['version']}"
    elif before["code"] != now["code"]:
        yield f"the simulator: it was started by another holdfast {now['version']} than this one"
    if before["network"] != now["network"]:
        yield "the network file"
    for key in ("seeds", "traces"):
        if before[key] != now[key]:
            yield f"{key}: was {_short(before[key])}, is {_short(now[key])}"
    for key in {**before["settings"], **now["settings"]}:
        if before["settings"].get(key) != now["settings"].get(key):
            yield f"set.{key}: was {_short(before['settings'].get(key))}, is {_short(now['settings'].get(key))}"
    for name in {**before["axes"], **now["axes"]}:
        yield from _axis_changes(name, before["axes"].get(name, []), now["axes"].get(name, []))
    if list(before["axes"]) != list(now["axes"]) and sorted(before["axes"]) == sorted(now["axes"]):
        yield f"the order of what varies: was {', '.join(before['axes'])}, is {', '.join(now['axes'])}"


def _axis_changes(name: str, before: list[Any], now: list[Any]) -> Iterator[str]:
    old, new = [label for label, _ in before], [label for label, _ in now]
    if old != new:
        yield f"{name}: was {_short(old)}, is {_short(new)}"
        return
    for (label, one), (_, other) in zip(before, now, strict=True):
        if one != other:
            yield f"{name} {label}: was {_short(one)}, is {_short(other)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}..."

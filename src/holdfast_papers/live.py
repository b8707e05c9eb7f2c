"""Live runs of a study: each is a process of its own, and kept in the folder when it is over."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import monotonic
from typing import Any

from holdfast.model.errors import HoldfastError
from holdfast.network.writing import to_toml
from holdfast.pipeline.sweep.progress import Progress, Watch
from holdfast_papers.study import Runs

_UP = "from holdfast.cli import main; main()"


def run_up(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What `holdfast up` says of a network file, all of it in one process, and the processor time `cpu_s`."""
    file.write_text(to_toml(dict(data)), encoding="utf-8")
    said, complaints = file.with_suffix(".out"), file.with_suffix(".err")
    with said.open("w", encoding="utf-8") as out, complaints.open("w", encoding="utf-8") as err:
        command = [sys.executable, "-c", _UP, "up", str(file), "--in-process", "--json"]
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, spent = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise HoldfastError(f"the live run of {file.name} failed: {complaints.read_text(encoding='utf-8')[-400:]}")
    return {**json.loads(said.read_text(encoding="utf-8")), "cpu_s": spent.ru_utime + spent.ru_stime}


def kept_runs(
    names: list[str], measure: Callable[[str, Path], dict[str, Any]], folder: Path, at_once: int, watch: Watch | None
) -> Runs:
    """The runs by these names; those of an earlier time are not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.json" for name in names}
    missing = [name for name in names if not files[name].exists()]
    began, before = monotonic(), len(names) - len(missing)
    with ThreadPoolExecutor(at_once) as threads:
        runs = {threads.submit(measure, name, folder / f"{name}.toml"): name for name in missing}
        for done, run in enumerate(as_completed(runs), before + 1):
            beside = files[runs[run]].with_suffix(".part")
            beside.write_text(json.dumps(run.result()), encoding="utf-8")
            beside.replace(files[runs[run]])
            if watch is not None:
                watch(Progress(len(names), before, done, 0, monotonic() - began))
    return Runs([json.loads(files[name].read_text(encoding="utf-8")) for name in names])

"""A million subscriptions in a fresh process: how long, and how much memory.

One process writes the stock conditions and a few events to a folder. Another, the fresh one, reads the
conditions line by line (so only what the matcher keeps stays in memory), adds them, matches one event and
then a batch, which builds both indexes, and prints what that took. Memory is the peak of the resident set
over what it was when everything was imported, as Linux counts it.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.workloads import REPOSITORY, load_stock, stock

BATCH_EVENTS = 1_000
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Memory:
    subscriptions: int
    add_seconds: float
    live_index_seconds: float  # the first match
    batch_index_seconds: float  # the first match_batch
    imported_mib: float
    after_add_mib: float  # growth over imported, at the peak so far
    after_live_mib: float
    peak_growth_mib: float
    pairs: int  # found in the batch

    @property
    def seconds(self) -> float:
        return self.add_seconds + self.live_index_seconds + self.batch_index_seconds


def supported() -> bool:
    return _STATUS.is_file()


def memory(folder: Path, subscriptions: int) -> Memory:
    with tempfile.TemporaryDirectory() as given:
        _call("generate", given, str(folder.resolve()), str(subscriptions))
        return Memory(**json.loads(_call("measure", given)))


def _call(function: str, *arguments: str) -> str:
    code = f"import sys; from bench.memory import {function}; {function}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY).stdout


def generate(given: str, folder: str, subscriptions: str) -> None:
    import pyarrow.parquet as pq

    module = load_stock(Path(folder))
    assert module is not None
    work = stock(module, BATCH_EVENTS, int(subscriptions))
    (Path(given) / "conditions").write_text("".join(f"{each}\n" for each in work.texts))
    pq.write_table(work.table, Path(given) / "events")


def measure(given: str) -> None:
    import pyarrow.parquet as pq

    from holdfast import Matcher

    events = pq.read_table(Path(given) / "events")
    first = events.slice(0, 1).to_pylist()[0]
    matcher = Matcher()
    imported = _resident_kib("VmRSS")
    at = [perf_counter()]
    peaks = []

    def step() -> None:
        at.append(perf_counter())
        peaks.append((_resident_kib("VmHWM") - imported) / 1024)

    with (Path(given) / "conditions").open() as lines:
        for number, line in enumerate(lines):
            matcher.add(f"q{number}", line.rstrip())
    step()
    matcher.match(first)
    step()
    pairs = matcher.match_batch(events).num_rows
    step()
    found = {
        "subscriptions": number + 1,
        "add_seconds": at[1] - at[0],
        "live_index_seconds": at[2] - at[1],
        "batch_index_seconds": at[3] - at[2],
        "imported_mib": imported / 1024,
        "after_add_mib": peaks[0],
        "after_live_mib": peaks[1],
        "peak_growth_mib": peaks[2],
        "pairs": pairs,
    }
    print(json.dumps(found))


def _resident_kib(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"{_STATUS} has no {field}")

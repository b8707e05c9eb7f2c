"""The naive baseline, run as it is from the shared folder, in a process of its own.

That process loads the shared `naive_kernel`, and for every line on its input calls its `main`, which prints
one line with its two rates. Only the generator is wrapped, so that repeats do not generate the same
workload again; that was never in its time. End to end is its encoding plus its kernel, both as it reports
them.
"""

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from bench.contestants import Outcome
from bench.workloads import REPOSITORY, SEED, Workload

_SERVE = "import sys; from bench.naive import serve; serve(sys.argv[1])"
_REPORT = re.compile(r"encode ([\d,]+) events/s, kernel ([\d,]+) events/s, ([\d,]+) pairs")


class Naive:
    name, threads, shape = "naive", 1, ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def prepare(self, work: Workload) -> None:
        assert work.name == "stock", "the baseline knows no other workload"
        self._size = work.size
        self._compiled = tempfile.TemporaryDirectory()
        environment = os.environ | {"NUMBA_CACHE_DIR": self._compiled.name, "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(self._folder.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=REPOSITORY,
        )

    def run(self) -> Outcome:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        events, subscriptions = self._size
        process.stdin.write(f"{events} {subscriptions} {SEED}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        report = _REPORT.search(line)
        if report is None:
            raise RuntimeError(f"the naive baseline said {line!r} instead of its two rates")
        encode, kernel, pairs = (int(number.replace(",", "")) for number in report.groups())
        return Outcome(events / encode + events / kernel, pairs)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(timeout=60)
            self._process.stdout.close()
            self._compiled.cleanup()
            self._process = None


def serve(folder: str) -> None:
    """The process itself."""
    sys.path.insert(0, folder)
    import naive_kernel  # type: ignore[import-not-found]

    naive_kernel.stock.generate = cache(naive_kernel.stock.generate)
    for line in sys.stdin:
        events, subscriptions, seed = map(int, line.split())
        naive_kernel.main(events, subscriptions, seed)
        sys.stdout.flush()

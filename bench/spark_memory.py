"""How much memory a Spark job takes while it runs: the JVM, and the Python workers that it starts.

A thread looks at the resident sets every so often. Pages that workers share, such as the mapped index, count in each.
"""

import threading
from dataclasses import dataclass, field
from time import perf_counter

import psutil

_EVERY_SECONDS = 0.25
_MIB = 1 << 20


@dataclass
class Samples:
    """MiB, as (seconds since the start, JVM, largest Python worker)."""

    taken: list[tuple[float, float, float]] = field(default_factory=list)

    def peak(self, first: float = 0, last: float = 1) -> tuple[float, float]:
        """The greatest JVM and worker between two shares of the time."""
        end = self.taken[-1][0]
        chosen = [each for each in self.taken if first * end <= each[0] <= last * end]
        return max(each[1] for each in chosen), max(each[2] for each in chosen)


class Watch:
    def __init__(self) -> None:
        self.samples = Samples()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Samples:
        self._start = perf_counter()
        self._thread.start()
        return self.samples

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.samples.taken.append((perf_counter() - self._start, *_resident()))
            if self._done.wait(_EVERY_SECONDS):
                return


def _resident() -> tuple[float, float]:
    jvm = worker = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            size = process.memory_info().rss / _MIB
            if process.name().startswith("java"):
                jvm = max(jvm, size)
            else:
                worker = max(worker, size)
        except psutil.Error:
            continue
    return jvm, worker

"""How far a sweep is: counted from the cells' files, so that it works on any kind of cluster.

A thread looks at the folder now and then while Spark works, and tells whoever watches.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic

from holdfast.pipeline.sweep.folder import SweepFolder

_LOOK_S = 0.5  # often enough for a bar that moves; listing 100,000 files takes a tenth of it


@dataclass(frozen=True)
class Progress:
    total: int
    before: int  # finished when we began
    done: int
    failed: int
    seconds: float

    @property
    def rate_per_s(self) -> float:
        now = self.done + self.failed - self.before
        return now / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """An estimate, from the rate so far."""
        left = self.total - self.done - self.failed
        return left / self.rate_per_s if self.rate_per_s else None if left else 0.0

    def __str__(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        left = "" if self.left_s is None else f", about {duration(self.left_s)} left"
        return f"{self.done:,} of {self.total:,} runs done{failed}, {self.rate_per_s:.2g} a second{left}"


Watch = Callable[[Progress], None]


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


@contextmanager
def watched(folder: SweepFolder, total: int, watch: Watch | None) -> Iterator[None]:
    if watch is None:
        yield
        return
    began, before, over = monotonic(), sum(folder.count()), Event()

    def look() -> None:
        done, failed = folder.count()
        watch(Progress(total, before, done, failed, monotonic() - began))

    def keep_looking() -> None:
        while not over.wait(_LOOK_S):
            look()

    thread = Thread(target=keep_looking, name="sweep progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    look()

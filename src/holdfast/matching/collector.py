"""Python's garbage collector beside a million conditions, which are no garbage.

A full collection looks at each of them and stops a broker for a second. A process that is nothing but a broker says so,
and has the collector leave alone what it holds. In a process of somebody else's that would keep what is garbage there
for good: a broker inside an application leaves the collector as it is.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_is_ours = False


def own_process() -> None:
    """There is nothing in this process but a broker."""
    global _is_ours  # noqa: PLW0603  # the collector is the process's, too
    _is_ours = True


def leave_alone() -> None:
    """No collection looks at what there is now, if the process is ours."""
    if _is_ours:
        gc.freeze()


class Young:
    """How many objects more, or fewer, there are than when the collector was told to leave alone what there is.

    Fewer count as well: the collector takes what is freed for less to look at, and while a million go it does not look
    until that takes seconds. Who adds and removes again and again does not get it told each time: what was garbage then
    stays for good.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    def grow_by(self, objects: int) -> None:
        self._count += objects
        if abs(self._count) >= self._most:
            leave_alone()
            self._count = 0


@contextmanager
def paused() -> Iterator[None]:
    """Building an index makes millions of objects and no garbage; looking for it would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

"""Wall-clock microseconds that never step back.

Publications carry the time of day, but a machine's timers must not jump when somebody sets the clock. So the time of
day is read once, and from then on only the monotonic clock counts. A broker that has stored events continues with the
clock of the process that stored them, because their ages count by it: a clock that was set meanwhile would make them
older or younger than they are.
"""

from contextlib import suppress
from pathlib import Path
from time import monotonic_ns, time_ns

from holdfast.protocol.store_changes import Clocked

_SET_US = 1_000_000  # by less a clock is adjusted as it runs, and no event's age is known better
_DOWN_US_MAX = 600_000_000  # that a reboot may count as time that has passed: most take minutes


class Clock:
    def __init__(self, ahead_us: int = 0) -> None:
        """Ahead of the machine's by so much."""
        self._offset_ns = time_ns() - monotonic_ns() + ahead_us * 1_000

    def now_us(self) -> int:
        return (monotonic_ns() + self._offset_ns) // 1_000

    def reading(self) -> Clocked:
        return Clocked(_boot(), self._offset_ns // 1_000, self.now_us())

    def continued(self, before: Clocked | None, last_us: int) -> tuple["Clock", int]:
        """A clock that continues an earlier one, by which it was `last_us` at the latest; and by how much ours was set.

        While the machine runs, its monotonic clock tells how much time has passed. After a boot only the time of day
        does, which may be wrong: so none has passed if that is earlier, and no more than a boot takes if it is later.
        """
        now = self.reading()
        if before is not None and before.boot and before.boot == now.boot:
            set_us = now.offset_us - before.offset_us
        else:
            last_us = max(last_us, before.at_us if before is not None else 0)
            set_us = now.at_us - min(max(now.at_us, last_us), last_us + _DOWN_US_MAX)
        if abs(set_us) < _SET_US:
            return self, 0
        clock = Clock()
        clock._offset_ns = self._offset_ns - set_us * 1_000
        return clock, set_us


def _boot() -> str:
    """What Linux calls this boot of the machine."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""

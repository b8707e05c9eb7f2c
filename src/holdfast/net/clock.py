"""Wall-clock microseconds that never step back.

Publications carry the time of day, but a machine's timers must not jump when somebody sets the clock. So the time of
day is read once, and from then on only the monotonic clock counts.
"""

from time import monotonic_ns, time_ns


class Clock:
    def __init__(self) -> None:
        self._offset_ns = time_ns() - monotonic_ns()

    def now_us(self) -> int:
        return (monotonic_ns() + self._offset_ns) // 1_000

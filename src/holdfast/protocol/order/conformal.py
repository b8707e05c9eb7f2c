"""Wait until the missing message is older than nearly all of its kind ever get: the age-threshold conformal latch.

If travel times are independent, all that matters is how long ago the missing message left, so the best rule is a
threshold on its age: departure + Q. Q is a quantile of the ages that messages had which were noticed missing
and came after all: the very messages that the target speaks of. Which quantile is found by feedback (`steering`).
The offset between the two clocks is in the ages and in the departure, and cancels.

Travel times are not independent when a broker was away and its backlog comes all at once. Then the message that shows
the gap is older than the threshold itself, ages say nothing, and the wait is the one before anything was learned.

A plainer recipe takes the quantile of all travel times, at a level several times smaller, which often lies beyond the
sample. That is what we do until twenty such messages have come. Against a heavy tail it misses a target of 0.5 % by a
tenth and more, where this keeps it; `./run bench fifo` shows both.
"""

from holdfast.protocol.order.sample_window import COLD_SAMPLES, SampleWindow
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.order.steering import Level, Steering


class AgeConformal:
    def __init__(self, settings: LatchSettings, travels: SampleWindow, shared: Steering) -> None:
        self._travels = travels
        self._cold_hold_us = settings.cold_hold_us
        self._ages = SampleWindow(settings.window, settings.window_us)
        self._level = Level(settings.target, settings.steering_gain, shared)
        self._found, self._arrived = 1, 4  # a guess to start with: one in four is noticed missing first
        self._arrived_max = 10 * settings.window

    def on_arrival(self, seq: int, departure_us: int, arrival_us: int) -> None:
        self._arrived += 1
        if self._arrived > self._arrived_max:
            self._arrived //= 2
            self._found = self._found // 2 + 1

    def on_found(self, age_us: int, late_us: int, violated: bool, now_us: int) -> None:
        self._found += 1
        self._ages.add(age_us, now_us)
        self._level.on_found(violated)

    def deadline_us(self, missing_departure_us: int, departure_us: int, now_us: int) -> float:
        age_us = self._age_us()
        if age_us is None or now_us - departure_us > age_us:
            return now_us + self._cold_hold_us  # nothing is known, or something has held up this one as well
        return missing_departure_us + age_us

    def _age_us(self) -> float | None:
        level = self._level.value
        if len(self._ages) >= COLD_SAMPLES:
            return self._ages.exceeded_with(level)
        if len(self._travels) >= COLD_SAMPLES:  # the oldest of all are those that were noticed missing
            return self._travels.exceeded_with(level * self._found / self._arrived)
        return None


class LateConformal:
    """The same without departure times: the threshold is on the time since a message was noticed missing."""

    def __init__(self, settings: LatchSettings, shared: Steering) -> None:
        self._cold_hold_us = settings.cold_hold_us
        self._late = SampleWindow(settings.window, settings.window_us)
        self._level = Level(settings.target, settings.steering_gain, shared)

    def on_arrival(self, seq: int, departure_us: int, arrival_us: int) -> None:
        pass

    def on_found(self, age_us: int, late_us: int, violated: bool, now_us: int) -> None:
        self._late.add(late_us, now_us)
        self._level.on_found(violated)

    def deadline_us(self, missing_departure_us: int, departure_us: int, now_us: int) -> float:
        if len(self._late) < COLD_SAMPLES:
            return now_us + self._cold_hold_us
        return now_us + self._late.exceeded_with(self._level.value)

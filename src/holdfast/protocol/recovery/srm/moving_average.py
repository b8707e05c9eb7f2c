"""A value that follows its samples: SRM's mean, in which a new sample weighs a quarter."""

WEIGHT = 0.25


class MovingAverage:
    __slots__ = ("known", "value")

    def __init__(self, first: float) -> None:
        self.known = False  # a sample has come; the first guess no longer counts
        self.value = first

    def add(self, sample: float) -> None:
        self.value = self.value + WEIGHT * (sample - self.value) if self.known else sample
        self.known = True

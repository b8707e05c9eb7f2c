"""Whose turn it is among things that happen at the same time: that of who asked first.

A run, and compiled code that does a part of it, give out turns from one counter: so it does not matter who does what.
"""


class Turns:
    __slots__ = ("apart", "current", "last")

    def __init__(self) -> None:
        self.last = 0  # that was given out
        self.apart = 0  # the last that compiled code gave out: what has turns before and after it is not one thing
        self.current = 0  # of what is happening; 0 when nothing is

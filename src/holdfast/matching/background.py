"""What a thread that compiles conditions does so that the broker beside it does not stop: both share one lock."""

import sys
from threading import Lock

_SWITCH_S = 0.0002  # a switch takes some microseconds


class _LockShared:
    """While a thread computes, it gives the interpreter's lock up sooner than usual when another asks for it.

    An event loop gives the lock up with every call of the kernel. If it waited 5 ms each time to get it back, as is the
    default, a broker would be slow for the seconds in which the compiled matcher is loaded.
    """

    def __init__(self) -> None:
        self._lock, self._threads, self._usual_s = Lock(), 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(_SWITCH_S, self._usual_s))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                sys.setswitchinterval(self._usual_s)


LOCK_SHARED = _LockShared()

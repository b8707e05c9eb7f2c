"""What a broker counts and logs of those who come to its doors and do not get in."""

from collections.abc import Callable

from holdfast.net.counters import Counters
from holdfast.net.journal import Note


class Arrivals:
    def __init__(self, counters: Counters, log: Callable[[Note], None], connections: Callable[[], int]) -> None:
        self._counters = counters
        self._log = log
        self._connections = connections  # how many are open

    def on_tls_refused(self, far: str, why: str) -> None:
        self._counters.tls_refused += 1
        self._log(Note("tls_refused", far, f"{far} failed the TLS handshake: {why}"))

    def on_half_open_closed(self, far: str) -> None:
        self._counters.note("half_open_closed")
        text = f"{far} was closed: it had not said who it is for longest, and too many have not"
        self._log(Note("half_open_closed", far, text))

    def on_paused(self, why: str) -> None:
        self._counters.note("accept_paused")
        text = f"no connection is accepted for a second: {why}, {self._connections():,} are open"
        self._log(Note("accept_paused", "", text))

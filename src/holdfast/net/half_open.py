"""Connections that have not said who they are: in a TLS handshake, before the greeting, before CONNECT.

They cost a file descriptor and some memory, and anybody can open them. So there is a limit, and where it is reached the
one that is there longest is closed: who means to come in does so within milliseconds.
"""

import resource
from collections.abc import Callable

from holdfast.trust.budget import BudgetSettings

_SHARE = 4  # of the files that the process may open, at most one in so many is for these


class HalfOpen:
    def __init__(
        self, most: int = BudgetSettings.half_open, on_closed: Callable[[str], None] = lambda who: None
    ) -> None:
        """`on_closed` learns who was closed."""
        self._most = max(1, min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE))
        self._on_closed = on_closed
        self._there: dict[object, tuple[str, Callable[[], object]]] = {}  # the longest there first

    def enter(self, key: object, who: str, close: Callable[[], object]) -> None:
        self._there[key] = who, close
        if len(self._there) > self._most:
            oldest, close_oldest = self._there.pop(next(iter(self._there)))
            close_oldest()
            self._on_closed(oldest)

    def leave(self, key: object) -> None:
        """It has said who it is, or is gone."""
        self._there.pop(key, None)

"""Notices brokers that cannot keep up: too many messages wait for them, at two looks in a row."""

from collections.abc import Iterable


class QueueWatch:
    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._long: dict[str, None] = {}  # at the last look

    def look(self, lengths: Iterable[tuple[str, int]]) -> list[str]:
        """Who was above the limit the last time and is again."""
        if self._limit is None:
            return []
        before = self._long
        self._long = {name: None for name, length in lengths if length > self._limit}
        return [name for name in self._long if name in before]

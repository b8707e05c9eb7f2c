"""The publishers a node knows, within a limit: the one heard longest ago is forgotten first."""

from collections.abc import Iterator

from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.source import SrmSource


class Sources:
    def __init__(self, settings: SrmSettings) -> None:
        self._settings = settings
        self._known: dict[str, SrmSource] = {}  # in the order in which they were last heard of

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[SrmSource]:
        return iter(self._known.values())

    def get(self, name: str) -> SrmSource | None:
        return self._known.get(name)

    def heard(self, name: str) -> tuple[SrmSource, SrmSource | None]:
        """A publisher that is heard of, and the one that is forgotten for it, if any."""
        known = self._known.pop(name, None) or SrmSource(name, self._settings)
        self._known[name] = known
        forgotten = None
        if len(self._known) > self._settings.sources_max:
            forgotten = self._known.pop(next(iter(self._known)))
        return known, forgotten

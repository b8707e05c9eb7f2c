"""A set of conditions that one node keeps with its neighbour, and how both copies stay equal over a lossy link.

The teller sends changes as they happen. Each heartbeat of the listener says which version it has and a digest of its
contents; when the digest is wrong, the teller sends the whole table. So a lost, reordered or repeated change heals
within a heartbeat, and while nothing is lost nothing is repeated.
"""

from collections.abc import Iterable
from hashlib import blake2b

from holdfast.model.messages import Table, Tell, Whole

_MODULUS = 2**64
_digests: dict[str, int] = {}
_VERSIONS_MAX = 256  # whose digests are remembered: more changes than fit into the patience of half a heartbeat
_LARGE = 1_024  # conditions that take a while to read: who is seen to read on is not sent them all over again
_DIGESTS_MAX = 200_000  # about 30 MB; recomputing one costs a microsecond


def digest_of(text: str) -> int:
    """A stable number for a text: the same in every process."""
    known = _digests.get(text)
    if known is None:
        if len(_digests) >= _DIGESTS_MAX:
            _digests.clear()
        known = _digests[text] = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return known


class Told:
    """The teller's side."""

    def __init__(self, table: Table, now_us: int) -> None:
        self.table = table
        self.conditions: dict[str, None] = {}  # a dict because its order is the same in every process
        self.version = now_us  # so that a table begun anew is newer than all that came before it on this link
        self._digest = 0
        self._changed_us = 0
        self._digests = {now_us: 0}  # of the last versions
        self._heard_version = 0  # of the listener, when it last spoke
        self.confirmed = 0  # the last version that the listener was seen to hold

    def change(self, add: Iterable[str], drop: Iterable[str], now_us: int) -> Tell | None:
        """Note the change; the message that tells it, if it is one."""
        dropped = tuple([each for each in drop if each in self.conditions])
        for each in dropped:
            del self.conditions[each]
        added = tuple([each for each in add if each not in self.conditions])
        self.conditions.update(dict.fromkeys(added))
        if not added and not dropped:
            return None
        self.version += 1
        self._changed_us = now_us
        change = sum(map(digest_of, added)) - sum(map(digest_of, dropped))
        self._digest = self._digests[self.version] = (self._digest + change) % _MODULUS
        if len(self._digests) > _VERSIONS_MAX:
            del self._digests[next(iter(self._digests))]
        return Tell(self.table, self.version, added, dropped)

    @property
    def digest(self) -> int:
        return self._digest

    def whole(self) -> Whole:
        return Whole(self.table, self.version, tuple(self.conditions))

    def on_heard(self, version: int, digest: int, now_us: int, patience_us: int) -> Whole | None:
        """The listener says what it has: the whole table if that is wrong, or if a change has been on its way too long.

        Whether it is wrong is judged by what its version should hold: a table that changes all the time would
        otherwise seem to have a change on its way whenever we look.
        """
        if self._digests.get(version) == digest:
            self.confirmed = version
        if digest == self._digest:
            return None
        may_be_right = self._digests.get(version, digest) == digest
        if may_be_right and version < self.version:
            reads_on = version > self._heard_version and len(self.conditions) > _LARGE
            self._heard_version = version
            if now_us - self._changed_us < patience_us or reads_on:
                return None
        self.version = max(self.version, version)  # a listener that is ahead of us would take our table for an old one
        return self.whole()


class Heard:
    """The listener's side."""

    def __init__(self) -> None:
        self.conditions: dict[str, None] = {}
        self.version = 0
        self._digest = 0

    @property
    def summary(self) -> tuple[int, int]:
        return self.version, self._digest

    def on_tell(self, tell: Tell) -> tuple[list[str], list[str]]:
        """Apply a change; what was really added and dropped. One older than what we have is ignored."""
        if tell.version <= self.version:
            return [], []
        self.version = tell.version
        return self._apply(tell.add, tell.drop)

    def on_whole(self, whole: Whole) -> tuple[list[str], list[str]]:
        if whole.version < self.version:
            return [], []
        self.version = whole.version
        kept = dict.fromkeys(whole.conditions)
        return self._apply(whole.conditions, [each for each in self.conditions if each not in kept])

    def forget(self) -> list[str]:
        """The neighbour is gone or began anew: drop everything."""
        dropped = list(self.conditions)
        self.conditions.clear()
        self.version = self._digest = 0
        return dropped

    def _apply(self, add: Iterable[str], drop: Iterable[str]) -> tuple[list[str], list[str]]:
        dropped = [each for each in drop if each in self.conditions]
        for each in dropped:
            del self.conditions[each]
        added = [each for each in add if each not in self.conditions]
        self.conditions.update(dict.fromkeys(added))
        self._digest = (self._digest + sum(map(digest_of, added)) - sum(map(digest_of, dropped))) % _MODULUS
        return added, dropped

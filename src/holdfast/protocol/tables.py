"""A set of conditions that one node keeps with its neighbour, and how both copies stay equal over a lossy link.

The teller sends changes as they happen. Each heartbeat of the listener says which version it has and a digest of its
contents; when the digest is wrong, the teller sends the whole table. So a lost, reordered or repeated change heals
within a heartbeat, and while nothing is lost nothing is repeated.

No message is larger than a datagram holds, unless a single condition is. A change that takes several messages has
additions before removals, so that a wide condition is there before those that it replaces are gone. The parts of a
whole table are told apart by the digests of conditions: each replaces what the listener has of that part and nothing
else, so a lost one costs nothing but itself and comes again at a later heartbeat. The maps at both ends lie in parts by
the same digests, so that nobody looks through a million conditions for those of one part.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import repeat

from holdfast.model.large_map import LargeMap
from holdfast.model.limits import CONDITIONS_BYTES_AIM, CONDITIONS_MAX, PARTS_MAX
from holdfast.model.messages import Delta, Snapshot, Table
from holdfast.protocol.conditions import Cost

_MODULUS = 2**64
_FREE = Cost()
_digests: dict[str, int] = {}
_VERSIONS_MAX = 256  # whose digests are remembered: more changes than fit into the patience of half a heartbeat
_HEAD_BYTES = 5  # of a text in a message
_UNEVEN = 1.25  # chance does not deal a thousand conditions into each part; so many times as many parts mostly do
_LARGE = 1_024  # conditions that take a while to read: who is seen to read on is not sent them all over again
_PARTS_AT_ONCE = 16  # of a whole table: some 50,000 short conditions, a few milliseconds; the others a patience later
_DIGESTS_MAX = 32_768  # to forget more at once would take long; recomputing one costs a microsecond


def digest_of(text: str) -> int:
    """A stable number for a text: the same in every process."""
    known = _digests.get(text)
    if known is None:
        if len(_digests) >= _DIGESTS_MAX:
            _digests.clear()
        known = _digests[text] = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return known


def bytes_of(condition: str) -> int:
    """What it takes in a message, at most."""
    return (len(condition) if condition.isascii() else len(condition.encode())) + _HEAD_BYTES


def _cut(conditions: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    """In pieces that fit into messages."""
    start = size = 0
    for at, each in enumerate(conditions):
        more = bytes_of(each)
        if at > start and (size + more > CONDITIONS_BYTES_AIM or at - start >= most):
            yield tuple(conditions[start:at])
            start, size = at, 0
        size += more
    if conditions:
        yield tuple(conditions[start:])


class SentTable:
    """The teller's side."""

    __slots__ = (
        *("_bytes", "_changed_us", "_digest", "_digests", "_heard", "_left", "_looked_us", "_parted"),
        *("conditions", "confirmed", "refused", "table", "version"),
    )

    def __init__(self, table: Table, now_us: int) -> None:
        self.table = table
        self.conditions: LargeMap[str, None] = LargeMap(digest_of)  # no set: its order is the same in every process
        self._bytes = 0  # of all of them in messages
        self.version = now_us  # so that a table begun anew is newer than all that came before it on this link
        self._digest = 0
        self._changed_us = 0
        self._digests = {now_us: 0}  # of the last versions
        self.confirmed = 0  # the last version that the listener was seen to hold
        self._heard = (0, 0)  # version and digest of the listener, when we last looked whether they are right
        self._looked_us: int | None = None
        self._parted = range(0)  # the versions at which it was sent whole in several parts
        self._left: deque[tuple[int, int]] = deque()  # parts of it that are still to be sent, and of how many
        self.refused = False  # the listener has no room for all of it, and is not sent what it has refused

    def change(self, add: Iterable[str], drop: Iterable[str], now_us: int, most: int = CONDITIONS_MAX) -> list[Delta]:
        """Note the change; the messages that tell it, each of so many conditions at most."""
        wanted = dict.fromkeys(add)
        dropped = [each for each in dict.fromkeys(drop) if each in self.conditions and each not in wanted]
        added = [each for each in wanted if each not in self.conditions]
        if not added and not dropped:
            return []
        for each in dropped:
            del self.conditions[each]
        for each in added:
            self.conditions[each] = None
        if dropped:
            self.refused = False
        if len(added) + len(dropped) <= most and sum(map(bytes_of, (*added, *dropped))) <= CONDITIONS_BYTES_AIM:
            return [self._delta(tuple(added), tuple(dropped), now_us)]
        deltas = [self._delta(each, (), now_us) for each in _cut(added, most)]
        return deltas + [self._delta((), each, now_us) for each in _cut(dropped, most)]

    def _delta(self, added: tuple[str, ...], dropped: tuple[str, ...], now_us: int) -> Delta:
        self.version += 1
        self._changed_us = now_us
        change = sum(map(digest_of, added)) - sum(map(digest_of, dropped))
        self._bytes += sum(map(bytes_of, added)) - sum(map(bytes_of, dropped))
        self._digest = self._digests[self.version] = (self._digest + change) % _MODULUS
        if len(self._digests) > _VERSIONS_MAX:
            del self._digests[next(iter(self._digests))]
        return Delta(self.table, self.version, added, dropped)

    @property
    def digest(self) -> int:
        return self._digest

    def snapshots(self, most: int = CONDITIONS_MAX) -> list[Snapshot]:
        """All of it, in parts of so many conditions at most."""
        self._begin_whole(most)
        return self._next_parts(PARTS_MAX, most)

    def _begin_whole(self, most: int = CONDITIONS_MAX) -> None:
        full = max(self._bytes / CONDITIONS_BYTES_AIM, len(self.conditions) / most)  # messages of them
        parts = 1 if full <= 1 else min(PARTS_MAX, 1 << int(full * _UNEVEN).bit_length())
        self._left = deque((at, parts) for at in range(parts))
        self._parted = range(self.version, self.version + (parts > 1))

    def _next_parts(self, count: int, most: int = CONDITIONS_MAX) -> list[Snapshot]:
        """So many of those that are left, as they are by now. One that is too large for a message goes as two."""
        sent: list[Snapshot] = []
        while self._left and len(sent) < count:
            at, parts = self._left.popleft()
            conditions = tuple(self.conditions.keys_of(at, parts))
            if len(conditions) > 1 and parts < PARTS_MAX and not _fits(conditions, most):
                self._left.extendleft(((at + parts, 2 * parts), (at, 2 * parts)))
                self._parted = range(self._parted.start, self.version + 1)
            else:
                sent.append(Snapshot(self.table, self.version, conditions, at, parts))
        if self._parted:
            self._parted = range(self._parted.start, self.version + 1)
        return sent

    def on_heard(self, version: int, digest: int, now_us: int, patience_us: int) -> list[Snapshot]:
        """The listener says what it has: the whole table if that is wrong, or if a change has been on its way too long.

        Whether it is wrong is judged by what its version should hold: a table that changes all the time would
        otherwise seem to have a change on its way whenever we look. Who is seen to read the parts of a whole table has
        something else each time, and is left to it. Of a whole table so many parts are sent in one go: nothing else is
        heard meanwhile.
        """
        is_right = self._digests.get(version) == digest
        if is_right:
            self.confirmed = version
            self._left.clear()
        elif not self.conditions and digest == self._digest:  # there was nothing to send
            self.confirmed = self.version
        if digest == self._digest or self.refused:
            self._left.clear()
            return []
        recently = self._looked_us is not None and now_us - self._looked_us < patience_us
        if recently and len(self.conditions) > _LARGE:
            return []  # it speaks after every change: what it has since then says nothing about whether it reads on
        self._looked_us = now_us
        before, self._heard = self._heard, (version, digest)
        if self._left:
            return self._next_parts(_PARTS_AT_ONCE)
        if version in self._parted and self._heard != before:
            return []
        may_be_right = self._digests.get(version, digest) == digest
        if may_be_right and version < self.version:
            reads_on = version > before[0] and len(self.conditions) > _LARGE
            if now_us - self._changed_us < patience_us or reads_on:
                return []
        self.version = max(self.version, version)  # a listener that is ahead of us would take our table for an old one
        self._begin_whole()
        return self._next_parts(_PARTS_AT_ONCE)


def _fits(conditions: Sequence[str], most: int) -> bool:
    return len(conditions) <= most and sum(map(bytes_of, conditions)) <= CONDITIONS_BYTES_AIM


class ReceivedTable:
    """The listener's side."""

    __slots__ = ("_digest", "conditions", "cost", "summary", "version")

    def __init__(self) -> None:
        self.conditions: LargeMap[str, Cost] = LargeMap(digest_of)
        self.cost = Cost()  # of all of them
        self.version = 0
        self._digest = 0
        self.summary = (0, 0)  # version and digest, for every heartbeat

    def change_by(self, message: Delta | Snapshot) -> tuple[list[str], list[str]]:
        """What it adds and drops. One older than what we have changes nothing."""
        if isinstance(message, Delta):
            if message.version <= self.version:
                return [], []
            given, before = dict.fromkeys(message.add), dict.fromkeys(message.drop)
        else:
            if message.version < self.version or message.part >= message.parts or message.parts.bit_count() != 1:
                return [], []
            there = self.conditions.keys_of(message.part, message.parts)
            given, before = dict.fromkeys(message.conditions), dict.fromkeys(there)
        dropped = [each for each in before if each in self.conditions and each not in given]
        return [each for each in given if each not in self.conditions], dropped

    def apply(
        self, message: Delta | Snapshot, added: list[str], dropped: list[str], costs: Iterable[Cost] | None = None
    ) -> None:
        """Take over what `change_by` has found, with what each of the added ones costs."""
        gone = [self.conditions.pop(each) for each in dropped]
        filters, tests, size = self.cost
        for condition, cost in zip(added, repeat(_FREE) if costs is None else costs, strict=costs is not None):
            self.conditions[condition] = cost
            filters, tests, size = filters + cost.filters, tests + cost.tests, size + cost.bytes
        for cost in gone:
            filters, tests, size = filters - cost.filters, tests - cost.tests, size - cost.bytes
        self.cost = Cost(filters, tests, size)
        self._digest = (self._digest + sum(map(digest_of, added)) - sum(map(digest_of, dropped))) % _MODULUS
        self.version = max(self.version, message.version)
        self.summary = self.version, self._digest

    def forget(self) -> LargeMap[str, Cost]:
        """The neighbour is gone or began anew: drop everything, which is handed out as it is: it may be a million."""
        dropped, self.conditions = self.conditions, LargeMap(digest_of)
        self.cost = Cost()
        self.version = self._digest = 0
        self.summary = (0, 0)
        return dropped

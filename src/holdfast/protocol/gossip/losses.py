"""What this broker has lost, from the numbers on what it has got.

For each origin and class that our clients want there is a number to come next; a higher one says that those before it
are lost. Nothing counts as lost that is not owed: where an origin began to number a class after we wanted it, all from
1 on is ours; where the numbering is older than our wish, the first number that we see is where we begin.
"""

from collections import deque
from typing import TypeVar

from holdfast.model.messages import MissingEvents, Stamp
from holdfast.protocol.gossip.settings import UNSURE

K = TypeVar("K", int, str)
Stream = tuple[str, int, int]  # origin, its epoch, class


class _Counting:
    __slots__ = ("began", "next", "unsure")

    def __init__(self, began: tuple[int, int], first: int, unsure: int) -> None:
        self.began = began  # the epoch of the origin, and when it began to number, in milliseconds after that
        self.next = first
        self.unsure = unsure  # how often to ask yet whether there was something before the first one


def _forget(index: dict[K, dict[Stream, None]], key: K, stream: Stream) -> None:
    del index[key][stream]
    if not index[key]:
        del index[key]


class LossTracker:
    def __init__(self, lost_max: int, lost_us: int, streams_max: int) -> None:
        self._lost_max = lost_max
        self._lost_us = lost_us
        self._streams_max = streams_max
        self._wanted: dict[int, int] = {}  # the classes of our clients, and since when
        self._countings: dict[tuple[str, int], _Counting] = {}  # by origin and class
        self._lost: dict[Stream, dict[int, int]] = {}  # numbers, and when each was noticed
        self._by_tag: dict[int, dict[Stream, None]] = {}
        self._by_origin: dict[str, dict[Stream, None]] = {}
        self._ages: deque[tuple[int, Stream, int]] = deque()
        self.count = 0
        self.noticed = 0  # in all
        self.given_up = 0
        self._unreported: dict[str, int] = {}  # those of them that nobody was told of yet, by origin
        self.begun_unsure = 0  # streams of which we may have missed a beginning that is ours

    def __len__(self) -> int:
        return self.count

    def want(self, tag: int, now_us: int) -> None:
        self._wanted.setdefault(tag, now_us)

    def unwant(self, tag: int) -> None:
        """Nobody here wants this class any more, so nothing of it is lost to us."""
        if self._wanted.pop(tag, None) is None:
            return
        for key in [each for each in self._countings if each[1] == tag]:
            del self._countings[key]
        for stream in list(self._by_tag.get(tag, ())):
            for number in list(self._lost[stream]):
                self._strike_off(stream, number)

    @property
    def wanted(self) -> dict[int, int]:
        return self._wanted

    def on_stamp(self, stamp: Stamp, now_us: int) -> None:
        """An event has come."""
        wanted = self._wanted
        for tag, number, began_ms in stamp.places:
            if tag in wanted:
                counting = self._countings.get((stamp.origin, tag))
                if counting is not None and counting.next == number and counting.began == (stamp.epoch, began_ms):
                    counting.next += 1  # nearly always
                else:
                    self._on_other(stamp, tag, number, (stamp.epoch, began_ms), now_us)

    def _on_other(self, stamp: Stamp, tag: int, number: int, began: tuple[int, int], now_us: int) -> None:
        counting = self._countings.get((stamp.origin, tag))
        stream = stamp.origin, stamp.epoch, tag
        if counting is None or counting.began < began:
            all_ours = began[0] + 1_000 * began[1] >= self._wanted[tag]
            if len(self._countings) >= self._streams_max:
                del self._countings[next(iter(self._countings))]
            unsure = 0 if all_ours or number == 1 else UNSURE
            counting = self._countings[stamp.origin, tag] = _Counting(began, 1 if all_ours else number, unsure)
            self.begun_unsure += unsure > 0
        elif counting.began > began:
            self._strike_off(stream, number)  # of an earlier life of its origin
            return
        if number < counting.next:
            self._strike_off(stream, number)
            return
        first = max(counting.next, number - self._lost_max)
        if first > counting.next:
            self._give_up(stamp.origin, first - counting.next)
        for lost in range(first, number):
            self._note(stream, lost, now_us)
        counting.next = number + 1

    def _note(self, stream: Stream, number: int, now_us: int) -> None:
        if number in self._lost.get(stream, ()):
            return  # we had forgotten how far we were
        if self.count >= self._lost_max:
            self._give_up_oldest()
        lost = self._lost.get(stream)
        if lost is None:
            lost = self._lost[stream] = {}
            self._by_tag.setdefault(stream[2], {})[stream] = None
            self._by_origin.setdefault(stream[0], {})[stream] = None
        lost[number] = now_us
        if len(self._ages) >= 2 * self._lost_max:  # most have come since
            self._ages = deque(each for each in self._ages if each[2] in self._lost.get(each[1], ()))
        self._ages.append((now_us, stream, number))
        self.count += 1
        self.noticed += 1

    def _strike_off(self, stream: Stream, number: int) -> bool:
        lost = self._lost.get(stream)
        if lost is None or lost.pop(number, None) is None:
            return False
        self.count -= 1
        if not lost:
            origin, _, tag = stream
            del self._lost[stream]
            _forget(self._by_tag, tag, stream)
            _forget(self._by_origin, origin, stream)
        return True

    def _give_up_oldest(self) -> None:
        while self._ages:
            _, stream, number = self._ages.popleft()
            if self._strike_off(stream, number):
                self._give_up(stream[0], 1)
                return

    def _give_up(self, origin: str, count: int) -> None:
        self.given_up += count
        self._unreported[origin] = self._unreported.get(origin, 0) + count

    def take_given_up(self) -> dict[str, int]:
        """How many were given up since the last time, by origin."""
        taken, self._unreported = self._unreported, {}
        return taken

    def give_up_old(self, now_us: int) -> None:
        while self._ages and self._ages[0][0] <= now_us - self._lost_us:
            _, stream, number = self._ages.popleft()
            if self._strike_off(stream, number):
                self._give_up(stream[0], 1)

    # What to ask for -------------------------------------------------------------------------------

    @property
    def tags(self) -> list[int]:
        """Classes of which something is lost."""
        return list(self._by_tag)

    @property
    def origins(self) -> list[str]:
        return list(self._by_origin)

    def of_class(self, tag: int, count_max: int) -> MissingEvents:
        return self._listed(self._by_tag.get(tag, {}), count_max)

    def of_origin(self, origin: str, count_max: int) -> MissingEvents:
        return self._listed(self._by_origin.get(origin, {}), count_max)

    def _listed(self, streams: dict[Stream, None], count_max: int) -> MissingEvents:
        listed = []
        for stream in streams:
            numbers = tuple(self._lost[stream])[-count_max:]
            listed.append((*stream, numbers))
            count_max -= len(numbers)
            if count_max <= 0:
                break
        return tuple(listed)

    def reached(self, origin: str, tag: int) -> tuple[int, int]:
        """The life of an origin that we follow in a class, and the number to come next; 0 when we cannot tell."""
        counting = self._countings.get((origin, tag))
        if counting is None:
            return 0, 0
        if counting.unsure:
            counting.unsure -= 1
            return counting.began[0], 0
        return counting.began[0], counting.next

    def missing(self, origin: str, epoch: int, tag: int, count_max: int) -> tuple[int, ...]:
        return tuple(self._lost.get((origin, epoch, tag), ()))[-count_max:]

"""The neighbours of one's neighbours: all that is known in advance of a failure.

Each broker tells its neighbours who its neighbours are, with every heartbeat, or a directory outside does
(`net/directory.py`). When one of them fails, those around it agree without a word on who asks for a replica: the first
by name, and the next when nothing comes of it.
"""

from holdfast.model.replication_messages import Neighbours
from holdfast.protocol.effects import Effect, Multicast, Register


class Directory:
    def __init__(self, name: str, outside: bool) -> None:
        self._name = name
        self._outside = outside
        self._announced: tuple[str, ...] = ()
        self._beside: dict[str, tuple[str, ...]] = {}

    def on_neighbours(self, broker: str, names: tuple[str, ...]) -> None:
        self._beside[broker] = names

    def announce(self, names: list[str]) -> list[Effect]:
        """Say who ours are: to them at every heartbeat, because it may get lost, or outside when they change."""
        neighbours = tuple(names)
        if not neighbours:
            return []
        if not self._outside:
            return [Multicast(neighbours, Neighbours(neighbours))]
        if neighbours == self._announced:
            return []
        self._announced = neighbours
        return [Register(self._name, neighbours)]

    def on_replaced(self, broker: str, replica: str) -> list[Effect]:
        """The replica has the same neighbours; it may die before it has said so itself."""
        names = self._beside.pop(broker, ())
        self._beside.setdefault(replica, names)
        return [Register(broker, ())] if self._outside else []

    def neighbours_of(self, broker: str) -> tuple[str, ...]:
        """The brokers next to this one, sorted: we are one of them."""
        return tuple(sorted({self._name, *self._beside.get(broker, ())} - {broker}))

    def rank(self, broker: str) -> int:
        """How many of them ask before we do."""
        return self.neighbours_of(broker).index(self._name)


class Successors:
    """Brokers that were replaced, and by whom; those of long ago are forgotten."""

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._of: dict[str, tuple[str, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def __getitem__(self, name: str) -> str:
        return self._of[name][0]

    def latest(self, name: str) -> tuple[str, int]:
        """Who stands for this broker now, itself if nobody does, and when that one began, if we know."""
        epoch, passed = 0, {""}
        while name in self._of and name not in passed:
            passed.add(name)
            name, epoch = self._of[name]
        return name, epoch

    def add(self, name: str, successor: str, epoch: int = 0) -> None:
        if len(self._of) >= self._names_max:
            del self._of[next(iter(self._of))]
        self._of[name] = successor, epoch

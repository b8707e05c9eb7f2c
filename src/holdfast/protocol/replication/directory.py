"""The neighbours of one's neighbours: all that is known in advance of a failure.

Each broker tells its neighbours who its neighbours are, with every heartbeat, or a directory outside does
(`net/directory.py`). When one of them fails, those around it agree without a word on who asks for a replica: the first
by name, and the next when nothing comes of it.
"""


class Directory:
    def __init__(self, name: str) -> None:
        self._name = name
        self._beside: dict[str, tuple[str, ...]] = {}

    def on_neighbours(self, broker: str, names: tuple[str, ...]) -> None:
        self._beside[broker] = names

    def on_replaced(self, broker: str, replica: str) -> None:
        """The replica has the same neighbours; it may die before it has said so itself."""
        names = self._beside.pop(broker, ())
        self._beside.setdefault(replica, names)

    def around(self, broker: str) -> tuple[str, ...]:
        """The brokers next to this one, sorted: we are one of them."""
        return tuple(sorted({self._name, *self._beside.get(broker, ())} - {broker}))

    def rank(self, broker: str) -> int:
        """How many of them ask before we do."""
        return self.around(broker).index(self._name)

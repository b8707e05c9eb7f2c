"""Whom to ask next, for the style that compares sets instead of sending lists around.

Events are numbered by origin and class, so "all that I should have of yours" is a few numbers: how far I have got in
each class I want, and the gaps. Such a vector goes to the origin alone, which hands out exactly the difference, also
what nobody has noticed to be missing: the last events before a silence, and those from while we were down. Origins of
which something is missing come first, each again after a while that doubles; the others when they have fallen silent:
until they say that this was all, and then a few times more, ever more rarely.
"""

from heapq import heappop, heappush

from holdfast.protocol.gossip.settings import UNSURE, ReconcilingSettings

_NEVER_US = -1


class _Origin:
    __slots__ = ("due_us", "heard_us", "missing", "route", "silences", "tries", "unsure", "wait_us")

    def __init__(self, wait_us: int) -> None:
        self.route: tuple[str, ...] = ()  # brokers from there to here, as the last event came
        self.due_us = _NEVER_US
        self.heard_us = 0
        self.wait_us = wait_us  # how long it may be silent until it gets another vector
        self.missing = False
        self.unsure = 0  # vectors to send whatever we know: there may have been something before we heard of it
        self.tries = 0  # vectors in vain, for what is missing
        self.silences = 0  # vectors that may be unanswered, since it has fallen silent


class Partners:
    def __init__(self, settings: ReconcilingSettings, origins_max: int) -> None:
        self._settings = settings
        self._origins_max = origins_max
        self._origins: dict[str, _Origin] = {}
        self._due: list[tuple[int, str]] = []  # a heap; an entry counts if it is its origin's `due_us`
        self._open: dict[str, None] = {}  # origins that have not said yet that we have all of theirs

    def __len__(self) -> int:
        return len(self._origins)

    @property
    def wait_for_answers(self) -> bool:
        return bool(self._open)

    def route(self, origin: str) -> tuple[str, ...]:
        known = self._origins.get(origin)
        return () if known is None else known.route

    def next_due_us(self) -> int | None:
        while self._due:
            due_us, name = self._due[0]
            known = self._origins.get(name)
            if known is not None and known.due_us == due_us:
                return due_us
            heappop(self._due)
        return None

    def heard(self, origin: str, route: tuple[str, ...], missing: bool, now_us: int) -> None:
        """An event of this origin has passed; whether others of it are known to be missing."""
        known = self._origins.get(origin)
        if known is None:
            if len(self._origins) >= self._origins_max:
                oldest = next(iter(self._origins))
                del self._origins[oldest]
                self._open.pop(oldest, None)
            known = self._origins[origin] = _Origin(self._settings.sync_us)
        known.route = route or known.route
        known.heard_us = now_us
        known.wait_us = self._settings.sync_us
        known.silences = 0
        self._open[origin] = None
        if missing and not known.missing:
            known.missing, known.tries = True, 0
            self._arm(origin, known, now_us)
        elif known.due_us == _NEVER_US:
            self._arm(origin, known, now_us + known.wait_us)

    def ask_what_was_before(self, origin: str, now_us: int) -> None:
        known = self._origins[origin]
        known.unsure = UNSURE
        self._arm(origin, known, now_us)

    def brought(self, origin: str, now_us: int) -> None:
        """An event has come from there on our request: what else is missing is worth asking for soon."""
        known = self._origins.get(origin)
        if known is not None and known.missing and known.tries > 1:
            known.tries = 1
            self._arm(origin, known, min(known.due_us, now_us + self._settings.retry_us))

    def complete(self, origin: str, now_us: int) -> None:
        """We have all of its events, it says; it may have more to say before it is heard of again."""
        known = self._origins.get(origin)
        if known is None or not known.silences:
            return  # there was an event since we asked
        self._open.pop(origin, None)
        known.silences = 0
        known.wait_us *= 4
        self._arm(origin, known, now_us + known.wait_us if known.wait_us <= self._settings.sync_us_max else _NEVER_US)

    def take(self, now_us: int, missing: dict[str, None]) -> list[tuple[str, int]]:
        """Origins to send a vector to now, and how many before it were in vain."""
        chosen: list[tuple[str, int]] = []
        while len(chosen) < self._settings.origins_at_once:
            due_us = self.next_due_us()
            if due_us is None or due_us > now_us:
                break
            _, name = heappop(self._due)
            known = self._origins[name]
            known.missing = name in missing
            if known.missing:
                chosen.append((name, known.tries))
                self._arm(name, known, now_us + self._retry_us(known.tries))
                known.tries += 1
            elif known.unsure:
                known.unsure -= 1
                chosen.append((name, 0))
                self._arm(name, known, now_us + self._settings.retry_us)
            elif now_us - known.heard_us < self._settings.sync_us:
                self._arm(name, known, known.heard_us + self._settings.sync_us)
            else:
                chosen.append((name, 0))
                self._await_answer(name, known, now_us)
        return chosen

    def _await_answer(self, name: str, known: _Origin, now_us: int) -> None:
        if known.silences < self._settings.sync_tries:
            self._arm(name, known, now_us + self._retry_us(known.silences))
            known.silences += 1
        else:
            self._open.pop(name, None)
            self._arm(name, known, _NEVER_US)

    def _retry_us(self, tries: int) -> int:
        return min(self._settings.retry_us << min(tries, 16), self._settings.retry_us_max)

    def _arm(self, name: str, known: _Origin, due_us: int) -> None:
        known.due_us = due_us
        if due_us != _NEVER_US:
            heappush(self._due, (due_us, name))

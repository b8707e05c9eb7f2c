"""Tables as neighbours send them, taken in slices: no message may keep a broker from everything else for long.

What a condition costs is not its length: 200 characters may be 256 filters, which take milliseconds to parse and to
index. So a change is parsed as far as a slice of work goes, that part is handed out, and the rest waits for the next
wake. Until all of a change is in, the table's summary stays what it was. A change that turns out bad, or larger than
the neighbour's budget, is taken back whole.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.language.problems import ConditionError
from holdfast.model.extras import how_to_install
from holdfast.model.messages import Delta, Snapshot, Table, TableRefused
from holdfast.protocol.conditions import ConditionBook, Cost
from holdfast.protocol.effects import Effect, Incident, Send
from holdfast.protocol.parts import ConditionShares
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import ReceivedTable

SLICE_WORK = 1_024  # tests to parse and index before others are heard: about 10 ms
ALL_AT_ONCE = 2**62  # for brokers that store a change, or pass it on, before they answer
_CONDITION_WORK = 8  # of each condition beside its tests
_FREED_AT_ONCE = 64  # changes that waited; more are freed one by one: all that may wait are a pause of 0.1 s
_CHANGES_MAX = 4_096  # of one neighbour that wait; more are dropped, and sent again after a heartbeat: at 48 KiB 200 MB


@dataclass(slots=True)
class _Change:
    """A change on its way in."""

    message: Delta | Snapshot
    added: list[str] | None = None  # None: not begun
    dropped: list[str] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)  # of those of `added` that are parsed
    filters: int = 0  # of the table, once it has these and not what is dropped
    bytes: int = 0
    untested: bool = False  # some need a package that is missing here


class Step(NamedTuple):
    """A part of a change that is ready; after a problem, what is to be taken back of it."""

    message: Delta | Snapshot
    added: Sequence[str]
    dropped: Sequence[str]
    is_last: bool = False  # and the table has it
    problem: str = ""  # an incident's kind
    reason: str = ""

    def told(self, neighbour: str) -> list[Effect]:
        """What is said of a problem."""
        if not self.problem:
            return []
        refused = [] if self.is_last else [Send(neighbour, TableRefused(self.message.table, self.reason))]
        return [Incident(self.problem, neighbour, reason=self.reason if self.is_last else ""), *refused]


class Intake:
    def __init__(
        self,
        name: str,
        book: ConditionBook,
        settings: ProtocolSettings,
        why_refused: Callable[[list[str]], str],
        slice_work: int = SLICE_WORK,
        shares: ConditionShares | None = None,
    ) -> None:
        self._name = name
        self._book = book
        self._settings = settings
        self._why_refused = why_refused
        self._slice_work = slice_work
        self._shares = shares
        self._left, self._at_us = slice_work, 0  # of the slice that began at this time
        self.waiting: dict[str, deque[_Change]] = {}  # by neighbour; a driver asks for it after every message
        self.forgotten: deque[_Change] = deque()  # to be freed, one at the beginning of a slice

    def begin_slice(self, now_us: int) -> None:
        """Others were heard since the last slice, even if no time has passed: in a simulation, none may."""
        self._left, self._at_us = self._slice_work, now_us
        if self.forgotten:
            self.forgotten.popleft()

    def put(self, neighbour: str, message: Delta | Snapshot) -> None:
        changes = self.waiting.setdefault(neighbour, deque())
        if isinstance(message, Snapshot):  # one that has not been begun says what this says
            same = message.table, message.part, message.parts
            for each in changes:
                old = each.message
                if each.added is None and isinstance(old, Snapshot) and (old.table, old.part, old.parts) == same:
                    each.message = message
                    return
        if len(changes) < _CHANGES_MAX:
            changes.append(_Change(message))

    def forget(self, neighbour: str) -> dict[Table, list[str]]:
        """Drop what waits of a neighbour; what was handed out of it by table, and is in no table yet."""
        if self._shares is not None:
            self._shares.forget(neighbour)
        changes = self.waiting.pop(neighbour, None) or deque()
        if len(changes) > _FREED_AT_ONCE:
            self.forgotten.extend(changes)
        if not changes or changes[0].added is None:
            return {}
        first = changes[0]
        assert first.added is not None
        return {first.message.table: first.added[: len(first.costs)]}

    def steps(self, neighbour: str, heard: Mapping[Table, ReceivedTable], now_us: int) -> Iterator[Step]:
        """What can be taken in before the slice ends; the tables are told when a change is whole."""
        if now_us != self._at_us:
            self.begin_slice(now_us)
        changes = self.waiting.get(neighbour)
        while changes and self._left > 0:
            step = self._step(neighbour, changes[0], heard[changes[0].message.table])
            if step.is_last or step.problem:
                changes.popleft()
            else:  # behind the others, so that each has its turn
                self.waiting[neighbour] = self.waiting.pop(neighbour)
            yield step
        if not changes:
            self.waiting.pop(neighbour, None)

    def _step(self, neighbour: str, change: _Change, heard: ReceivedTable) -> Step:
        message = change.message
        if change.added is None:
            change.added, change.dropped = heard.change_by(message)
            if change.added and message.table == "subscriptions":
                refused = self._why_refused(change.added)
                if refused:
                    return Step(message, (), (), False, "too_many_conditions", refused)
            self._begin(change, heard)
        begun = len(change.costs)
        for condition in change.added[begun:]:
            if self._left <= 0:
                return Step(message, change.added[begun : len(change.costs)], ())
            try:
                cost = self._book.cost(condition)
            except ConditionError:
                reason = f"{self._name} cannot parse one of the {message.table}; does it run another version?"
                return Step(message, (), change.added[:begun], False, "bad_condition", reason)
            change.filters, change.bytes = change.filters + cost.filters, change.bytes + cost.bytes
            over = self._over_budget(neighbour, change, heard)
            if over:
                return Step(message, (), change.added[:begun], False, "too_many_conditions", over)
            change.untested |= self._book.untested(condition)
            change.costs.append(cost)
            self._left -= cost.tests + _CONDITION_WORK
        heard.apply(message, change.added, change.dropped, change.costs)
        if self._shares is not None and message.table == "subscriptions":
            self._shares.note(neighbour, heard.cost.filters, len(heard.conditions))
        step = Step(message, change.added[begun:], change.dropped, True)
        if change.untested:
            return step._replace(problem="untested_condition", reason=f"add re2: {how_to_install('regex')}")
        return step

    def _begin(self, change: _Change, heard: ReceivedTable) -> None:
        change.filters, _, change.bytes = heard.cost
        for each in change.dropped:
            change.filters -= heard.conditions[each].filters
            change.bytes -= heard.conditions[each].bytes

    def _over_budget(self, neighbour: str, change: _Change, heard: ReceivedTable) -> str:
        """What is said when a table is larger than it may be."""
        budgets, shared = self._settings, ""
        if self._shares is not None and change.message.table == "subscriptions" and change.added is not None:
            count = len(heard.conditions) - len(change.dropped) + len(change.added)
            shared = self._shares.why_over(neighbour, change.filters, count)
        if shared:
            most = shared
        elif change.filters > budgets.filters_max:
            most = f"{budgets.filters_max:,} filters of a neighbour's {change.message.table} (filters_max)"
        elif change.bytes > budgets.condition_bytes_max:
            most = (
                f"{budgets.condition_bytes_max:,} bytes of a neighbour's {change.message.table} (condition_bytes_max)"
            )
        else:
            return ""
        return f"{self._name} accepts at most {most}"

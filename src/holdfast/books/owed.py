"""Who is owed an event: every client with a matching subscription that was live when it was published.

The ledger asks while a run goes on, the promises ask about its trace; both find the answer here and nowhere else. The
audit on Spark works it out by itself (`pipeline/audit/owed.py`), so that one of the two finds the other's mistakes.
"""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.books.runs import Run
from holdfast.matching.shared_index import IndexView, SharedIndex
from holdfast.model.event import Attributes
from holdfast.protocol.conditions import ConditionBook

EVENT = ["subscriber", "source", "seq"]
_FOREVER_US = 2**62  # a subscription that has not ended


class LiveSubscriptions:
    """While a run goes on: what is live now is what the next event is owed to."""

    def __init__(self, book: ConditionBook, index: SharedIndex) -> None:
        self.version = 0  # goes up with every subscription that comes or goes
        self._book = book
        self._view: IndexView[tuple[str, str]] = IndexView(index)
        self._conditions: dict[tuple[str, str], str] = {}

    def subscribed(self, client: str, id_: str, condition: str) -> None:
        self.version += 1
        self._conditions[client, id_] = condition
        self._view.add((client, id_), self._book.subscription(condition).filters)

    def unsubscribed(self, client: str, id_: str) -> str:
        self.version += 1
        condition = self._conditions.pop((client, id_))
        self._view.remove((client, id_), self._book.subscription(condition).filters)
        return condition

    def live(self) -> list[tuple[tuple[str, str], str]]:
        """The subscriptions that have not ended: client and id, and the condition."""
        return list(self._conditions.items())

    def matching(self, attributes: Attributes) -> list[tuple[str, str]]:
        """The subscriptions, by client and id, that an event matches that is published now."""
        return self._view.match(attributes)

    def asking(self) -> dict[int, list[str]]:
        """For each condition, by its number in the index, the clients that have a live subscription with it."""
        return {number: [client for client, _ in keys] for number, keys in self._view.keys.items()}


def wanted_of(run: Run) -> pa.Table:
    """Every publication that a subscription matches, with the times between which the subscription was live."""
    from holdfast.matching.matcher import Matcher  # noqa: PLC0415  # compiled kernels: only who judges waits for them

    subscriptions = run.table("subscriptions")
    publications = run.table("publications").select(["source", "seq", "time_us", "lifetime_us"])
    matcher = Matcher()
    for number, condition in enumerate(subscriptions["condition"].to_pylist()):
        matcher.add(number, condition)
    parts = []
    for rows, events in run.events():
        pairs = matcher.match_batch(events)
        published = publications.take(rows.take(pairs["event"].combine_chunks()))
        asked = subscriptions.take(pairs["subscription"].cast(pa.int64()))
        parts.append(pa.table({**_columns(published), **_columns(asked.drop_columns(["id", "condition"]))}))
    return pa.concat_tables(parts)


def owed_of(wanted: pa.Table) -> pa.Table:
    """Of a trace: what is owed to whom, when it was published, and how far that lies within a subscription's life."""
    lived_us = pc.subtract(wanted["time_us"], wanted["from_us"])
    lives_on_us = pc.subtract(pc.fill_null(wanted["until_us"], _FOREVER_US), wanted["time_us"])
    live = pc.and_(pc.greater_equal(lived_us, 0), pc.greater(lives_on_us, 0))
    settled = wanted.append_column("settled_us", pc.min_element_wise(lived_us, lives_on_us)).filter(live)
    owed = settled.group_by([*EVENT, "time_us"]).aggregate([("settled_us", "max")])
    return owed.rename_columns({"settled_us_max": "settled_us"})


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))

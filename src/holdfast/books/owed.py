"""Who was owed an event, by a trace: every client with a matching subscription that was live when it was published.

The promises ask this of a trace as the ledger asks `live_subscriptions` during a run. The audit on Spark works it out
by itself (`pipeline/audit/owed.py`), so that one of the two finds the other's mistakes.
"""

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.books.runs import Run

EVENT = ["subscriber", "source", "seq"]
_FOREVER_US = 2**62  # a subscription that has not ended


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

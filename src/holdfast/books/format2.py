"""Traces of format 2, which version 0.1 wrote, read as format 3.

Format 2 kept facts in words: the kind of an incident was prose, and whom it concerned one text; a limit was a sample
named `NAME limit`; what a link carried was samples named `messages to PEER`. Here, and nowhere else, these words are
taken apart. Functions from table to table, so that plain Arrow and Spark's tasks read with the same code.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.books import trace
from holdfast.model.incidents import REQUESTED

FORMAT = 2
Upgrade = Callable[[pa.Table], pa.Table]
_text, _long = pa.string(), pa.int64()
SCHEMAS: dict[str, pa.Schema] = {
    **{name: trace.SCHEMAS[name] for name in ("subscriptions", "deliveries", "messages")},
    "incidents": pa.schema([("node", _text), ("time_us", _long), ("kind", _text), ("about", _text), ("count", _long)]),
    "samples": pa.schema([("node", _text), ("time_us", _long), ("name", _text), ("value", pa.float64())]),
}
# Kinds that have another name now; of the others only the blanks have become underscores.
_KINDS = {
    "lease ran out": "lease_expired",
    "neighbour is down": "neighbour_down",
    "neighbour is back": "neighbour_up",
    "stranger": "unknown_neighbour",
    "not wanted": "not_subscribed",
    "given up on a link": "link_repair_failed",
    "too late for its order": "out_of_order",
    "bad reliability message": "bad_recovery_message",
    "kept too long": "retention_expired",
    "given up": "stored_events_dropped",
    "left behind": "backlog_dropped",
    "too many not acknowledged": "unacknowledged_limit",
    "back again": "suspect_returned",
    "replaced broker came back": "replaced_broker_returned",
    "outdated replica": "replica_outdated",
    "no replica came": "no_replica",
    "waited for a replica in vain": "replica_backlog_dropped",
    "no way yet": "replica_not_ready",
    "too many wait for a replica": "replica_backlog_overflow",
    "too many kept by a replica": "replica_cache_overflow",
    "too many wait for their order": "reorder_buffer_overflow",
    "replica at another address": "replica_address_changed",
    "errand failed": "task_failed",
    "replication: waiting for advertisements": "replica_awaits_advertisements",
    "replication: waiting for subscriptions": "replica_awaits_subscriptions",
    "replication: replicated": "replica_ready",
    **{
        f"replication: {copying}, {use}": kind
        for copying in ("basic", "synchronous", "incremental", "ordered")
        for use, kind in REQUESTED.items()
    },
}
_MESSAGES = {
    "Run": "Batch",
    "Tell": "Delta",
    "Whole": "Snapshot",
    "Refused": "TableRefused",
    "Summary": "Heartbeat",
    "Missing": "Nack",
    "Latest": "HighestSent",
    "Taken": "StoredAck",
    "Alive": "KeepAlive",
    "Marks": "HighWaterMarks",
}
_OF_EVENTS = frozenset({"acknowledged", "expired", "unrecoverable", "out_of_order", "replica_not_ready"})  # SOURCE/SEQ
_OF_SOURCES = frozenset({"duplicate", "not_subscribed", "too_many_hops", "bad_record", "bad_recovery_message"})
_OF_REPLICAS = frozenset({"replaced_by", *REQUESTED.values()})  # "BROKER by REPLICA"
_IN_WORDS = frozenset({"replica_not_linked", "replica_address_changed", "task_failed"})
_OF_NOBODY_ELSE = frozenset({"crash", "restart"})  # `about` was the node itself
_LIMIT = " limit"
_LINK = {"messages to ": "sent", "bytes to ": "sent_bytes", "lost to ": "lost"}


def incidents(rows: pa.Table) -> pa.Table:
    found = [_incident(**row) for row in rows.select(SCHEMAS["incidents"].names).to_pylist()]
    return pa.Table.from_pylist(found, trace.SCHEMAS["incidents"])


def _incident(node: str, time_us: int, kind: str, about: str, count: int) -> dict[str, Any]:
    reason = copying = None
    if kind.startswith("unrecoverable: "):
        kind, _, reason = kind.partition(": ")
    elif kind.startswith("replication: ") and ", " in kind:
        copying = kind.removeprefix("replication: ").partition(", ")[0]
    kind = _KINDS.get(kind, kind.replace(" ", "_"))
    row = {"node": node, "time_us": time_us, "kind": kind, "count": count, "reason": reason, "copying": copying}
    if kind in _OF_EVENTS:
        source, _, seq = about.rpartition("/")
        return {**row, "source": source or None, "first": int(seq) or None}
    if kind in _OF_SOURCES:
        return {**row, "source": about or None}
    if kind in _OF_REPLICAS:
        peer, _, other = about.rpartition(" by ")
        return {**row, "peer": peer, "other": other}
    if kind in _IN_WORDS:
        peer, _, reason = about.rpartition(": ") if kind == "replica_not_linked" else ("", "", about)
        return {**row, "peer": peer or None, "reason": reason}
    if kind in _OF_NOBODY_ELSE:
        return row
    return {**row, "peer": about.removesuffix(" answers") or None}


def messages(rows: pa.Table) -> pa.Table:
    kinds = pa.array([_MESSAGES.get(kind, kind) for kind in rows["kind"].to_pylist()], _text)
    return rows.set_column(rows.column_names.index("kind"), "kind", kinds)


def samples(rows: pa.Table) -> pa.Table:
    """Values, each with the lowest limit that its node gave for its name."""
    is_limit, is_link = pc.ends_with(rows["name"], _LIMIT), _is_link(rows)
    given = rows.filter(is_limit)
    names = pa.array([name.removesuffix(_LIMIT) for name in given["name"].to_pylist()], _text)
    limits = pa.table({"node": given["node"], "name": names, "limit": given["value"]})
    limits = limits.group_by(["node", "name"]).aggregate([("limit", "min")]).rename_columns(["node", "name", "limit"])
    values = rows.filter(pc.invert(pc.or_(is_limit, is_link)))
    joined = values.join(limits, ["node", "name"], join_type="left outer")
    return joined.select(trace.SCHEMAS["samples"].names).cast(trace.SCHEMAS["samples"])


def links(rows: pa.Table) -> pa.Table:
    """What live brokers sampled of their links, each sample since the one before."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    before_us: dict[tuple[str, str], int] = {}
    of_links = rows.filter(_is_link(rows)).select(SCHEMAS["samples"].names).to_pylist()
    for row in sorted(of_links, key=lambda row: row["time_us"]):
        prefix = next(each for each in _LINK if row["name"].startswith(each))
        ends, until_us = (row["node"], row["name"].removeprefix(prefix)), row["time_us"]
        if (*ends, until_us) not in found:
            empty = {"node": ends[0], "peer": ends[1], "from_us": before_us.get(ends, 0), "until_us": until_us}
            found[*ends, until_us] = empty | dict.fromkeys(_LINK.values(), 0)
            before_us[ends] = until_us
        found[*ends, until_us][_LINK[prefix]] = int(row["value"])
    return pa.Table.from_pylist(list(found.values()), trace.SCHEMAS["links"])


def _is_link(rows: pa.Table) -> pa.ChunkedArray:
    one, two, three = (pc.starts_with(rows["name"], each) for each in _LINK)
    return pc.or_(pc.or_(one, two), three)


# Where each table of format 3 comes from; the others are as they were.
UPGRADES: dict[str, tuple[str, Upgrade]] = {
    "incidents": ("incidents", incidents),
    "messages": ("messages", messages),
    "samples": ("samples", samples),
    "links": ("samples", links),
}


def upgraded(name: str, read: Callable[[str], pa.Table]) -> pa.Table:
    """A table of format 3, from what `read` returns of format 2."""
    if name not in UPGRADES:
        return read(name)
    origin, upgrade = UPGRADES[name]
    return upgrade(read(origin))


def in_batches(upgrade: Upgrade) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For Spark's tasks: tables that are upgraded row by row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from upgrade(pa.Table.from_batches([batch])).to_batches()

    return run

"""What each link between brokers carried and lost, where the trace has samples of it: those of live runs do.

A replica counts as the broker in whose place it stands, so that a network keeps its shape when one is replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.books.trace import LINK_BYTES, LINK_LOST, LINK_SENT
from holdfast.pipeline.audit.trace_tables import TraceRun, together

_DIRECTIONS_MAX = 2_000  # the busiest; a picture of more links than this says nothing
_NAMES = {LINK_SENT: "sent", LINK_BYTES: "bytes", LINK_LOST: "lost"}


@dataclass(frozen=True)
class Direction:
    """From one broker to a neighbour, over the whole run: messages that the link may lose."""

    sender: str
    receiver: str
    sent: int
    bytes: int
    lost: int

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else 0.0


def link_sums(runs: Sequence[TraceRun]) -> DataFrame:
    """One row for each run, sender and receiver; the busiest first."""
    samples = together(runs, "samples")
    # Key: run, sender, receiver. As many rows a group as the run has seconds.
    what = F.regexp_extract("name", f"^({'|'.join(_NAMES)}) (.*)$", 1)
    to = F.regexp_extract("name", f"^({'|'.join(_NAMES)}) (.*)$", 2)
    sums = [
        F.coalesce(F.sum(F.when(F.col("what") == what_, F.col("value"))), F.lit(0.0)).cast("long").alias(name)
        for what_, name in _NAMES.items()
    ]
    named = samples.select("run", F.col("node").alias("sender"), to.alias("receiver"), what.alias("what"), "value")
    summed = named.where("what <> ''").groupBy("run", "sender", "receiver").agg(*sums)
    return summed.orderBy(F.col("sent").desc(), "run", "sender", "receiver").limit(_DIRECTIONS_MAX)


def in_place(directions: Sequence[Direction], stands_for: Mapping[str, str]) -> list[Direction]:
    """The same with replicas counted as those whose place they took."""
    found: dict[tuple[str, str], Direction] = {}
    for each in directions:
        ends = stands_for.get(each.sender, each.sender), stands_for.get(each.receiver, each.receiver)
        known = found.get(ends, Direction(*ends, 0, 0, 0))
        found[ends] = Direction(*ends, known.sent + each.sent, known.bytes + each.bytes, known.lost + each.lost)
    return sorted(found.values(), key=lambda each: (each.sender, each.receiver))

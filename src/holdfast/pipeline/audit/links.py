"""What each link between brokers carried and lost, where the trace has rows of it: those of live runs do.

A replica counts as the broker in whose place it stands, so that a network keeps its shape when one is replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation

_DIRECTIONS_MAX = 2_000  # the busiest; a picture of more links than this says nothing


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


def link_sums(trace: Trace) -> Relation:
    """One row for each run, sender and receiver; the busiest first."""
    # Key: run, sender, receiver. As many rows a group as the run has seconds.
    return trace.engine.sql(f"""
        SELECT run, node AS sender, peer AS receiver, sum(sent) AS sent, sum(sent_bytes) AS bytes, sum(lost) AS lost
        FROM {trace.links} GROUP BY run, node, peer
        ORDER BY sent DESC, run, sender, receiver LIMIT {_DIRECTIONS_MAX}""")


def in_place(directions: Sequence[Direction], replaced_by: Mapping[str, str]) -> list[Direction]:
    """The same with replicas counted as those whose place they took."""
    found: dict[tuple[str, str], Direction] = {}
    for each in directions:
        ends = replaced_by.get(each.sender, each.sender), replaced_by.get(each.receiver, each.receiver)
        known = found.get(ends, Direction(*ends, 0, 0, 0))
        found[ends] = Direction(*ends, known.sent + each.sent, known.bytes + each.bytes, known.lost + each.lost)
    return sorted(found.values(), key=lambda each: (each.sender, each.receiver))

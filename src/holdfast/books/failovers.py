"""The moments of every replication in a trace: a broker fails, its neighbours notice, a replica asks them and is ready.

They are incidents like others; here they are put together. A broker that hangs or is cut off reports no failure: its
last message shows since when, or the fault that the run's file asked for. Whoever judges a replication needs them: what
was published between the failure and its detection went to a broker that was no more, and nobody can bring it back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.model.incidents import REQUESTED
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse

CRASHED, HUNG, SUSPECTED, READY, MOVED = "crash", "hang", "suspected", "replica_ready", "broker_lost"
DIED = "replica_lost"  # of a relief replica: somebody noticed that it has died
ALIVE = "alive"  # no incident: the node sent something, some of which was not lost, in the interval that began then
_USES = {kind: use for use, kind in REQUESTED.items()}
REQUESTED_KINDS = frozenset(_USES)
MOMENTS = (CRASHED, HUNG, SUSPECTED, READY, MOVED, DIED, *_USES)


class Moment(NamedTuple):
    """An incident, in so far as it concerns replication: columns of the table `incidents`. Or a sign of life."""

    node: str
    time_us: int
    kind: str
    peer: str | None = None
    other: str | None = None
    copying: str | None = None


@dataclass(frozen=True)
class Failover:
    faulty: str
    replica: str
    copying: CopyProtocol
    use: ReplicaUse
    failed_us: int | None  # None: it did not fail, it was slow
    noticed_us: int  # by the last of its neighbours
    asked_us: int  # when the replica's first request came
    ready_us: int | None
    died_us: int | None = None  # the relief replica, beside the broker,
    missed_us: int | None = None  # and when the last of its neighbours noticed

    @property
    def window_us(self) -> tuple[int, int] | None:
        """From a death until it was noticed: what was sent to the dead broker in between is lost."""
        if self.use == "failover":
            return None if self.failed_us is None else (self.failed_us, self.noticed_us)
        return None if self.died_us is None or self.missed_us is None else (self.died_us, self.missed_us)

    @property
    def promises_complete(self) -> bool:
        return self.copying != "basic"

    @property
    def promises_order(self) -> bool:
        return self.use == "reordering" or (self.use == "failover" and self.copying != "incremental")

    def cost(self, published_us: int, transit_us: int) -> bool:
        """Whether a death may have taken an event that was published then and is so long on its way."""
        window_us = self.window_us
        return window_us is not None and window_us[0] - transit_us <= published_us <= window_us[1]


def failovers(moments: Iterable[Moment]) -> list[Failover]:
    rows = sorted(moments, key=lambda row: row.time_us)
    asked: dict[tuple[str, str], list[Moment]] = {}
    for row in rows:
        if row.kind in _USES and row.peer and row.other:
            asked.setdefault((row.peer, row.other), []).append(row)
    return [_failover(faulty, replica, requests, rows) for (faulty, replica), requests in asked.items()]


def _failover(faulty: str, replica: str, requests: list[Moment], rows: list[Moment]) -> Failover:
    use = _USES[requests[0].kind]
    noticed_us = []
    for each in requests:
        doubt = each.node, SUSPECTED, faulty
        doubts = [row.time_us for row in rows if (row.node, row.kind, row.peer) == doubt]
        noticed_us.append(max((at for at in doubts if at <= each.time_us), default=each.time_us))
    ready = [at for node, at, kind, *_ in rows if (node, kind) == (replica, READY)]
    missed_us = [row.time_us for row in rows if (row.kind, row.peer) == (DIED, replica)] if use != "failover" else []
    return Failover(
        faulty,
        replica,
        requests[0].copying,  # type: ignore[arg-type]
        use,
        _failed_us(faulty, noticed_us, rows) if use == "failover" else None,
        max(noticed_us),
        requests[0].time_us,
        min(ready, default=None),
        _failed_us(replica, missed_us, rows) if missed_us else None,
        max(missed_us, default=None),
    )


def _failed_us(broker: str, noticed_us: list[int], rows: list[Moment]) -> int:
    """When a broker died, of which its neighbours noticed then."""
    crashes = [at for node, at, kind, *_ in rows if (node, kind) == (broker, CRASHED) and at <= max(noticed_us)]
    if not crashes:  # it hangs, or is cut off: it has failed since its last sign of life
        last = (ALIVE, HUNG)
        crashes = [at for node, at, kind, *_ in rows if node == broker and kind in last and at <= min(noticed_us)]
    return max(crashes, default=min(noticed_us))


def moved(moments: Iterable[Moment]) -> set[str]:
    """Clients whose own broker was lost; they miss what is published until they are connected again."""
    return {row.node for row in moments if row.kind == MOVED}
